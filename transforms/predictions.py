"""Predictions of anyone's pipeline to a map."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from patchbeam import storage
from patchbeam.errors import OutputExists
from patchbeam.mosaic.counts import open_schema
from patchbeam.mosaic.finished import TileDone
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.make import TileMaker
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.mosaic.publish import is_published, publish_map
from patchbeam.mosaic.spool import Arrays, PatchSpool, SpoolPiece, join_pieces
from patchbeam.mosaic.state import load_state, save_state
from patchbeam.mosaic.tiles import existing_maps, import_name
from transforms.import_image import state_path
from transforms.write import gather


class _Spool(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan) -> None:
        self._plan = plan

    def start_bundle(self) -> None:
        self._spool = PatchSpool(self._plan.temporary_folder, self._plan.layout)

    def process(self, element: tuple[int, Arrays]) -> Iterator[SpoolPiece]:
        piece = self._spool.add(*element)
        if piece is not None:
            yield piece

    def finish_bundle(self) -> Iterator[Any]:
        piece = self._spool.finish()
        if piece is not None:
            window = GlobalWindow()
            yield WindowedValue(piece, window.max_timestamp(), [window])


class _PlanSpooled(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan, allow_missing: bool) -> None:
        self._plan = plan
        self._allow_missing = allow_missing

    def process(self, gathered: tuple[None, Iterable[SpoolPiece | None]]) -> Iterator[tuple[int, Any]]:
        plan = self._plan
        pieces = [piece for piece in gathered[1] if piece is not None]
        files, order, layout, depths = join_pieces(pieces, plan.layout, allow_missing=self._allow_missing)
        options = replace(plan.options, depths={**depths, **plan.options.depths})
        schema = open_schema(files, layout, options)
        save_state(state_path(plan), files, schema, order)
        for tile in range(plan.tiles.count):
            yield tile, layout.kept


class _MakeTile(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads
        self._maker: TileMaker | None = None

    def process(self, element: tuple[int, Any]) -> Iterator[tuple[TileDone, Any]]:
        tile, kept = element
        if self._maker is None:
            files, schema, order = load_state(state_path(self._plan))
            plan = with_kept(self._plan, kept)
            self._maker = TileMaker(plan, files, schema, threads=self._threads, order=order)
        yield self._maker.make(tile), kept

    def teardown(self) -> None:
        if self._maker is not None:
            self._maker.close()


def with_kept(plan: ImportPlan, kept: Any) -> ImportPlan:
    """Returns the plan for just these patches, which goes by the same fingerprint and temporary folder."""
    changed = replace(plan, layout=replace(plan.layout, kept=kept))
    changed.__dict__.update(fingerprint=plan.fingerprint, temporary_folder=plan.temporary_folder)
    return changed


class _Publish(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportPlan, overwrite: bool) -> None:
        self._plan = plan
        self._overwrite = overwrite

    def process(self, gathered: tuple[None, Iterable[tuple[TileDone, Any] | None]]) -> Iterator[str]:
        if is_published(self._plan):
            yield import_name(self._plan.output)
            return
        found = [one for one in gathered[1] if one is not None]
        _, schema, _ = load_state(state_path(self._plan))
        plan = with_kept(self._plan, found[0][1]) if found else self._plan
        yield publish_map(plan, schema, [done for done, _ in found], overwrite=self._overwrite)


class PredictionsToTiles(beam.PTransform):  # type: ignore[misc]
    """Makes a map of predictions: ``(patch index, arrays)`` → name of the completion file.

    Arrays are ``(row, col)`` or ``(channel, row, col)``, of the patch size or with the margin: one, or a
    map of band name to array. They are written to pieces under the output's temporary prefix where they
    are made; only the pieces' locations are shuffled. Floats are kept as float32.

    Args:
        layout: of the export whose patches these are, see
            :func:`~patchbeam.mosaic.plan.read_sidecar`.
        output: prefix of the map, local or ``gs://``.
        options: as of an import.
        allow_missing: whether patches that do not come are left without data; else they are an error.
        threads: threads inside one element.
        overwrite: whether an earlier map with this prefix is replaced.

    Raises:
        OutputExists: when the pipeline is built, there is an earlier map.
    """

    def __init__(
        self,
        layout: MapLayout,
        output: str,
        options: ImportOptions | None = None,
        *,
        allow_missing: bool = False,
        threads: int = 1,
        overwrite: bool = False,
    ) -> None:
        super().__init__()
        there = existing_maps(storage.list_names(output), output)
        if there and not overwrite:
            raise OutputExists(f"output: {there[0]} is there; give another output, or overwrite=True")
        self._plan = ImportPlan(
            layout=layout,
            records=(),
            options=options or ImportOptions(),
            output=output,
            run=uuid.uuid4().hex,
        )
        self._allow_missing = allow_missing
        self._threads = threads
        self._overwrite = overwrite

    @property
    def temporary_folder(self) -> str:
        """Where pieces lie until the map is published; a run that fails leaves it behind."""
        return self._plan.temporary_folder

    def expand(self, predictions: beam.PCollection[tuple[int, Arrays]]) -> beam.PCollection[str]:
        """Spool, count, tiles, publication."""
        plan = self._plan
        pieces = predictions | "Spool" >> beam.ParDo(_Spool(plan)).with_output_types(SpoolPiece)
        made = (
            gather(pieces, "Pieces")
            | "PlanTiles" >> beam.ParDo(_PlanSpooled(plan, self._allow_missing))
            | "DealTiles" >> beam.Reshuffle()
            | "Make" >> beam.ParDo(_MakeTile(plan, self._threads))
        )
        return gather(made, "Tiles") | "Publish" >> beam.ParDo(_Publish(plan, self._overwrite))
