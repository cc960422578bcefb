"""The draw of a class-balanced export: a first pass over the label band."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam

from patchbeam.draw import Drawn, Holding, LabelReader, draw_patches, drawn_parts
from patchbeam.plan import ExportPlan
from patchbeam.selection import Parts
from transforms import coders as coders
from transforms.blocks import CreateReadBlocks, Stretch
from transforms.meters import Advance, Reading
from transforms.write import gather


class _ReadLabels(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._reader = LabelReader(self._plan, threads=self._threads)
        self._reading, self._advance = Reading(), Advance("label_blocks")

    def process(self, stretch: Stretch) -> Iterator[Holding]:
        for block in stretch:
            holding = self._reader.holding(block)
            self._reading.take()
            self._advance(1)
            yield holding

    def teardown(self) -> None:
        if hasattr(self, "_reader"):
            self._reader.close()


class _Draw(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan) -> None:
        self._plan = plan

    def process(self, gathered: tuple[None, Iterable[Holding | None]]) -> Iterator[Drawn]:
        yield draw_patches(self._plan, [found for found in gathered[1] if found is not None])


class DrawPatches(beam.PTransform):  # type: ignore[misc]
    """Draws the patches of a plan that balances classes: ``PBegin`` → one :class:`~patchbeam.draw.Drawn`.

    Args:
        plan: the export.
        threads: threads inside one element.
    """

    def __init__(self, plan: ExportPlan, *, threads: int = 1) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Drawn]:
        """Counts classes block by block; one task draws."""
        found = (
            begin
            | "CreateLabelBlocks" >> CreateReadBlocks(self._plan)
            | "ReadLabels" >> beam.ParDo(_ReadLabels(self._plan, self._threads)).with_output_types(Holding)
        )
        return gather(found, "Labels") | "Draw" >> beam.ParDo(_Draw(self._plan)).with_output_types(Drawn)


class DrawnParts:
    """Makes of a draw what readers and encoders ask, once for as long as it is the same."""

    def __init__(self, plan: ExportPlan) -> None:
        self._plan = plan
        self._drawn: Drawn | None = None
        self._parts: Parts | None = None

    def of(self, drawn: Drawn | None) -> Parts | None:
        """Returns of each patch its split or -1; ``None`` without a draw."""
        if drawn is None:
            return None
        if self._parts is None or drawn is not self._drawn:
            self._drawn, self._parts = drawn, drawn_parts(self._plan, drawn)
        return self._parts
