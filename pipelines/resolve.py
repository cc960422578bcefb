"""From a checked job file to a plan: finds the files, reads their headers, makes the grid."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from odc.geo.geobox import GeoBox

from patchbeam import storage
from patchbeam.errors import GridError, JobError, OutputUnusable, SourceError
from patchbeam.grid import (
    GridOptions,
    clip_region,
    parse_region,
    region_in,
    require_overlap,
    resolve_grid,
)
from patchbeam.keep import KeepRule
from patchbeam.options import FormatOptions
from patchbeam.plan import ExportPlan
from patchbeam.rasters.bands import Band, BandSpec, resolve_bands
from patchbeam.rasters.classes import read_classes
from patchbeam.rasters.source import Source
from patchbeam.selection import SampleRule, SplitRule
from pipelines.jobfile.load import load_job
from pipelines.jobfile.models import (
    BandModel,
    ExportImageJob,
    GridModel,
    KeepModel,
    PatchSampleModel,
    SourceModel,
)
from pipelines.resolve_sources import asset_source, on_grid, resolve_sources

_MAGIC = ("*", "?", "[")
_MANY = 64


def load_plan(path: str, overrides: Sequence[str] = ()) -> ExportPlan:
    """Reads a job file and plans it; no pixel is read.

    Raises:
        JobError: the job file or what it names is wrong.
    """
    job = load_job(path, overrides, kind="export-image")
    assert isinstance(job, ExportImageJob)
    base = storage.split(path)[0] if "://" in path else os.path.dirname(os.path.abspath(path))
    return resolve_export(job, base)


def resolve_export(job: ExportImageJob, base: str) -> ExportPlan:
    """Returns the plan of an export job.

    Args:
        job: the checked job file.
        base: the job file's folder; relative paths start there.

    Raises:
        JobError: anything that the sources' headers show to be wrong.
    """
    options = FormatOptions.from_mapping(job.format_options)
    grid_options = _grid_options(job.grid, base)
    sources = job_sources(job.sources, job.bands, base, lambda: grid_options)
    bands = resolve_bands(
        sources, None if job.bands is None else [_band(b, i, sources) for i, b in enumerate(job.bands)]
    )
    used = {band.source for band in bands}
    sources = tuple(source for i, source in enumerate(sources) if source.name in used or i == 0)
    grid = resolve_grid(grid_options, grids_of(sources, grid_options))
    sources = sources_on(sources, grid, _around(options, job.edge))
    return ExportPlan(
        grid=grid,
        sources=sources,
        bands=bands,
        options=options,
        output=_output(job.output, base),
        edge=job.edge,
        numbers=job.numbers,
        gzip=job.gzip,
        naming=job.naming,
        mask_band=job.mask_band,
        strict=job.strict,
        on_missing=job.on_missing,
        block_bytes=job.block_bytes,
        fill=frozenset(name for name, model in job.sources.items() if model.masked_observations == "fill"),
        clip=clip_region(grid_options, grid),
        split=None if job.split is None else SplitRule.from_mapping(job.split),
        keep=None if job.keep is None else _keep(job.keep),
        sample=None if job.sample is None else _sample(job.sample),
        statistics=job.statistics,
        class_maps=class_maps(sources, bands),
    )


def class_maps(sources: Sequence[Source], bands: Sequence[Band]) -> frozenset[str]:
    """Returns the names of the uint16 bands that hold classes: colour table, class names, burnt vectors."""
    found = set()
    for band in bands:
        if band.type == "uint16" and not band.is_array and band.resampling in ("nearest", "mode"):
            source = next(source for source in sources if source.name == band.source)
            file = source.files[0]
            if source.vector is not None or (
                not file.assumed and read_classes(file.path, band.index) is not None
            ):
                found.add(band.name)
    return frozenset(found)


def _keep(model: KeepModel) -> KeepRule:
    classes = None if model.classes is None else tuple(model.classes)
    return KeepRule(band=model.band, classes=classes, minimum=model.minimum)


def _sample(model: PatchSampleModel) -> SampleRule:
    return SampleRule(
        patches=model.patches,
        per_class=model.per_class,
        band=model.band,
        classes=None if model.classes is None else tuple(model.classes),
        minimum=model.minimum,
        seed=model.seed,
    )


def resolve_path(path: str, base: str) -> str:
    """Returns a path of a job file: as it is when absolute or a URL, else from the job file's folder."""
    if "://" in path or os.path.isabs(path):
        return path
    if "://" in base:
        return storage.join(base, path)
    return os.path.normpath(os.path.join(base, path))


def _output(path: str, base: str) -> str:
    try:
        storage.is_remote(path)
    except JobError as error:
        raise OutputUnusable(f"output: {error}") from None
    inside = path.removeprefix("gs://").rstrip("/")
    remote = inside != path.rstrip("/")
    if path.endswith("/") or inside.rpartition("/")[2] in ("", ".", "..") or (remote and "/" not in inside):
        start = f"gs://{inside or 'BUCKET'}" if remote else inside
        raise OutputUnusable(
            f"output: {path!r} names a folder; add the beginning of the file names, for instance "
            f"{start}/scene"
        )
    return resolve_path(path, base)


