"""From checked job files of tables to plans: opens the table, finds the rasters, makes the grid."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace

from patchbeam import storage
from patchbeam.crs import parse_crs
from patchbeam.errors import GridError, JobError, nearest
from patchbeam.grid import clip_region, resolve_grid
from patchbeam.rasters.bands import Band, resolve_bands
from patchbeam.rasters.source import Source
from patchbeam.tables.plan import TablePlan, select
from patchbeam.tables.readers import open_table
from patchbeam.tables.sampling.plan import DrawPlan, SamplePlan
from patchbeam.tables.source import INDEX, TableSource
from pipelines.jobfile.load import load_job
from pipelines.jobfile.table_models import ExportTableJob, ImportTableJob, SampleModel
from pipelines.resolve import (
    _band,
    _grid_options,
    _output,
    grids_of,
    job_sources,
    resolve_path,
    sources_on,
)


def job_folder(path: str) -> str:
    """Returns the folder from which a job file's relative paths start."""
    return storage.split(path)[0] if "://" in path else os.path.dirname(os.path.abspath(path))


def load_export_table(path: str, overrides: Sequence[str] = ()) -> TablePlan:
    """Reads a job file and plans it; of the rasters only headers are read.

    Raises:
        JobError: the job file or what it names is wrong.
    """
    job = load_job(path, overrides, kind="export-table")
    assert isinstance(job, ExportTableJob)
    return resolve_export_table(job, job_folder(path))


def resolve_export_table(job: ExportTableJob, base: str) -> TablePlan:
    """Returns the plan of a table export.

    Where points are to be drawn, its table is a stand-in until :func:`with_points` gives it the points.

    Args:
        job: the checked job file.
        base: the job file's folder.

    Raises:
        JobError: anything that headers show to be wrong.
    """
    sample = None if job.sample is None else _sample(job.sample, base)
    drawn = sample is not None and sample.draw is not None
    if drawn and (job.features is not None or job.selectors is not None):
        key = "features" if job.features is not None else "selectors"
        raise JobError(f"{key} and sample.stratify: points that are drawn have no table; keep one of them")
    if not drawn and job.features is None:
        raise JobError("features: this key is missing; give a table, or draw points with sample.stratify")
    if (job.x_column is None) != (job.y_column is None):
        missing = "yColumn" if job.y_column is None else "xColumn"
        raise JobError(f"{missing}: is missing; xColumn and yColumn go together")
    if job.crs is not None:
        parse_crs(job.crs, "crs")
    if drawn or job.features is None:
        source = TableSource(
            path="",
            format="parquet",
            driver="",
            layer=None,
            columns=(),
            rows=0,
            xy=("x", "y"),
            crs="EPSG:4326",
        )
    else:
        source = open_table(
            resolve_path(job.features, base),
            layer=job.layer,
            xy=None if job.x_column is None or job.y_column is None else (job.x_column, job.y_column),
            crs=job.crs,
            types=job.types,
            null_values=job.null_values,
        )
        _refuse_lines(source, sample)
    return TablePlan(
        source=source,
        selectors=(INDEX,) if drawn else select(source, job.selectors),
        output=_output(job.output, base),
        geometry=job.geometry,
        gzip=job.gzip,
        strict=job.strict,
        sample=sample,
    )


def with_points(plan: TablePlan, path: str) -> TablePlan:
    """Returns a plan whose features are points that have been drawn.

    Args:
        plan: a plan with ``sample.draw``.
        path: the table that the drawing has written.
    """
    assert plan.sample is not None
    return replace(plan, source=open_table(path, xy=("x", "y"), crs=plan.sample.crs))


def draw_folder(plan: TablePlan) -> str:
    """Returns where drawn points lie while the export runs: beside the output."""
    folder, name = storage.split(plan.output)
    digest = hashlib.sha256(repr(plan.sample).encode()).hexdigest()
    return storage.join(folder, f".{name}-{digest[:12]}-points.tmp")


def _refuse_lines(source: TableSource, sample: SamplePlan | None) -> None:
    if sample is None:
        return
    kind = (
        source.geometry_type.removesuffix(" Z").removesuffix(" M").removesuffix(" ZM").removeprefix("2.5D ")
    )
    wrong = {"LineString", "MultiLineString", "MultiPoint"}
    if sample.patch is not None:
        wrong |= {"Polygon", "MultiPolygon"}
    if kind in wrong:
        wanted = (
            "chips are centred on points" if sample.patch is not None else "points and polygons are sampled"
        )
        raise JobError(f"features: {source.path} holds {kind} geometries, and {wanted}; give such a layer")


def _sample(model: SampleModel, base: str) -> SamplePlan:
    sources = job_sources(model.sources, model.bands, base, lambda: _grid_options(model, base))
    try:
        bands = resolve_bands(
            sources,
            None if model.bands is None else [_band(b, i, sources) for i, b in enumerate(model.bands)],
        )
        options = _grid_options(model, base)
        grid = resolve_grid(options, grids_of(sources, options))
        around = (0, 0) if model.patch is None else (model.patch[0], model.patch[1])
        sources = sources_on(sources, grid, around)
        clip = (
            clip_region(replace(options, clip=True), grid)
            if model.region is not None and model.stratify
            else None
        )
    except GridError as error:
        raise GridError(str(error).replace("grid.", "sample.")) from None
    except JobError as error:
        text = str(error)
        raise type(error)(f"sample.{text}" if text.startswith(("bands", "sources")) else text) from None
    return SamplePlan(
        grid=grid,
        sources=sources,
        bands=bands,
        depths=tuple(model.tensor_depths.items()),
        reduce=model.reduce,
        patch=None if model.patch is None else (model.patch[0], model.patch[1]),
        order=model.order,
        max_file_size_bytes=model.max_file_size,
        default_value=model.default_value,
        fill=frozenset(
            name for name, source in model.sources.items() if source.masked_observations == "fill"
        ),
        block_bytes=model.block_bytes,
        draw=_draw(model, sources, bands, clip),
    )


def _draw(
    model: SampleModel, sources: tuple[Source, ...], bands: tuple[Band, ...], clip: object
) -> DrawPlan | None:
    if model.stratify is None:
        given = {"perClass": model.per_class, "classes": model.classes}
        for key, value in given.items():
            if value is not None:
                raise JobError(f"sample.{key}: goes with sample.stratify, the class band; add that")
        return None
    if model.per_class is None:
        raise JobError("sample.perClass: is missing; say how many points of each class sample.stratify draws")
    known = {band.name: band for band in (*resolve_bands(sources, None), *bands)}
    if model.stratify not in known:
        raise JobError(
            f"sample.stratify: {model.stratify!r} is not a band{nearest(model.stratify, known)}; bands are "
            f"{', '.join(known)}"
        )
    band = known[model.stratify]
    if band.is_array:
        raise JobError(f"sample.stratify: {band.name!r} is an array band; name a band of one class a pixel")
    return DrawPlan(
        band=band,
        per_class=model.per_class,
        seed=model.seed,
        classes=None if model.classes is None else tuple(sorted(set(model.classes))),
        clip=clip,  # type: ignore[arg-type]
    )


def load_import_table(path: str, overrides: Sequence[str] = ()) -> tuple[ImportTableJob, str]:
    """Reads a job file of an import; returns it and the folder of its relative paths."""
    job = load_job(path, overrides, kind="import-table")
    assert isinstance(job, ImportTableJob)
    return job, job_folder(path)
