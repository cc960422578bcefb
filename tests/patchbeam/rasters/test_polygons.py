"""Polygons filled window by window equal GDAL's rasteriser on the whole, ties and folds included."""

from __future__ import annotations

import numpy as np
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from rasterio.features import rasterize

from patchbeam.rasters import polygons
from patchbeam.rasters.pieces import Rect

WIDTH, HEIGHT = 40, 30


def shapes_of(seed: int, count: int, step: float) -> np.ndarray:
    """Polygons with holes, some of several parts; off any tie they may fold over themselves."""
    random = np.random.default_rng(seed)

    def ring(corners: int) -> np.ndarray:
        points = random.uniform(-10, 50, (corners, 2))
        return np.round(points / step) * step if step else points

    shapes = []
    for _ in range(count):
        parts = [
            shapely.Polygon(ring(random.integers(3, 7)), [ring(4) for _ in range(random.integers(0, 2))])
            for _ in range(random.integers(1, 3))
        ]
        if step:
            # which way round a folded ring goes is GDAL's own guess, and counts where edges are level
            parts = [part for part in parts if part.is_valid] or [shapely.box(1, 1.5, 9, 20.5)]
        shapes.append(parts[0] if len(parts) == 1 else shapely.MultiPolygon(parts))
    return np.array(shapes)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10**9), st.integers(1, 8), st.sampled_from([0, 0.25, 0.5, 1]), st.sampled_from([7, 13, 40])
)
def test_equals_gdal_on_the_whole(seed, count, step, side):
    shapes = shapes_of(seed, count, step)
    values = np.arange(1, count + 1, dtype="uint8")
    expected = rasterize(zip(shapes, values.tolist(), strict=True), out_shape=(HEIGHT, WIDTH), dtype="uint8")
    for top in range(0, HEIGHT, side):
        for left in range(0, WIDTH, side):
            rect = Rect(left, top, min(left + side, WIDTH), min(top + side, HEIGHT))
            out = np.zeros((rect.height, rect.width), "uint8")
            polygons.fill_polygons(shapes, values, rect, out)
            np.testing.assert_array_equal(out, expected[rect.top : rect.bottom, rect.left : rect.right])


def test_order_holds_over_parts(monkeypatch):
    """However few pixels are painted at a time, the last polygon lies on top."""
    monkeypatch.setattr(polygons, "_MOST_PIXELS", 50)
    shapes = np.array([shapely.box(0, 0, 40, 30), shapely.box(5, 5, 35, 25), shapely.box(0, 10, 40, 12)])
    out = np.zeros((HEIGHT, WIDTH), "int16")
    polygons.fill_polygons(shapes, np.array([1, 2, 3], "int16"), Rect(0, 0, WIDTH, HEIGHT), out)
    expected = rasterize(zip(shapes, [1, 2, 3], strict=True), out_shape=(HEIGHT, WIDTH))
    np.testing.assert_array_equal(out, expected)


def test_nothing_near():
    out = np.zeros((5, 5), "uint8")
    polygons.fill_polygons(
        np.array([shapely.box(90, 90, 99, 99)]), np.array([1], "uint8"), Rect(0, 0, 5, 5), out
    )
    polygons.fill_polygons(
        np.array([shapely.box(0, 0.6, 5, 1.4)]), np.array([1], "uint8"), Rect(0, 0, 5, 5), out
    )
    assert not out.any()
    assert polygons.all_polygons(np.array([shapely.box(0, 0, 1, 1)]))
    assert not polygons.all_polygons(np.array([shapely.Point(0, 0)]))
