"""How a plan reads its sources, as text, and what looks like a mistake in them."""

from __future__ import annotations

from collections.abc import Iterator

from odc.geo.geobox import GeoBox

from patchbeam.crs import describe, longitude_period, same_crs
from patchbeam.lattice import grid_outline_bounds, meets_any
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.rasters.source import Source
from patchbeam.redact import without_secrets

_MOST = 64
"""Files of a source whose places are compared."""

_MOST_PLACED = 512
"""Files of a source that are looked for on the grid; a catalogue says itself where its scenes lie."""

_NEARLY = 0.9
"""Share of both areas that files over the same area have in common."""


def how_read(plan: ExportPlan, source: Source, aligned: bool) -> str:
    """Returns whether a source is read as it is, or from which CRS and how it is resampled."""
    if aligned:
        return "on the grid, read as it is"
    methods = ", ".join(dict.fromkeys(band.resampling for band in plan.bands if band.source == source.name))
    return (
        f"off the grid ({describe(source.files[0].grid.crs)}): resampled{f', {methods}' if methods else ''}"
    )


def source_notes(plan: ExportPlan) -> Iterator[str]:
    """Yields what most likely was not meant: bands that lie in files of their own, taken for a mosaic."""
    for source in plan.sources:
        if source.vector is not None or source.series or source.catalogue or source.compose != "first":
            continue
        grids = [file.grid for file in source.files[:_MOST]]
        over = 1 + sum(_same_area(grids[0], grid) for grid in grids[1:]) if len(grids) > 1 else 1
        if over > 1:
            yield (
                f"source {source.name}: {over} files over the same area: only the first with a value is "
                "seen; give bands as sources of their own, or series: true"
            )


def source_warnings(plan: ExportPlan) -> Iterator[str]:
    """Yields what makes the bands of a source useless: it lies elsewhere, or has been given a wrong CRS."""
    for source in plan.sources:
        if source.vector is not None or source.catalogue:
            continue  # these are read where they meet the grid
        lost = next((file for file in source.files[:_MOST] if _off_the_globe(file.grid)), None)
        if lost is not None:
            yield (
                f"sources.{source.name}: {lost.path}: {_bounds(lost.grid)} are no longitudes and latitudes "
                f"of {describe(lost.grid.crs)}; give its real CRS with crs: under the source"
            )
        grids = [file.grid for file in source.files]
        if len(grids) <= _MOST_PLACED and not meets_any(plan.grid, grids):
            many = f"none of its {len(grids)} files covers any"
            none = "its file covers nothing" if len(grids) == 1 else many
            yield (
                f"sources.{source.name}: {none} of the grid, so that its bands are masked everywhere: it "
                f"begins at {_bounds(grids[0])} in {describe(grids[0].crs)}, and the grid is "
                f"{_bounds(plan.grid)} in {describe(plan.grid.crs)}; check its CRS, and grid.region"
            )


def empty_notes(plan: ExportPlan, manifest: Manifest) -> Iterator[str]:
    """Yields which bands of an export hold nothing, in all of its patches together."""
    if not manifest.patches.written:
        return
    seen = {band.name: band.statistics for band in manifest.bands if band.statistics is not None}
    masked = [name for name, statistics in seen.items() if not statistics.valid_count]
    if masked:
        yield f"every pixel of {', '.join(masked)} is masked; check nodata, and where the sources lie"
    layers = {source.name: source.vector for source in plan.sources}
    for band in plan.bands:
        layer, statistics = layers[band.source], seen.get(band.name)
        if layer is None or layer.background is None or statistics is None:
            continue
        if statistics.min == statistics.max == layer.background:
            yield (
                f"{band.name} is {layer.background:g} everywhere: no feature of "
                f"{without_secrets(layer.path)} is burnt in a patch that was written; check where it lies"
            )


def _off_the_globe(grid: GeoBox) -> bool:
    """Whether coordinates are far from any longitude and latitude; a pixel or a turn too many is usual."""
    period = longitude_period(grid.crs)
    if period is None:
        return False
    west, south, east, north = grid_outline_bounds(grid)
    return max(abs(south), abs(north)) > period / 2 or max(abs(west), abs(east)) > 2 * period


def _bounds(grid: GeoBox) -> str:
    return f"[{', '.join(f'{value:.10g}' for value in grid_outline_bounds(grid))}]"


def _same_area(one: GeoBox, other: GeoBox) -> bool:
    if not same_crs(one.crs, other.crs):
        return False
    a, b = one.boundingbox, other.boundingbox
    across = min(a.right, b.right) - max(a.left, b.left)
    down = min(a.top, b.top) - max(a.bottom, b.bottom)
    if across <= 0 or down <= 0:
        return False
    larger = max((box.right - box.left) * (box.top - box.bottom) for box in (a, b))
    return bool(across * down >= _NEARLY * larger)
