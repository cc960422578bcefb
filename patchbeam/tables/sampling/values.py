"""Pixels to the entries of sampled features: at points, in chips, over polygons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import rasterio.features
import shapely
from affine import Affine
from numpy.lib.stride_tricks import sliding_window_view

from patchbeam.elements import Array, BandPixels, Ints, Mask
from patchbeam.errors import EncodeError
from patchbeam.patches import Window
from patchbeam.pixels import stored_block
from patchbeam.rounding import rounded_by_float32
from patchbeam.tables.entries import BlockEntries, Entries, RaggedEntries, Rows, ScalarEntries
from patchbeam.tables.sampling.plan import SamplePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """What one band gives a stretch of features.

    Attributes:
        entries: of its feature.
        masked: features that have none, because every pixel is masked.
        rounded: numbers that float32 could not hold exactly.
    """

    entries: Entries
    masked: int
    rounded: int


def at_points(plan: SamplePlan, pixels: Sequence[BandPixels], rows: Ints, columns: Ints) -> list[Sampled]:
    """Returns each band's values at pixels.

    Args:
        plan: the bands.
        pixels: of a window, one entry a band.
        rows: of each feature, in the window.
        columns: likewise.
    """
    found = []
    for band, read, dense in zip(plan.record_bands, pixels, plan.compact, strict=True):
        values = read.values[..., rows, columns]
        valid = None if read.valid is None else read.valid[..., rows, columns]
        if band.array:
            found.append(_arrays(plan, band.name, band.depth, values, valid, dense))
        else:
            present = _rows(valid)
            stored = _float32(values, band.name, valid)
            found.append(
                Sampled(
                    entries=ScalarEntries(band.name, stored, present),
                    masked=0 if present is None else len(rows) - len(present),
                    rounded=rounded_by_float32(values, stored, valid),
                )
            )
    return found


def _arrays(
    plan: SamplePlan, name: str, depth: int | None, values: Array, valid: Mask | None, dense: bool
) -> Sampled:
    """Arrays ``(step, feature)``: to a depth, or of each pixel's own length."""
    steps, count = values.shape
    there = np.ones(values.shape, np.bool_) if valid is None else valid
    present = _rows(np.asarray(there.any(axis=0)))
    stored = _float32(np.where(there, values, 0), name, None)
    rounded = rounded_by_float32(values, stored, there)
    masked = 0 if present is None else count - len(present)
    if not dense:
        stored = np.where(there, stored, np.float32(plan.default_value))
        there = np.ones_like(there)
    if depth is None:
        sizes = there.sum(axis=0, dtype=np.int64)
        data = np.ascontiguousarray(stored.T[there.T], "<f4").view(np.uint8)
        starts = np.cumsum(sizes) - sizes
        return Sampled(
            entries=RaggedEntries(name, "float", data, 4 * starts, 4 * sizes, present),
            masked=masked,
            rounded=rounded,
        )
    order = np.argsort(~there, axis=0, kind="stable")
    packed = np.take_along_axis(np.where(there, stored, np.float32(plan.default_value)), order, axis=0)
    fitted = np.full((depth, count), plan.default_value, np.float32)
    fitted[: min(depth, steps)] = packed[:depth]
    return Sampled(entries=BlockEntries(name, fitted.T, present), masked=masked, rounded=rounded)


def chips(plan: SamplePlan, pixels: Sequence[BandPixels], rows: Ints, columns: Ints) -> list[Sampled]:
    """Returns each band's chips.

    Args:
        plan: the bands and the chips' size.
        pixels: of a window that holds every chip, one entry a band.
        rows: of each chip's upper-left pixel, in the window.
        columns: likewise.
    """
    assert plan.patch is not None
    width, height = plan.patch
    centre = rows + height // 2, columns + width // 2
    stored = stored_block(0, pixels, plan.record_bands, default=plan.default_value, compact=plan.compact)
    found = []
    for band, read in zip(plan.record_bands, stored.bands, strict=True):
        views = sliding_window_view(read.values, (height, width), axis=(-2, -1))
        if band.array:
            cut = np.moveaxis(views[:, rows, columns], 0, 1)
            valid = None if read.valid is None else np.logical_or.reduce(read.valid, axis=0)
        else:
            cut, valid = views[rows, columns], read.valid
        given = cut.reshape(len(rows), -1)
        numbers = _float32(given, band.name, None)
        found.append(
            Sampled(
                entries=BlockEntries(band.name, numbers),
                masked=0 if valid is None else int(np.count_nonzero(~valid[centre])),
                rounded=rounded_by_float32(given, numbers),
            )
        )
    return found


