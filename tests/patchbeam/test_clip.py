from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox

from patchbeam.affines import to_xy
from patchbeam.errors import GridError
from patchbeam.grid import ClipRegion, clip_mask
from patchbeam.patches import Window

UTM = "EPSG:32633"
GRID = GeoBox((40, 50), Affine(10, 0, 500000, 0, -10, 5000000), UTM)
SOUTH_UP = GeoBox((40, 50), Affine(10, 0, 500000, 0, 10, 4999600), UTM)
TURNED = GeoBox((40, 50), Affine(8.66, -5, 500100, -5, -8.66, 5000000), UTM)
WHOLE = Window(0, 0, 50, 40)


def centres(grid: GeoBox, window: Window) -> np.ndarray:
    rows, cols = np.mgrid[window.row_off : window.row_stop, window.col_off : window.col_stop] + 0.5
    return to_xy(grid.affine, np.stack([cols.ravel(), rows.ravel()], axis=1).tolist())


points = st.tuples(st.floats(499900, 500600), st.floats(4999500, 5000100))


@pytest.mark.parametrize("grid", [GRID, SOUTH_UP, TURNED], ids=["north-up", "south-up", "turned"])
@given(st.lists(st.lists(points, min_size=3, max_size=7), min_size=1, max_size=3))
def test_the_mask_is_what_contains_says_of_each_centre(
    grid: GeoBox, rings: list[list[tuple[float, float]]]
) -> None:
    geometry = shapely.union_all([shapely.make_valid(shapely.Polygon(ring)) for ring in rings])
    if geometry.area < 1:
        return
    window = Window(-3, -2, 57, 45)
    xy = centres(grid, window)
    expected = shapely.contains_xy(geometry, *xy.T)
    on_outline = shapely.distance(shapely.boundary(geometry), shapely.points(xy)) < 1e-6
    got = clip_mask(geometry, grid, window)
    assert got.shape == (45, 57)
    assert got.dtype == np.bool_
    assert np.array_equal(got.ravel()[~on_outline], expected[~on_outline])


def test_the_mask_agrees_with_gdal() -> None:
    features = pytest.importorskip("rasterio.features")
    rng = np.random.default_rng(3)
    for _ in range(20):
        ring = rng.uniform((499900, 4999500), (500600, 5000100), (6, 2))
        geometry = shapely.make_valid(shapely.Polygon(ring))
        theirs = features.geometry_mask([geometry], (40, 50), GRID.affine, invert=True)
        assert np.array_equal(clip_mask(geometry, GRID, WHOLE), theirs)


def test_a_centre_just_inside_is_in_and_just_outside_is_out() -> None:
    for inset, expected in ((4.999999, 1), (5.000001, 0)):
        square = shapely.box(500020 + inset, 4999970 + inset, 500030, 4999980)
        assert clip_mask(square, GRID, WHOLE).sum() == expected
        assert clip_mask(square, GRID, WHOLE)[2, 2] == bool(expected)


def test_polygons_that_share_an_edge_share_no_pixel_and_lose_none() -> None:
    corner = (500000 + 25, 5000000 - 15)  # a pixel centre; edges run through centres too
    whole = shapely.box(500005, 4999795, 500205, 4999995)
    parts = [
        shapely.box(500005, corner[1], corner[0], 4999995),
        shapely.box(corner[0], corner[1], 500205, 4999995),
        shapely.box(500005, 4999795, corner[0], corner[1]),
        shapely.box(corner[0], 4999795, 500205, corner[1]),
    ]
    counts = sum(clip_mask(part, GRID, WHOLE).astype(int) for part in parts)
    assert np.array_equal(counts, clip_mask(whole, GRID, WHOLE).astype(int))
    assert counts.sum() == 20 * 20


@given(st.integers(-20, 40), st.integers(-20, 40), st.integers(1, 30), st.integers(1, 30))
def test_a_pixel_is_the_same_in_every_window(col: int, row: int, width: int, height: int) -> None:
    big = Window(-20, -20, 120, 120)
    # Edges exactly through pixel centres, where a last digit would show.
    clip = ClipRegion.on(shapely.Polygon([(500005, 4999995), (500305, 4999895), (500105, 4999695)]), GRID)
    part = clip.mask(Window(col, row, width, height))
    whole = clip.mask(big)[row + 20 : row + 20 + height, col + 20 : col + 20 + width]
    assert np.array_equal(part, whole)


def test_holes_and_several_parts() -> None:
    ring = shapely.box(500000, 4999800, 500200, 5000000) - shapely.box(500050, 4999850, 500150, 4999950)
    other = shapely.box(500300, 4999700, 500310, 4999710)
    mask = clip_mask(shapely.union_all([ring, other]), GRID, WHOLE)
    assert mask.sum() == 400 - 100 + 1
    assert not mask[10, 10]
    assert mask[29, 30]


def test_overlapping_parts_do_not_cancel() -> None:
    twice = shapely.GeometryCollection(
        [shapely.box(500000, 4999900, 500100, 5000000), shapely.box(500050, 4999900, 500150, 5000000)]
    )
    assert clip_mask(twice, GRID, WHOLE).sum() == 150


def test_far_windows_are_all_in_or_all_out() -> None:
    square = shapely.box(500000, 4999600, 500500, 5000000)
    assert clip_mask(square, GRID, Window(10, 10, 5, 5)).all()
    for window in (Window(60, 0, 5, 5), Window(-9, 0, 5, 5), Window(0, 90, 5, 5), Window(0, -9, 5, 5)):
        assert not clip_mask(square, GRID, window).any()


@pytest.mark.parametrize("geometry", [shapely.Point(500000, 5000000), shapely.LineString([(0, 0), (1, 1)])])
def test_a_region_without_area_cannot_clip(geometry: shapely.Geometry) -> None:
    with pytest.raises(GridError, match=r"grid.clip: .* without area"):
        clip_mask(geometry, GRID, WHOLE)


def test_a_clip_region_travels_and_stays_quick() -> None:
    angles = np.linspace(0, 2 * np.pi, 100_001)
    radius = 100_000 + 1000 * np.sin(997 * angles)
    ring = np.stack([500000 + radius * np.cos(angles), 5000000 + radius * np.sin(angles)], axis=1)
    clip = ClipRegion.on(shapely.Polygon(ring), GRID)
    window = Window(-10_300, -128, 512, 256)
    start = time.perf_counter()
    mask = clip.mask(window)
    assert time.perf_counter() - start < 2
    assert 0 < mask.sum() < mask.size
    assert np.array_equal(pickle.loads(pickle.dumps(clip)).mask(window), mask)
