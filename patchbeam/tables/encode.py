"""Batches of features to runs of framed records."""

from __future__ import annotations

import numpy as np

from patchbeam.elements import Bytes, Ints, RecordRun
from patchbeam.errors import EncodeError
from patchbeam.tables.columns import column_entries, texts
from patchbeam.tables.entries import Entries, RaggedEntries
from patchbeam.tables.framing import frame_rows
from patchbeam.tables.geometry import geometry_entries, present
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.source import INDEX, FeatureBatch


class FeatureEncoder:
    """Encodes the features of one table."""

    def __init__(self, plan: TablePlan) -> None:
        """Encodes as ``plan`` says, sampled bands aside."""
        self._plan = plan
        self._columns = {column.name: column for column in plan.columns}

    def entries(self, batch: FeatureBatch) -> tuple[list[Entries], list[int]]:
        """Returns the entries of each feature, in wire order, and the rounded integers of each property.

        Raises:
            EncodeError: a value cannot be held, or is rounded under ``strict``; names property and feature.
        """
        entries: list[Entries] = []
        rounded: list[int] = []

        def place(row: int) -> str:
            return f"feature {batch.first + row}"

        for name in self._plan.selectors:
            if name == INDEX:
                assert batch.ids is not None
                data, starts, sizes = texts(batch.ids)
                entries.append(RaggedEntries(INDEX, "bytes", data, starts, sizes, present(batch.ids)))
                continue
            made, count = column_entries(self._columns[name], batch.values.column(name), place)
            if count and self._plan.strict:
                raise EncodeError(
                    f"property {name!r}: {count} integers of the features {batch.first} to "
                    f"{batch.first + batch.rows - 1} are not exact in float32, and strict is set; make the "
                    "property "
                    "text, leave it out, or set strict: false"
                )
            entries.append(made)
            rounded.append(count)
        if self._plan.geometry is not None:
            assert batch.wkb is not None
            entries += geometry_entries(self._plan.geometry, batch.wkb, str(self._plan.source.crs), place)
        return entries, rounded

    def run(self, batch: FeatureBatch) -> RecordRun:
        """Returns the records of a batch."""
        entries, rounded = self.entries(batch)
        data, sizes = frame_rows(entries, batch.rows)
        return record_run(batch.first, batch.rows, data, sizes, tuple(rounded))


def record_run(
    first: int, features: int, data: Bytes, sizes: Ints, rounded: tuple[int, ...], block: int = 0
) -> RecordRun:
    """Returns records as what the writer of pieces takes.

    Args:
        first: number of the first record: its place among all.
        features: features looked at.
        data: framed records.
        sizes: bytes of each.
        rounded: rounded integers of each property.
        block: the read block that they come from.
    """
    equal = len(sizes) > 0 and int(sizes.min()) == int(sizes.max())
    return RecordRun(
        block=block,
        first_patch=first,
        patches=features,
        kept=np.array([[first, len(sizes)]], np.int64),
        data=data,
        record_size=int(sizes[0]) if equal else 0,
        sizes=None if equal else sizes,
        moments=(),
        rounded=rounded,
    )
