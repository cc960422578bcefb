from __future__ import annotations

import numpy as np
import pytest
from affine import Affine
from hypothesis import assume, given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from pyproj import CRS
from shared import shared_data

from patchbeam.affines import affine6, from_affine6, to_pixels, to_xy
from patchbeam.errors import GridError
from patchbeam.grid import GridOptions, appearances, offsets_on, padded, require_overlap, resolve_grid
from patchbeam.lattice import snap_out
from patchbeam.patches import Window

UTM = "EPSG:32633"
NORTH_UP = Affine(10, 0, 500000, 0, -10, 5000000)
LATTICES = [
    NORTH_UP,
    Affine(10, 0, 500000, 0, 10, 5000000),  # south-up
    Affine(-10, 0, 500000, 0, -10, 5000000),  # mirrored
    Affine(7.5, 0, 499999.25, 0, -12.25, 5000000.5),  # not square
    Affine(8.66, -5, 500000, -5, -8.66, 5000000),  # turned
    Affine(0, 10, 500000, -10, 0, 5000000),  # turned by 90°
    Affine(0.00833, 0, 11.3, 0, -0.00833, 48.7),
]


def box(affine: Affine, width: int = 40, height: int = 30, crs: str = UTM) -> GeoBox:
    return GeoBox((height, width), affine, crs)


@pytest.mark.parametrize("affine", LATTICES)
@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(1, 9999), st.integers(1, 9999))
def test_a_window_of_a_grid_lies_on_it_where_it_was_cut(
    affine: Affine, col: int, row: int, width: int, height: int
) -> None:
    grid = box(affine)
    part = padded(grid, Window(col, row, width, height))
    assert (part.width, part.height) == (width, height)
    assert offsets_on(grid, part) == (col, row)
    assert offsets_on(part, grid) == (-col, -row)


@pytest.mark.parametrize("affine", LATTICES)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_off_the_lattice_by_more_than_a_thousandth_is_off(
    affine: Affine, col: int, row: int, by_col: float, by_row: float
) -> None:
    far = max(abs(by_col), abs(by_row))
    assume(abs(far - 1e-3) > 1e-6)
    (x, y) = to_xy(affine, [(col + by_col, row + by_row)])[0].tolist()
    moved = box(Affine(affine.a, affine.b, x, affine.d, affine.e, y))
    assert (offsets_on(box(affine), moved) is not None) == (far < 1e-3)


@pytest.mark.parametrize(
    "other",
    [
        box(Affine(10, 0, 500000, 0, 10, 5000000)),
        box(Affine(10.001, 0, 500000, 0, -10, 5000000)),
        box(Affine(20, 0, 500000, 0, -20, 5000000)),
        box(Affine(10, 0.01, 500000, 0, -10, 5000000)),
        box(NORTH_UP, crs="EPSG:32634"),
        box(NORTH_UP, crs="EPSG:4326"),
    ],
)
def test_another_lattice_is_not_on_it(other: GeoBox) -> None:
    assert offsets_on(box(NORTH_UP), other) is None


def test_a_rounded_geotransform_is_on_the_lattice() -> None:
    exact = box(Affine(1 / 3600, 0, 12, 0, -1 / 3600, 49), 3600, 3600, "EPSG:4326")
    rounded = box(Affine(0.000277777778, 0, 13, 0, -0.000277777778, 49), 3600, 3600, "EPSG:4326")
    assert offsets_on(exact, rounded) == (3600, 0)


def test_the_same_crs_by_code_and_by_wkt_is_the_same() -> None:
    code = box(NORTH_UP)
    for version in ("WKT1_GDAL", "WKT2_2019", "WKT1_ESRI"):
        text = GeoBox((30, 40), NORTH_UP, code.crs.proj.to_wkt(version))
        assert offsets_on(code, text) == (0, 0), version
    compound = GeoBox((30, 40), NORTH_UP, CRS("EPSG:32633+5773").to_wkt())
    assert offsets_on(code, compound) == (0, 0)


@given(st.floats(-1e6, 1e6), st.floats(0, 1e5))
def test_snapping_is_outward_and_minimal(low: float, length: float) -> None:
    high = low + length
    start, stop = snap_out(low, high)
    assert low - 1 < start <= low + 1e-6
    assert high - 1e-6 <= stop < high + 1


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (2.0, 5.0, (2, 5)),
        (2.0 + 9e-7, 5.0 - 9e-7, (2, 5)),
        (2.0 - 9e-7, 5.0 + 9e-7, (2, 5)),
        (2.0 - 1.1e-6, 5.0 + 1.1e-6, (1, 6)),
        (2.9999, 5.0001, (2, 6)),
        (-0.5, 0.5, (-1, 1)),
    ],
)
def test_a_millionth_of_a_pixel_is_an_edge(low: float, high: float, expected: tuple[int, int]) -> None:
    assert snap_out(low, high) == expected


