"""Sampled records back in the order of the features, a bucket of consecutive features at a time."""

from __future__ import annotations

import numpy as np

from patchbeam.elements import RecordRun
from patchbeam.errors import CountMismatch
from patchbeam.records.scatter import Pieces
from patchbeam.tables.encode import record_run
from patchbeam.tables.entries import put_ragged
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.sampling.blocks import SAMPLED
from patchbeam.tables.sampling.spool import GatherTask, read_exact, read_index


def ordered_run(plan: TablePlan, task: GatherTask) -> RecordRun:
    """Returns the records of a bucket in feature order.

    Raises:
        CountMismatch: a feature of the bucket is missing or came twice.
    """
    assert plan.sample is not None
    stretches, paths = read_index(task)
    tables, datas = [], []
    for (_, first, count, start, length), path in zip(stretches.tolist(), paths, strict=True):
        tables.append(
            np.frombuffer(read_exact(path, 8 + first * SAMPLED.itemsize, count * SAMPLED.itemsize), SAMPLED)
        )
        datas.append(np.frombuffer(read_exact(path, start, length), np.uint8))
    table, data = np.concatenate(tables), np.concatenate(datas)
    order = np.argsort(table["feature"], kind="stable")
    first = task.key * plan.sample.bucket_rows
    due = np.arange(first, min(first + plan.sample.bucket_rows, plan.source.rows))
    if not np.array_equal(table["feature"][order], due):
        raise CountMismatch(
            f"features {first} to {int(due[-1])}: {len(table)} sampled records came for them, not "
            f"{len(due)}: the "
            "runner lost or repeated work; nothing has been published. Run the job again, on another "
            "runner if it "
            "happens again"
        )
    starts = np.cumsum(table["size"]) - table["size"]
    sizes = np.ascontiguousarray(table["size"][order])
    pieces = Pieces(sizes)
    put_ragged(pieces, data, starts[order], sizes, None)
    return record_run(first, len(due), pieces.buffer, sizes, task.counts)
