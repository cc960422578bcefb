"""Pixels to runs of encoded records."""

from __future__ import annotations

from collections.abc import Iterator

import apache_beam as beam

from patchbeam.elements import PixelBlock, RecordRun
from patchbeam.export import block_encoder
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from transforms import coders as coders


class _EncodeBlock(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._encoder = block_encoder(self._plan, self._pool)
        self._records = beam.metrics.Metrics.counter("patchbeam", "records_encoded")
        self._dropped = beam.metrics.Metrics.counter("patchbeam", "patches_dropped")

    def process(self, block: PixelBlock) -> Iterator[RecordRun]:
        for run in self._encoder.runs(block):
            self._records.inc(run.records)
            self._dropped.inc(run.patches - int(run.kept[:, 1].sum()))
            yield run

    def teardown(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close()


class EncodeExamples(beam.PTransform):  # type: ignore[misc]
    """Encodes patches: :class:`~patchbeam.elements.PixelBlock` → :class:`~patchbeam.elements.RecordRun`.

    One run a patch row of the block, in patch order.

    Args:
        plan: the export.
        threads: threads inside one element.
    """

    def __init__(self, plan: ExportPlan, *, threads: int = 1) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads

    def expand(self, blocks: beam.PCollection[PixelBlock]) -> beam.PCollection[RecordRun]:
        """One or more elements a block."""
        return blocks | "Encode" >> beam.ParDo(_EncodeBlock(self._plan, self._threads)).with_output_types(
            RecordRun
        )