class AreaReducer:
    """Mean or median of each band over one polygon's pixels, whose centres lie in it."""

    def __init__(self, plan: SamplePlan, geometry: Any) -> None:
        """Reduces over ``geometry``, shapely's, in the grid's CRS."""
        self._plan = plan
        self._geometry = geometry
        self._parts: list[list[tuple[Array, Array | None]]] = [[] for _ in plan.bands]

    def add(self, window: Window, pixels: Sequence[BandPixels], part: Window) -> None:
        """Takes the pixels of ``part`` of the polygon out of those of ``window``."""
        a, b, c, d, e, f = self._plan.grid.affine[:6]
        x, y = part.col_off, part.row_off
        inside = rasterio.features.rasterize(
            [(self._geometry, 1)],
            out_shape=(part.height, part.width),
            transform=Affine(a, b, a * x + b * y + c, d, e, d * x + e * y + f),
            dtype="uint8",
        ).astype(np.bool_)
        top, left = part.row_off - window.row_off, part.col_off - window.col_off
        at = (..., slice(top, top + part.height), slice(left, left + part.width))
        for kept, read in zip(self._parts, pixels, strict=True):
            values = read.values[at][..., inside]
            valid = None if read.valid is None else read.valid[at][..., inside]
            if self._plan.reduce == "median":
                kept.append((values, valid))
                continue
            there = np.ones(values.shape, np.bool_) if valid is None else valid
            total = np.where(there, values, 0).sum(axis=-1, dtype=np.float64)
            kept.append((np.asarray(total), np.asarray(there.sum(axis=-1))))

    def result(self) -> list[Array]:
        """Returns one float64 a band; one a step of an array band; NaN where there is no valid pixel."""
        found = []
        for kept in self._parts:
            if self._plan.reduce == "mean":
                total = sum(total for total, _ in kept)
                count: Any = sum(count for _, count in kept if count is not None)
                with np.errstate(invalid="ignore", divide="ignore"):
                    found.append(np.asarray(total / count))
                continue
            values = np.concatenate([v for v, _ in kept], axis=-1).astype(np.float64)
            for (_, valid), end in zip(kept, np.cumsum([v.shape[-1] for v, _ in kept]).tolist(), strict=True):
                if valid is not None:
                    values[..., end - valid.shape[-1] : end][~valid] = np.nan
            found.append(_median(values))
        return found


def _median(values: Array) -> Array:
    rows = np.atleast_2d(values)
    out = np.full(len(rows), np.nan)
    for i, row in enumerate(rows):
        there = row[~np.isnan(row)]
        if there.size:
            out[i] = np.median(there)
    return out.reshape(values.shape[:-1])


def from_areas(plan: SamplePlan, results: Sequence[Sequence[Array]]) -> list[Sampled]:
    """Returns each band's entries from the results of polygons, in order."""
    found = []
    for i, band in enumerate(plan.record_bands):
        values = np.stack([result[i] for result in results], axis=-1)
        valid = ~np.isnan(values)
        filled = np.where(valid, values, 0)
        if band.array:
            found.append(_arrays(plan, band.name, band.depth, filled, valid, plan.compact[i]))
        else:
            present = _rows(valid)
            found.append(
                Sampled(
                    entries=ScalarEntries(band.name, _float32(filled, band.name, None), present),
                    masked=0 if present is None else len(results) - len(present),
                    rounded=0,
                )
            )
    return found


def shape_of(wkb: bytes) -> Any:
    """Returns a spooled geometry."""
    return shapely.from_wkb(wkb)


def _rows(valid: Mask | None) -> Rows:
    return None if valid is None or valid.all() else np.flatnonzero(valid).astype(np.int64)


def _float32(values: Array, name: str, valid: Mask | None) -> np.ndarray[Any, np.dtype[np.float32]]:
    with np.errstate(over="ignore", invalid="ignore"):
        stored = values.astype(np.float32)
    if values.dtype == np.float64:
        lost = np.isinf(stored) & np.isfinite(values)
        if valid is not None:
            lost &= valid
        if lost.any():
            raise EncodeError(
                f"band {name!r}: {float(values[lost][0])!r} is too large for float32; scale the band, or "
                "leave it out"
            )
    return stored
