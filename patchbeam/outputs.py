"""Names of the shards of an export, whether or not it has splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from patchbeam import storage
from patchbeam.assemble import AssembledShard
from patchbeam.elements import Ints
from patchbeam.errors import CountMismatch, JobError, ReadFailed
from patchbeam.manifest import Manifest, from_ranges
from patchbeam.plan import ExportPlan
from patchbeam.records.names import manifest_name, shard_name
from patchbeam.sidecars import own_outputs
from patchbeam.summary import Summary


def outputs_there(prefix: str, splits: Sequence[str] = ()) -> list[str]:
    """Returns the files of an earlier export with this prefix.

    Args:
        prefix: of the export.
        splits: names of splits to look for beside those that the earlier export's manifest names.
    """
    names = storage.list_names(prefix)
    return own_outputs(names, prefix, splits=sorted({*splits, *_earlier_splits(names, prefix)}))


def _earlier_splits(names: Sequence[str], prefix: str) -> list[str]:
    path = manifest_name(prefix)
    if path not in names:
        return []
    try:
        splits = Manifest.from_text(storage.read_bytes(path), path).splits
    except (JobError, ReadFailed):
        return []  # damaged, or of another version: it is replaced all the same
    return [] if splits is None else [part.name for part in splits.parts]


def split_names(plan: ExportPlan) -> tuple[str, ...]:
    """Returns the names of the splits, none without splits."""
    return () if plan.split is None else plan.split.names


def kept_of_split(plan: ExportPlan, summary: Summary, number: int) -> Ints:
    """Returns the patches of a split that have records, rising."""
    kept = from_ranges(summary.kept)
    parts = plan.split_parts
    return kept if parts is None else kept[parts[kept] == number]


def shards_of_splits(
    plan: ExportPlan, summary: Summary, shards: Sequence[AssembledShard]
) -> list[int | None]:
    """Returns the number of the split of each shard, ``None`` for all without splits.

    Args:
        plan: the export.
        summary: what the pieces together say.
        shards: in order, split after split.

    Raises:
        CountMismatch: a shard does not end where its split does.
    """
    if plan.split is None:
        return [None] * len(shards)
    due = [
        len(kept_of_split(plan, summary, number)) * plan.records_per_patch
        for number in range(len(plan.split.names))
    ]
    ends, limits = np.cumsum([shard.records for shard in shards]), np.cumsum(due)
    found = np.searchsorted(limits, ends, side="left").tolist()
    for shard, number, end in zip(shards, found, ends.tolist(), strict=True):
        first = end - shard.records
        if number == len(due) or first < limits[number] - due[number]:
            raise CountMismatch(
                f"shard {shard.number} of {shard.records} records ends at record {end}, no end of a "
                f"split of {due} records: the runner lost or repeated work; run the job again"
            )
    return list(found)


def shard_names(plan: ExportPlan, summary: Summary, shards: Sequence[AssembledShard]) -> list[str]:
    """Returns the final name of each shard.

    Args:
        plan: the export.
        summary: what the pieces together say.
        shards: in order.
    """
    of = shards_of_splits(plan, summary, shards)
    total = Counter(of)
    done: Counter[int | None] = Counter()
    names: list[str] = []
    for number in of:
        names.append(
            shard_name(
                plan.output,
                done[number],
                total[number],
                naming=plan.naming,
                compressed=plan.options.compressed,
                split=None if number is None else split_names(plan)[number],
            )
        )
        done[number] += 1
    return names
