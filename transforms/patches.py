"""Patches as arrays, so that a model can stand between an export and a map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import numpy as np
from numpy.typing import NDArray

from patchbeam.blocks import BlockGrid
from patchbeam.cut import cut_patch
from patchbeam.elements import PixelBlock
from patchbeam.mosaic.counts import open_schema
from patchbeam.mosaic.decode import PatchSource
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.mosaic.state import load_state, save_state
from patchbeam.plan import ExportPlan
from patchbeam.records.index import FileIndex
from transforms.blocks import CreateReadBlocks
from transforms.import_image import IndexRecords, joined, state_path
from transforms.read import ReadWindows

Named = dict[str, NDArray[Any]]


class _CutPatches(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan) -> None:
        self._plan = plan

    def process(self, block: PixelBlock) -> Iterator[tuple[int, Named]]:
        blocks: BlockGrid = self._plan.blocks
        names = [band.name for band in self._plan.record_bands]
        for run in blocks.runs(block.block):
            for index in range(run.first, run.first + run.count):
                patch = cut_patch(blocks, block, index, self._plan.defaults)
                values = [np.array(band.values) for band in patch.bands]
                yield index, dict(zip(names, values, strict=True))


class _PlanRows(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan) -> None:
        self._plan = plan

    def process(self, gathered: tuple[None, Iterable[tuple[int, FileIndex] | None]]) -> Iterator[int]:
        files = joined(gathered[1], len(self._plan.records))
        schema = open_schema(files, self._plan.layout, self._plan.options)
        save_state(state_path(self._plan), files, schema)
        yield from range(self._plan.layout.patches.rows)


class _ReadRow(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan) -> None:
        self._plan = plan
        self._source: PatchSource | None = None

    def process(self, row: int) -> Iterator[tuple[int, Named]]:
        if self._source is None:
            files, schema, order = load_state(state_path(self._plan))
            self._source = PatchSource(files, self._plan.layout, schema, order)
        for part in self._source.parts(row, range(self._plan.layout.patches.columns)):
            for patch, arrays, _ in self._source.read_features(part):
                yield patch, {n: np.array(a[0] if len(a) == 1 else a) for n, a in arrays.items()}


class ReadPatches(beam.PTransform):  # type: ignore[misc]
    """Reads patches, margins included: ``PBegin`` → ``(patch index, {band: array})``.

    Arrays are ``(row, col)``, or ``(channel, row, col)`` of array bands. From an export's plan they come
    straight from the sources, in each band's type, masked pixels holding ``defaultValue``; from an import's
    plan they come from its records, by feature.

    Args:
        plan: of an export (:class:`~patchbeam.plan.ExportPlan`), whose sources are read, or of an import
            (:class:`~patchbeam.mosaic.plan.ImportPlan`), whose records are read. Of the latter ``output`` is
            where temporary files go; nothing else is written.
        threads: threads inside one element.
    """

    def __init__(self, plan: ExportPlan | ImportPlan, *, threads: int = 1) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[tuple[int, Named]]:
        """Blocks or patch rows are dealt out; each is read where it is cut."""
        plan = self._plan
        if isinstance(plan, ExportPlan):
            return (
                begin
                | "CreateReadBlocks" >> CreateReadBlocks(plan, threads=self._threads)
                | "ReadWindows" >> ReadWindows(plan, threads=self._threads)
                | "Cut" >> beam.ParDo(_CutPatches(plan)).with_output_types(tuple[int, Named])
            )
        return (
            begin
            | "IndexRecords"
            >> IndexRecords(plan.records, plan.temporary_folder, plan.members, threads=self._threads)
            | "PlanRows" >> beam.ParDo(_PlanRows(plan)).with_output_types(int)
            | "DealRows" >> beam.Reshuffle()
            | "ReadRow" >> beam.ParDo(_ReadRow(plan)).with_output_types(tuple[int, Named])
        )
