"""The numbers of the read blocks, fanned out over the workers."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from patchbeam.plan import ExportPlan

_SEEDS = 1000
"""Ranges in the job message: it stays small whatever the job's size."""


def _expand(bounds: tuple[int, int]) -> Iterator[int]:
    return iter(range(*bounds))


class CreateReadBlocks(beam.PTransform):  # type: ignore[misc]
    """Creates the block numbers of a plan: ``PBegin`` → ``int``.

    Args:
        plan: the export.
    """

    def __init__(self, plan: ExportPlan) -> None:
        super().__init__()
        self._count = plan.blocks.count

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[int]:
        """Makes ranges, then numbers, then lets the runner deal them out."""
        step = max(1, -(-self._count // _SEEDS))
        ranges = [(start, min(self._count, start + step)) for start in range(0, self._count, step)]
        return (
            begin
            | "Ranges" >> beam.Create(ranges)
            | "Numbers" >> beam.FlatMap(_expand).with_output_types(int)
            | "Deal" >> beam.Reshuffle()
        )