@pytest.mark.parametrize("affine", LATTICES)
def test_pixels_and_map_coordinates_are_inverse(affine: Affine) -> None:
    pixels = np.array([(0, 0), (0.5, 123.25), (-7, 1e6), (31234.5, 2)])
    back = to_pixels(affine, to_xy(affine, pixels.tolist()))
    np.testing.assert_allclose(back, pixels, atol=1e-6)
    np.testing.assert_allclose(to_xy(affine, [(3, 4)])[0], _oracle(affine, 3, 4))


def _oracle(affine: Affine, col: float, row: float) -> list[float]:
    matrix = np.array([affine[:3], affine[3:6]])
    return list(matrix @ (col, row, 1))


def test_affine6_is_in_the_services_order() -> None:
    numbers = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    affine = from_affine6(numbers)
    assert (affine.a, affine.b, affine.c, affine.d, affine.e, affine.f) == numbers
    assert affine6(box(affine)) == numbers


@pytest.mark.parametrize("affine", LATTICES)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_the_union_of_files_is_on_the_first_ones_lattice(affine: Affine, order: tuple[int, ...]) -> None:
    windows = [Window(0, 0, 40, 30), Window(40, -7, 20, 30), Window(-100, 300, 1, 2)]
    grid = box(affine)
    files = [padded(grid, windows[i]) for i in order]
    union = resolve_grid(GridOptions(), files)
    assert offsets_on(grid, union) == (-100, -7)
    assert (union.width, union.height) == (160, 309)
    assert affine6(union)[:2] == affine6(grid)[:2]


@pytest.mark.parametrize("affine", LATTICES)
@given(
    st.floats(-1000, 1000), st.floats(-1000, 1000), st.floats(0.01, 100), st.floats(0.01, 100), st.booleans()
)
def test_a_region_is_covered_on_any_lattice_and_no_pixel_more(
    affine: Affine, col: float, row: float, width: float, height: float, by_source: bool
) -> None:
    corners = [(col, row), (col + width, row), (col + width, row + height), (col, row + height)]
    ring = to_xy(affine, [*corners, corners[0]]).tolist()
    region = {"type": "Polygon", "coordinates": [ring]}
    options = GridOptions(region=region, region_crs=UTM)
    if not by_source:
        options = GridOptions(region=region, region_crs=UTM, crs=UTM, crs_transform=tuple(affine[:6]))
    grid = box(affine)
    found = resolve_grid(options, [grid])
    start = offsets_on(grid, found)
    assert start is not None
    for low, size, edge, pixels in (
        (col, width, start[0], found.width),
        (row, height, start[1], found.height),
    ):
        assert low - 1 - 1e-5 < edge <= low + 2e-6
        assert low + size - 2e-6 <= edge + pixels < low + size + 1 + 1e-5


def test_a_file_off_the_lattice_is_covered_by_whole_pixels() -> None:
    first = box(NORTH_UP)
    finer = box(Affine(3, 0, 500401, 0, -3, 4999999), 10, 10)
    union = resolve_grid(GridOptions(), [first, finer])
    assert affine6(union) == affine6(first)
    assert (union.width, union.height) == (44, 30)
    other_zone = GeoBox((30, 40), Affine(10, 0, 29000, 0, -10, 5000000), "EPSG:32634")
    union = resolve_grid(GridOptions(), [first, other_zone])
    assert affine6(union)[:2] == affine6(first)[:2]
    inside = other_zone.extent.to_crs(UTM).boundingbox
    assert union.boundingbox.right >= inside.right
    assert union.boundingbox.bottom <= inside.bottom


def test_a_neighbour_rounded_by_a_digit_adds_no_row() -> None:
    first = box(Affine(10, 0, 500000, 0, -10, 5000000))
    neighbour = box(Affine(10, 0, 500400.004, 0, -10, 5000000.004))
    union = resolve_grid(GridOptions(), [first, neighbour])
    assert (union.width, union.height) == (80, 30)


def test_files_on_both_sides_of_the_antimeridian_lie_together() -> None:
    east = box(Affine(0.1, 0, 176, 0, -0.1, -15), 40, 30, "EPSG:4326")
    west = box(Affine(0.1, 0, -180, 0, -0.1, -15), 40, 30, "EPSG:4326")
    for files in ([east, west], [west, east]):
        union = resolve_grid(GridOptions(), files)
        assert (union.width, union.height) == (80, 30)
        assert union.boundingbox.left == pytest.approx(176)
        assert offsets_on(union, east) == (0, 0)
        assert [offsets_on(union, place) for place in appearances(union, west)] == [(40, 0)]
    scaled = resolve_grid(GridOptions(scale=10000), [east, west])
    assert scaled.boundingbox.left < 177 < 183 < scaled.boundingbox.right < 185


