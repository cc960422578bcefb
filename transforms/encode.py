"""Pixels to runs of encoded records."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from patchbeam.cut import masked_patches
from patchbeam.draw import Drawn
from patchbeam.elements import PixelBlock, RecordRun
from patchbeam.export import block_encoder
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from transforms import coders as coders
from transforms.draw import DrawnParts
from transforms.meters import counter, distribution


class _EncodeBlock(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._encoder = block_encoder(self._plan, self._pool)
        self._parts = DrawnParts(self._plan)
        self._records, self._bytes = counter("records_encoded"), counter("bytes_encoded")
        self._dropped, self._masked = counter("patches_dropped"), counter("patches_masked")
        self._sizes, self._of_block = distribution("run_bytes"), distribution("block_patches_masked")

    def process(self, block: PixelBlock, drawn: Drawn | None = None) -> Iterator[RecordRun]:
        if block.bands:
            masked = masked_patches(self._plan.blocks, block)
            self._masked.inc(masked)
            self._of_block.update(masked)
        for run in self._encoder.runs(block, self._parts.of(drawn)):
            self._records.inc(run.records)
            self._bytes.inc(len(run.data))
            self._sizes.update(len(run.data))
            self._dropped.inc(run.patches - int(run.kept[:, 1].sum()))
            yield run

    def teardown(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close()


class EncodeExamples(beam.PTransform):  # type: ignore[misc]
    """Encodes patches: :class:`~patchbeam.elements.PixelBlock` → :class:`~patchbeam.elements.RecordRun`.

    One run a patch row of the block, or a stretch of one split in it, in patch order.

    Args:
        plan: the export.
        threads: threads inside one element.
        drawn: side input of a draw that pixels decide; other patches are left out.
    """

    def __init__(
        self, plan: ExportPlan, *, threads: int = 1, drawn: beam.pvalue.AsSingleton | None = None
    ) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._drawn = drawn

    def expand(self, blocks: beam.PCollection[PixelBlock]) -> beam.PCollection[RecordRun]:
        """One or more elements a block."""
        return blocks | "Encode" >> beam.ParDo(
            _EncodeBlock(self._plan, self._threads), drawn=self._drawn
        ).with_output_types(RecordRun)
