"""How a plan reads its sources, as text, and what looks like a mistake in them."""

from __future__ import annotations

from collections.abc import Iterator

from odc.geo.geobox import GeoBox

from patchbeam.crs import describe, same_crs
from patchbeam.plan import ExportPlan
from patchbeam.rasters.source import Source

_MOST = 64
"""Files of a source whose places are compared."""

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