def test_a_global_raster_appears_on_both_sides_of_the_antimeridian() -> None:
    globe = box(Affine(1, 0, -180, 0, -1, 90), 360, 180, "EPSG:4326")
    across = box(Affine(1, 0, 175, 0, -1, 10), 20, 10, "EPSG:4326")
    assert [offsets_on(across, g) for g in appearances(across, globe)] == [(-355, -80), (5, -80)]
    within = box(Affine(1, 0, 10, 0, -1, 10), 20, 10, "EPSG:4326")
    assert appearances(within, globe) == (globe,)
    assert appearances(box(NORTH_UP), globe) == (globe,)
    beside = box(Affine(1, 0, -170, 0, -1, 10), 5, 5, "EPSG:4326")
    nowhere = box(Affine(1, 0, 20, 0, -1, 10), 5, 5, "EPSG:4326")
    assert appearances(within, nowhere) == (nowhere,)
    assert [offsets_on(across, place) for place in appearances(across, beside)] == [(15, 0)]
    assert offsets_on(across, beside) == (-345, 0)


def test_overlap_is_required_with_both_bounds_in_the_message() -> None:
    grid, source = box(NORTH_UP), box(Affine(10, 0, 600000, 0, -10, 5000000))
    require_overlap(grid, [source, grid])
    with pytest.raises(GridError) as caught:
        require_overlap(grid, [source])
    text = str(caught.value)
    assert "[500000.0, 4999700.0, 500400.0, 5000000.0] in EPSG:32633" in text
    assert "[600000.0, 4999700.0, 600400.0, 5000000.0] in EPSG:32633" in text
    assert text.startswith("grid.region: no source covers any of the grid")


def test_a_shared_edge_is_no_overlap() -> None:
    grid = box(NORTH_UP)
    with pytest.raises(GridError, match="no source covers"):
        require_overlap(grid, [padded(grid, Window(40, 0, 5, 5))])
    require_overlap(grid, [padded(grid, Window(39, 0, 5, 5))])


@pytest.mark.parametrize(
    ("source", "overlaps"),
    [
        (box(Affine(1, 0, -180, 0, -1, 90), 360, 180, "EPSG:4326"), True),
        (box(Affine(1, 0, 0, 0, -1, 90), 360, 180, "EPSG:4326"), True),
        (box(Affine(1, 0, -180.5, 0, -1, 90.5), 361, 181, "EPSG:4326"), True),
        (box(Affine(1, 0, -100, 0, -1, 90), 20, 180, "EPSG:4326"), False),
        (box(Affine(1000, 0, 1.66e6, 0, -1000, 5.8e6), 30, 300, "EPSG:3857"), True),
        (box(Affine(1000, 0, -1.66e6, 0, -1000, 5.8e6), 30, 300, "EPSG:3857"), False),
        (box(Affine(8.66, -5, 500000, -5, -8.66, 5000000)), True),
        (box(Affine(100, 0, 10000, 0, -100, 5030000), 400, 400, "EPSG:32634"), True),
        (box(Affine(100, 0, 90000, 0, -100, 5000000), 20, 20, "EPSG:32634"), False),
    ],
)
def test_overlap_is_found_across_crs(source: GeoBox, overlaps: bool) -> None:
    grid = box(NORTH_UP)
    if overlaps:
        require_overlap(grid, [source])
    else:
        with pytest.raises(GridError, match="no source covers"):
            require_overlap(grid, [source])


def test_overlap_is_found_a_full_turn_away() -> None:
    across = box(Affine(0.1, 0, 181, 0, -0.1, 10), 20, 10, "EPSG:4326")
    require_overlap(across, [box(Affine(0.1, 0, -179, 0, -0.1, 10), 20, 10, "EPSG:4326")])
    require_overlap(across, [box(Affine(1000, 0, 200000, 0, -1000, 1.1e6), 300, 300, "EPSG:32601")])
    with pytest.raises(GridError, match="no source covers"):
        require_overlap(across, [box(Affine(0.1, 0, -170, 0, -0.1, 10), 20, 10, "EPSG:4326")])


@pytest.mark.skipif(shared_data() is None, reason="no real rasters here")
def test_real_rasters_overlap_themselves_in_lonlat() -> None:
    rasterio = pytest.importorskip("rasterio")
    for name in ("odc-geo/au-3577-rotated.tif", "rio-tiler/cog_dateline.tif", "rio-tiler/mosaic_cog3.tif"):
        with rasterio.open(shared_data() / "rasters" / name) as dataset:  # type: ignore[operator]
            source = GeoBox((dataset.height, dataset.width), dataset.transform, dataset.crs.to_wkt())
        grid = resolve_grid(GridOptions(crs="EPSG:4326", scale=1000), [source])
        require_overlap(grid, [source])
        if "dateline" in name:
            assert 177 < grid.boundingbox.left < 180 < grid.boundingbox.right < 183