def job_sources(
    models: Mapping[str, SourceModel],
    bands: Sequence[BandModel] | None,
    base: str,
    grid: Callable[[], GridOptions],
) -> tuple[Source, ...]:
    """Returns the sources of a job; of a catalogue, a source for each asset."""

    def bbox() -> tuple[float, float, float, float] | None:
        options = grid()
        if options.region is None:
            return None
        if options.region_crs is None and isinstance(options.region, tuple):
            # a bare box is in the export CRS
            options = replace(options, region_crs=options.crs)
        return region_in(options, "EPSG:4326").bounds

    return resolve_sources(
        models, bands, absolute=lambda path: resolve_path(path, base), matches=_matches, bbox=bbox
    )


def grids_of(sources: Sequence[Source], options: GridOptions) -> list[GeoBox]:
    """Returns the grids of the files of the first source of rasters; of many scenes no more than matter."""
    files = next((source.files for source in sources if source.vector is None), ())
    own_pixels = options.scale is not None or options.crs_transform is not None
    if options.region is not None and own_pixels:
        files = files[:_MANY]
    return [file.grid for file in files]


def sources_on(sources: Sequence[Source], grid: GeoBox, around: tuple[int, int]) -> tuple[Source, ...]:
    """Returns the sources as the grid needs them.

    Raises:
        JobError: none covers any of the grid.
    """
    found = tuple(on_grid(source, grid, around) for source in sources)
    # scenes of a catalogue have been found to touch the grid
    if not any(source.catalogue and not source.series for source in found):
        files = [file for source in found if source.vector is None for file in source.files]
        if files:
            require_overlap(grid, [file.grid for file in files])
    return found


def _around(options: FormatOptions, edge: str) -> tuple[int, int]:
    """Returns the columns and rows beyond the grid that patches reach."""
    (kernel_x, kernel_y), (width, height) = options.kernel_width_height, options.patch_width_height
    return kernel_x // 2 + (width if edge == "pad" else 0), kernel_y // 2 + (height if edge == "pad" else 0)


def _matches(pattern: str, key: str) -> list[str]:
    if pattern.startswith("gs://") and any(sign in pattern for sign in _MAGIC):
        return _matching_objects(pattern, key)
    if not any(sign in pattern for sign in _MAGIC) or "://" in pattern or os.path.exists(pattern):
        return [pattern]
    found = [path for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path)]
    if not found:
        raise SourceError(f"{key}: no file matches {pattern}; check the folder and the pattern")
    return sorted(found, key=os.fsencode)


def _matching_objects(pattern: str, key: str) -> list[str]:
    folder, name = storage.split(pattern)
    if any(sign in folder for sign in _MAGIC):
        raise SourceError(f"{key}: {pattern}: in Cloud Storage only the last part of a name can be a pattern")
    found = [path for path in storage.list_names(f"{folder}/") if fnmatchcase(storage.split(path)[1], name)]
    if not found:
        raise SourceError(f"{key}: no object matches {pattern}; check the bucket, the folder and the pattern")
    return found


def _band(model: BandModel, position: int, sources: tuple[Source, ...]) -> BandSpec:
    source = model.source
    if source is None:
        known = list(dict.fromkeys(s.group or s.name for s in sources))
        if len(known) > 1:
            raise JobError(
                f"bands[{position}].source: is missing and there are several sources; "
                f"name one of {', '.join(known)}"
            )
        source = known[0]
    band = model.band
    if band is None or isinstance(band, int | str):
        source = asset_source(source, model.name if band is None else band, f"bands[{position}]", sources)
    if band is None and model.name is not None:
        # a band that is called what it is called in the file needs no second word
        described = next((s for s in sources if s.name == source), None)
        if described is not None and len(described.files[0].dtypes) > 1:
            band = model.name
    return BandSpec(
        source=source,
        name=model.name,
        band=None if isinstance(band, list) else band,
        indexes=tuple(band) if isinstance(band, list) else None,
        type=model.type,
        resampling=model.resampling,
    )


def _grid_options(model: GridModel, base: str) -> GridOptions:
    return GridOptions(
        crs=model.crs,
        scale=model.scale,
        crs_transform=None if model.crs_transform is None else tuple(model.crs_transform),  # type: ignore[arg-type]
        dimensions=None if model.dimensions is None else (model.dimensions[0], model.dimensions[1]),
        region=_region(model.region, base),
        region_crs=model.region_crs,
        clip=model.clip,
    )


def _region(value: Any, base: str) -> Any:
    if not isinstance(value, str):
        return tuple(value) if isinstance(value, list) else value
    path = resolve_path(value, base)
    try:
        text = storage.read_bytes(path)
    except (OSError, JobError) as error:
        raise GridError(
            f"grid.region: {error}; give a GeoJSON file (relative paths start at the job file's folder), "
            "GeoJSON itself or [xmin, ymin, xmax, ymax]"
        ) from None
    try:
        region = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GridError(
            f"grid.region: {path} is not GeoJSON: {error}; give a file of GeoJSON, as ogr2ogr -f GeoJSON "
            "writes it"
        ) from None
    parse_region(region, f"grid.region: {path}: GeoJSON")
    return region
