"""Read blocks to pixels: one read of each source block, in the source's type."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from patchbeam.draw import Drawn
from patchbeam.elements import PixelBlock
from patchbeam.export import BlockReader
from patchbeam.plan import ExportPlan
from patchbeam.retry import take_count
from transforms import coders as coders
from transforms.draw import DrawnParts


class _ReadBlock(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._reader = BlockReader(self._plan, threads=self._threads)
        self._parts = DrawnParts(self._plan)
        self._blocks = beam.metrics.Metrics.counter("patchbeam", "blocks_read")
        self._retries = beam.metrics.Metrics.counter("patchbeam", "retries")
        self._bytes = beam.metrics.Metrics.counter("patchbeam", "bytes_read")

    def process(self, block: int, drawn: Drawn | None = None) -> Iterator[PixelBlock]:
        pixels = self._reader.read(block, self._parts.of(drawn))
        self._blocks.inc()
        self._retries.inc(take_count())
        self._bytes.inc(sum(band.values.nbytes for band in pixels.bands))
        yield pixels

    def teardown(self) -> None:
        if hasattr(self, "_reader"):
            self._reader.close()


class ReadWindows(beam.PTransform):  # type: ignore[misc]
    """Reads the pixels of blocks: ``int`` → :class:`~patchbeam.elements.PixelBlock`.

    Args:
        plan: the export.
        threads: threads inside one element; 1 where the runner brings its own workers.
        drawn: side input of a draw that pixels decide; blocks without a drawn patch are not read.
    """

    def __init__(
        self, plan: ExportPlan, *, threads: int = 1, drawn: beam.pvalue.AsSingleton | None = None
    ) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._drawn = drawn

    def expand(self, blocks: beam.PCollection[int]) -> beam.PCollection[PixelBlock]:
        """One element a block."""
        return blocks | "Read" >> beam.ParDo(
            _ReadBlock(self._plan, self._threads), drawn=self._drawn
        ).with_output_types(PixelBlock)
