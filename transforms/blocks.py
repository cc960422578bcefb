"""The numbers of the read blocks, fanned out over the workers."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from patchbeam import counts
from patchbeam.elements import Piece
from patchbeam.finished import load_finished
from patchbeam.plan import ExportPlan
from transforms import coders as coders

Stretch = tuple[int, ...]
"""Numbers of read blocks that are one element."""

_SEEDS = 1000
"""Ranges in the job message: it stays small whatever the job's size."""


_STRETCH = 32
"""Blocks an element where threads share its work: only the first of them is waited for."""


class _Expand(beam.DoFn):  # type: ignore[misc]
    def __init__(self, finished: str | None, stretch: int) -> None:
        self._path = finished
        self._stretch = stretch
        self._finished: frozenset[int] = frozenset()

    def setup(self) -> None:
        if self._path is not None:
            self._finished = frozenset(load_finished(self._path).blocks.tolist())

    def process(self, bounds: tuple[int, int]) -> Iterator[tuple[int, ...]]:
        todo = [block for block in range(*bounds) if block not in self._finished]
        return (tuple(todo[i : i + self._stretch]) for i in range(0, len(todo), self._stretch))


class CreateReadBlocks(beam.PTransform):  # type: ignore[misc]
    """Creates the block numbers of a plan, in stretches: ``PBegin`` → ``tuple[int, ...]``.

    Args:
        plan: the export.
        finished: file of the blocks that an interrupted run has finished; they are left out.
        threads: of those who read them. With one a stretch is one block, so that the runner can deal
            them out; with more it is several, so that the next is read while the last is worked on.
    """

    def __init__(self, plan: ExportPlan, finished: str | None = None, *, threads: int = 1) -> None:
        super().__init__()
        self._count = plan.blocks.count
        self._finished = finished
        self._stretch = _STRETCH if threads > 1 else 1

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[tuple[int, ...]]:
        """Makes ranges, then stretches, then lets the runner deal them out."""
        step = max(self._stretch, -(-self._count // _SEEDS))
        ranges = [(start, min(self._count, start + step)) for start in range(0, self._count, step)]
        return (
            begin
            | "Ranges" >> beam.Create(ranges)
            | "Numbers" >> beam.ParDo(_Expand(self._finished, self._stretch)).with_output_types(Stretch)
            | "Deal" >> beam.Reshuffle()
        )


def _pieces_of(path: str) -> Iterator[Piece]:
    pieces = load_finished(path).pieces
    counts.advance("patches", sum(piece.patches for piece in pieces), skipped=True)
    return iter(pieces)


class FinishedPieces(beam.PTransform):  # type: ignore[misc]
    """Creates the pieces that an interrupted run has finished: ``PBegin`` → :class:`Piece`.

    Args:
        finished: file of what it has finished.
    """

    def __init__(self, finished: str) -> None:
        super().__init__()
        self._finished = finished

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Piece]:
        """One worker reads the file."""
        return (
            begin
            | "File" >> beam.Create([self._finished])
            | "Load" >> beam.FlatMap(_pieces_of).with_output_types(Piece)
        )
