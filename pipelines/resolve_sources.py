"""From the ``sources`` of a job file to sources: rasters, catalogues of scenes, vector layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from odc.geo.geobox import GeoBox

from patchbeam.errors import JobError, SourceError, nearest
from patchbeam.rasters.burn import open_vector, stand_in
from patchbeam.rasters.catalog import Filters, Item, find_scenes
from patchbeam.rasters.catalog.api import search
from patchbeam.rasters.catalog.filters import CLOUDS, in_order, interval, parse_time
from patchbeam.rasters.catalog.item import resolve
from patchbeam.rasters.catalog.open import MaskOptions, open_items, own_mask
from patchbeam.rasters.catalog.tables import ASSET
from patchbeam.rasters.footprints import Footprints
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.source import Source, open_source
from patchbeam.rasters.times import observation_time
from pipelines.jobfile.models import BandModel, MaskModel, SourceModel

Bounds = tuple[float, float, float, float]
Matches = Callable[[str, str], list[str]]

_FEW = 256
"""Scenes up to which their exact outlines decide which of them touch the grid; more are told by bounds."""


def resolve_sources(
    models: Mapping[str, SourceModel],
    bands: Sequence[BandModel] | None,
    *,
    absolute: Callable[[str], str],
    matches: Matches,
    bbox: Callable[[], Bounds | None],
) -> tuple[Source, ...]:
    """Returns the sources of a job, in order; each asset of a catalogue is one.

    Args:
        models: as the job file has them.
        bands: what is exported; tells which assets are needed.
        absolute: makes a path of the job file absolute.
        matches: lists what a pattern matches.
        bbox: west, south, east, north of the region in degrees, for searches.

    Raises:
        JobError: a source cannot be used.
    """
    sources: list[Source] = []
    for name, model in models.items():
        _check_keys(name, model)
        if model.vector is not None:
            sources.append(_vector(name, model, absolute))
        else:
            sources += _rasters(name, model, bands, absolute, matches, bbox)
    return tuple(sources)


def on_grid(source: Source, grid: GeoBox, around: tuple[int, int]) -> Source:
    """Returns the source as an export on a grid needs it.

    A vector layer is burnt on the grid; of a catalogue, only scenes that touch the grid stay.

    Args:
        source: the source.
        grid: the export grid.
        around: columns and rows beyond the grid that are read too.

    Raises:
        SourceError: no scene touches the grid.
    """
    if source.vector is not None:
        return replace(source, files=(stand_in(source.vector, source.files[0].descriptions[0] or "", grid),))
    if not source.catalogue or source.series:
        return source
    columns, rows = around
    rect = Rect(-columns, -rows, grid.width + columns, grid.height + rows)
    index = Footprints(source.files, grid)
    near = index.near(rect)
    if len(near) <= _FEW:
        near = [n for n in near if any(p.touches(rect) for p in index.of(n))]
    if not near:
        key = f"sources.{source.group or source.name}"
        example = source.files[0]
        bounds = [round(v, 6) for v in example.grid.geographic_extent.boundingbox.bbox]
        raise SourceError(
            f"{key}: no scene in the region: none of {len(source.files)} touches the grid; the first,"
            f" {example.path}, lies at {bounds}"
            " (west, south, east, north); check grid.region, grid.regionCrs and the filters"
        )
    quality = source.quality
    if quality is not None:
        quality = replace(quality, files=tuple(quality.files[n] for n in near))
    return replace(source, files=tuple(source.files[n] for n in near), quality=quality)


def asset_source(name: str, band: int | str | None, key: str, sources: Sequence[Source]) -> str:
    """Returns the name of the source that a band comes from, where a source has several assets.

    Raises:
        JobError: the band does not say which asset.
    """
    members = [source for source in sources if source.group == name]
    if not members:
        return name
    known = {text: s.name for s in members for text in s.files[0].descriptions if text is not None}
    if not isinstance(band, str) or band not in known:
        raise JobError(
            f"{key}.band: {band!r} is no band of source {name!r}{nearest(str(band), known)}; its assets are"
            f" {', '.join(known)}"
        )
    return known[band]


def _check_keys(name: str, model: SourceModel) -> None:
    key = f"sources.{name}"
    if model.path is None and model.vector is None:
        raise JobError(f"{key}.path: this key is missing; give path, or vector for labels to burn")
    if model.path is not None and model.vector is not None:
        raise JobError(f"{key}: path and vector are two sources; keep one of them here")
    given = model.model_fields_set
    rasters = {"compose", "nodata", "unscale", "series", "time", "mask", "assets", "resampling", "stac_api"}
    rasters |= {"datetime", "cloud_cover", "filter", "sort_by", "collections", "masked_observations"}
    vectors = {"layer", "attribute", "value", "background", "all_touched", "order_by"}
    for fields, what, wanted in (
        (rasters, "vector", model.vector is not None),
        (vectors, "path", model.path is not None),
    ):
        for field in sorted(fields & given) if wanted else ():
            alias = SourceModel.model_fields[field].alias or field
            raise JobError(f"{key}.{alias}: does not go with {what}; take it out")
    if model.time is not None and not (model.series or model.datetime):
        raise JobError(
            f"{key}.time: {model.time!r} says where a path holds the date of an observation, and "
            "this source is no series; add series: true or datetime:, or leave time out"
        )


def _vector(name: str, model: SourceModel, absolute: Callable[[str], str]) -> Source:
    assert model.vector is not None
    burn = open_vector(
        name,
        absolute(model.vector),
        layer=model.layer,
        attribute=model.attribute,
        value=model.value,
        background=None if model.background == "masked" else float(model.background),
        all_touched=model.all_touched,
        order_by=model.order_by,
        crs=model.crs,
    )
    return Source(name=name, files=(stand_in(burn, name),), vector=burn)


def _rasters(
    name: str,
    model: SourceModel,
    bands: Sequence[BandModel] | None,
    absolute: Callable[[str], str],
    matches: Matches,
    bbox: Callable[[], Bounds | None],
) -> list[Source]:
    key = f"sources.{name}"
    assert model.path is not None
    if model.stac_api or model.collections is not None:
        items = _searched(key, model, bbox)
        paths: tuple[str, ...] = ()
    else:
        wanted = [
            (absolute(path), f"{key}.path{f'[{i}]' if len(model.path) > 1 else ''}")
            for i, path in enumerate(model.path)
        ]
        found = find_scenes(wanted, key, matches)
        paths, items = found.paths, list(found.items)
    if items:
        filters = Filters(
            datetime=model.datetime if not _is_index(items) or not model.time else None,
            properties=_properties(model),
        )
        items = filters.choose(items, key)
        if _is_index(items):
            paths = tuple(resolve(str(i.assets[ASSET]["href"]), i.where, i.root, key) for i in items)
        else:
            return open_items(
                name,
                in_order(items, model.sort_by, key),
                assets=model.assets or _assets(name, bands, items),
                mask=_mask(model.mask),
                compose=model.compose,
                nodata=model.nodata,
                unscale=model.unscale,
                resampling=model.resampling,
                crs=model.crs,
                series=model.series,
            )
    else:
        for field in ("assets", "cloud_cover", "filter", "sort_by"):
            if getattr(model, field):
                alias = SourceModel.model_fields[field].alias
                raise JobError(f"{key}.{alias}: is for catalogues of items, and {paths[0]} is a raster")
    return [_files(name, model, paths, catalogue=bool(items))]


def _files(name: str, model: SourceModel, paths: Sequence[str], *, catalogue: bool) -> Source:
    key = f"sources.{name}"
    source = open_source(
        name,
        paths,
        compose=model.compose,
        nodata=model.nodata,
        unscale=model.unscale,
        resampling=model.resampling,
        crs=model.crs,
        series=model.series,
        time=model.time,
    )
    if model.datetime is not None and (model.time is not None or not catalogue):
        low, high = interval(model.datetime, f"{key}.datetime")
        times = [source.times[i] if source.times else observation_time(file, model.time, key)
                 for i, file in enumerate(source.files)]  # fmt: skip
        chosen = [i for i, time in enumerate(times) if low <= parse_time(time) <= high]
        if not chosen:
            raise SourceError(
                f"{key}.datetime: none of {len(times)} files is of {model.datetime}; they are from"
                f" {min(times)} to {max(times)}"
            )
        source = replace(
            source,
            files=tuple(source.files[i] for i in chosen),
            times=tuple(times[i] for i in chosen) if source.series else None,
        )
    mask = _mask(model.mask)
    if mask is not None:
        source = replace(source, quality=own_mask(mask, source.files, key))
    return replace(source, catalogue=catalogue)


def _searched(key: str, model: SourceModel, bbox: Callable[[], Bounds | None]) -> list[Item]:
    assert model.path is not None
    if len(model.path) != 1 or not model.path[0].startswith(("http://", "https://")):
        raise JobError(f"{key}.path: {', '.join(model.path)} is not the one URL of a STAC API")
    if not model.collections:
        raise JobError(f"{key}.collections: is missing; name the collections that stacApi: true searches")
    return search(model.path[0], key, collections=model.collections, bbox=bbox(), datetime=model.datetime)


def _is_index(items: Sequence[Item]) -> bool:
    return all(item.root is None and set(item.assets) == {ASSET} for item in items)


def _properties(model: SourceModel) -> dict[str, object]:
    wanted: dict[str, object] = {}
    if model.cloud_cover is not None:
        wanted[CLOUDS] = model.cloud_cover.model_dump(exclude_none=True)
    wanted.update(model.filter)
    return wanted


def _mask(model: MaskModel | None) -> MaskOptions | None:
    if model is None:
        return None

    def numbers(values: list[int] | None) -> tuple[int, ...] | None:
        return None if values is None else tuple(values)

    return MaskOptions(
        band=model.band, keep=numbers(model.keep), drop=numbers(model.drop), bits=numbers(model.bits)
    )


def _assets(name: str, bands: Sequence[BandModel] | None, items: Sequence[Item]) -> list[str] | None:
    """Returns the assets that the bands of a job name."""
    known = {asset for item in items for asset in item.assets}
    wanted: list[str] = []
    for band in bands or ():
        text = band.band if isinstance(band.band, str) else band.name if band.band is None else None
        if band.source not in (name, None) or text is None:
            continue
        whole = text.rpartition("_")[0]
        wanted.append(whole if text not in known and whole in known else text)
    return list(dict.fromkeys(wanted)) or None
