"""Read blocks to pixels: one read of each source block, in the source's type."""

from __future__ import annotations

import time
from collections.abc import Iterator

import apache_beam as beam

from patchbeam.draw import Drawn
from patchbeam.elements import PixelBlock
from patchbeam.export import BlockReader, prepare_reading
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from patchbeam.selection import Parts
from transforms import coders as coders
from transforms.blocks import Stretch
from transforms.draw import DrawnParts
from transforms.meters import Reading, counter, distribution


class _ReadBlock(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._reader = BlockReader(self._plan, threads=self._threads)
        self._parts = DrawnParts(self._plan)
        self._reading = Reading()
        self._blocks, self._bytes = counter("blocks_read"), counter("bytes_read")
        self._sizes, self._times = distribution("block_bytes"), distribution("block_read_ms")

    def process(self, stretch: Stretch, drawn: Drawn | None = None) -> Iterator[PixelBlock]:
        parts = self._parts.of(drawn)
        for pixels, seconds in self._pool.ahead(self._timed(block, parts) for block in stretch):
            self._reading.take()
            if pixels.bands:  # else no patch of it is chosen and nothing was read
                size = sum(band.values.nbytes for band in pixels.bands)
                self._blocks.inc()
                self._bytes.inc(size)
                self._sizes.update(size)
                self._times.update(round(1000 * seconds))
            yield pixels

    def _timed(self, block: int, parts: Parts | None) -> tuple[PixelBlock, float]:
        begun = time.perf_counter()
        return self._reader.read(block, parts), time.perf_counter() - begun

    def teardown(self) -> None:
        if hasattr(self, "_reader"):
            self._pool.close()
            self._reader.close()


class ReadWindows(beam.PTransform):  # type: ignore[misc]
    """Reads the pixels of blocks: ``tuple[int, ...]`` → :class:`~patchbeam.elements.PixelBlock`, one a block.

    With more than one thread the next block of a stretch is read while the last one is worked on.

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
        if threads > 1:  # no runner's own workers: it is read here
            prepare_reading(plan)

    def expand(self, blocks: beam.PCollection[Stretch]) -> beam.PCollection[PixelBlock]:
        """One element a block, in the order of the stretch."""
        return blocks | "Read" >> beam.ParDo(
            _ReadBlock(self._plan, self._threads), drawn=self._drawn
        ).with_output_types(PixelBlock)
