from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from shared import ROOT, shared_data

from patchbeam.affines import to_xy
from patchbeam.errors import GridError
from patchbeam.grid import GridOptions, affine6, offsets_on, region_in, resolve_grid
from patchbeam.patches import PatchGrid

UTM = "EPSG:32633"
FIRST = GeoBox((400, 500), Affine(10, 0, 500000, 0, -10, 5000000), UTM)


def resolve(sources: list[GeoBox] | None = None, **options: Any) -> GeoBox:
    return resolve_grid(GridOptions(**options), [FIRST] if sources is None else sources)


@pytest.mark.parametrize(
    ("box", "patch", "size", "origin", "per_row", "count"),
    [
        (
            (-122.7, 37.3, -121.8, 38.0),
            256,
            (3340, 2598),
            (-122.70007617412975, 38.00008399118194),
            13,
            130,
        ),
        (
            (-72.778645, -16.621663, -72.66865, -16.57553),
            64,
            (410, 173),
            (-72.77889920503969, -16.57526446493135),
            6,
            12,
        ),
    ],
)
@pytest.mark.parametrize("as_geojson", [False, True])
def test_grids_of_real_exports_digit_for_digit(
    box: tuple[float, float, float, float],
    patch: int,
    size: tuple[int, int],
    origin: tuple[float, float],
    per_row: int,
    count: int,
    as_geojson: bool,
) -> None:
    region: Any = shapely.geometry.mapping(shapely.box(*box)) if as_geojson else box
    grid = resolve([], crs="EPSG:4326", scale=30, region=region)
    step = 2.6949458523585647e-4
    assert affine6(grid) == (step, 0.0, origin[0], 0.0, -step, origin[1])
    assert (grid.width, grid.height) == size
    patches = PatchGrid(width=grid.width, height=grid.height, patch_width_height=(patch, patch))
    assert (patches.columns, patches.count) == (per_row, count)


def test_origin_of_a_real_export_at_100_m_digit_for_digit() -> None:
    step = 8.983152841195215e-4
    corner = (13.599595086285436, 45.40175277468474)
    grid = resolve(
        [], crs="EPSG:4326", scale=100, region=(corner[0], corner[1] - 1, corner[0] + 1, corner[1])
    )
    assert affine6(grid) == (step, 0.0, corner[0], 0.0, -step, corner[1])


def test_nothing_given_keeps_the_first_files_grid() -> None:
    grid = resolve()
    assert grid == FIRST
    assert affine6(grid) == (10.0, 0.0, 500000.0, 0.0, -10.0, 5000000.0)


def test_region_alone_is_snapped_outward_to_the_first_files_lattice() -> None:
    grid = resolve(region=(500011.0, 4999001.0, 500029.0, 4999049.0))
    assert affine6(grid) == (10.0, 0.0, 500010.0, 0.0, -10.0, 4999050.0)
    assert (grid.width, grid.height) == (2, 5)


def test_region_alone_may_lie_outside_the_image() -> None:
    grid = resolve(region=(499000.0, 5000000.0, 499020.0, 5000010.0))
    assert affine6(grid)[2::3] == (499000.0, 5000010.0)


def test_scale_alone_takes_the_extent_of_the_first_source() -> None:
    grid = resolve(scale=30)
    assert affine6(grid) == (30.0, 0.0, 499980.0, 0.0, -30.0, 5000010.0)
    assert (grid.width, grid.height) == (168, 134)


def test_scale_in_another_crs_covers_the_source() -> None:
    grid = resolve(scale=10, crs="EPSG:4326")
    inside = FIRST.extent.to_crs("EPSG:4326", resolution=50).boundingbox
    bounds = grid.boundingbox
    step = math.degrees(10 / 6378137.0)
    assert bounds.left <= inside.left < bounds.left + 1.01 * step
    assert bounds.top >= inside.top > bounds.top - 1.01 * step
    assert bounds.right >= inside.right > bounds.right - 1.01 * step
    assert bounds.bottom <= inside.bottom < bounds.bottom + 1.01 * step


def test_crs_transform_with_region_snaps_to_that_lattice() -> None:
    grid = resolve([], crs=UTM, crs_transform=(20, 0, 7, 0, -20, 3), region=(100.0, 100.0, 150.0, 155.0))
    assert affine6(grid) == (20.0, 0.0, 87.0, 0.0, -20.0, 163.0)
    assert (grid.width, grid.height) == (4, 4)


def test_crs_transform_with_dimensions_is_the_exact_rectangle() -> None:
    numbers = (20.5, 1.0, 7.25, -1.0, -20.5, 3.125)
    grid = resolve(crs_transform=numbers, dimensions=(11, 7))
    assert affine6(grid) == numbers
    assert (grid.width, grid.height, grid.crs) == (11, 7, FIRST.crs)


def test_region_with_dimensions_divides_the_region() -> None:
    grid = resolve(region=(0.0, 0.0, 100.0, 60.0), dimensions=(10, 20))
    assert affine6(grid) == (10.0, 0.0, 0.0, 0.0, -3.0, 60.0)
    assert (grid.width, grid.height) == (10, 20)


BOX = (500000.0, 4999000.0, 500100.0, 4999100.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 10, "crs_transform": (1, 0, 0, 0, -1, 0)}, "grid.scale and grid.crsTransform"),
        ({"scale": 10, "dimensions": (1, 1)}, "grid.scale and grid.dimensions"),
        (
            {"crs_transform": (1, 0, 0, 0, -1, 0), "dimensions": (1, 1), "region": BOX},
            "grid.region and grid.dimensions",
        ),
        ({"crs_transform": (1, 0, 0, 0, -1, 0)}, "grid.crsTransform: gives no extent"),
        ({"dimensions": (1, 1)}, "grid.dimensions: gives no place"),
        ({"region_crs": UTM}, "grid.regionCrs and grid.region"),
        ({"clip": True}, "grid.clip and grid.region"),
        ({"crs": "EPSG:4326"}, "grid.crs: 'EPSG:4326' is not the first source's EPSG:32633"),
        ({"crs": "EPSG:4326", "region": BOX}, "grid.crs: 'EPSG:4326' is not the first source's"),
        ({"scale": 0}, "grid.scale: 0 must be greater than 0"),
        ({"scale": -10}, "grid.scale: -10"),
        ({"scale": math.nan}, "grid.scale: nan is not a finite"),
        ({"scale": math.inf}, "grid.scale: inf is not a finite"),
        ({"scale": True}, "grid.scale: True"),
        ({"scale": 1e-7}, "more than 2147483647"),
        ({"scale": 1e-320}, "more than 2147483647"),
        ({"scale": 10, "crs": "EPSG:99999"}, "grid.crs: 'EPSG:99999' is not a coordinate reference system"),
        ({"scale": 10, "crs": "EPSG:5773"}, "grid.crs: 'EPSG:5773' is neither geographic nor projected"),
        ({"region": BOX, "region_crs": "nonsense"}, "grid.regionCrs: 'nonsense'"),
        ({"crs_transform": (1, 0, 0, 0, 0, 0), "dimensions": (1, 1)}, "grid.crsTransform: .* is singular"),
        ({"crs_transform": (1, 2, 0, 2, 4, 0), "dimensions": (1, 1)}, "grid.crsTransform: .* is singular"),
        ({"crs_transform": (0, 0, 0, 0, 0, 0), "dimensions": (1, 1)}, "grid.crsTransform: .* is singular"),
        ({"crs_transform": (1, 0, math.nan, 0, 1, 0), "dimensions": (1, 1)}, r"grid.crsTransform\[2\]: nan"),
        ({"crs_transform": (math.inf, 0, 0, 0, 1, 0), "dimensions": (1, 1)}, r"grid.crsTransform\[0\]: inf"),
        ({"crs_transform": (1, 0, 0, 0, 1), "dimensions": (1, 1)}, "has 5 numbers"),
        ({"crs_transform": (1, 0, 0, 0, 1, 0), "dimensions": (0, 1)}, "grid.dimensions: 0"),
        ({"crs_transform": (1, 0, 0, 0, 1, 0), "dimensions": (1.5, 1)}, "grid.dimensions: 1.5"),
        ({"crs_transform": (1, 0, 0, 0, 1, 0), "dimensions": (2**31, 1)}, "more than 2147483647"),
        (
            {"crs_transform": (1e-9, 0, 0, 0, 1, 0), "region": BOX},
            "grid.crsTransform: .*more than 2147483647",
        ),
        ({"region": (1.0, 0.0, 0.0, 1.0)}, "grid.region: .* has no area .* xmin < xmax"),
        ({"region": (0.0, 1.0, 1.0, 1.0)}, "grid.region: .* has no area"),
        ({"region": (0.0, 0.0, math.nan, 1.0)}, r"grid.region\[2\]: nan is not finite"),
        ({"region": (0.0, 0.0, math.inf, 1.0)}, r"grid.region\[2\]: inf is not finite"),
        (
            {"scale": 10, "region": {"type": "Point", "coordinates": [0, 0]}, "region_crs": UTM},
            "0 × 0 pixels: the region has no area",
        ),
        (
            {"region": {"type": "Point", "coordinates": [15, 45]}, "dimensions": (2, 2)},
            "grid.region: has no area, so grid.dimensions",
        ),
    ],
)
def test_what_gives_no_grid_is_refused_by_key(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GridError, match=words):
        resolve(**options)


def test_a_crs_that_is_the_sources_own_is_no_contradiction() -> None:
    assert resolve(crs=UTM) == FIRST
    assert resolve(crs=FIRST.crs.proj.to_wkt("WKT1_GDAL"), region=BOX).width == 10


def test_without_sources_all_must_be_given() -> None:
    with pytest.raises(GridError, match=r"no source gives the grid"):
        resolve([], region=BOX)
    with pytest.raises(GridError, match=r"no source gives the grid"):
        resolve([])
    with pytest.raises(GridError, match=r"grid.scale: gives no extent"):
        resolve([], scale=10, crs=UTM)


def test_a_source_without_crs_gives_no_grid() -> None:
    with pytest.raises(GridError, match="file 1 of the first source has no CRS"):
        resolve([GeoBox((4, 4), Affine.identity(), None)])


coordinates = st.floats(-2e7, 2e7, allow_nan=False)
spans = st.floats(1e-3, 1e5)


@given(coordinates, coordinates, spans, spans, st.floats(0.5, 5000))
def test_snapping_covers_the_region_and_no_more(
    x: float, y: float, width: float, height: float, scale: float
) -> None:
    box = (x, y, x + width, y + height)
    try:
        grid = resolve([], crs="EPSG:3857", scale=scale, region=box)
    except GridError as error:
        assert "no area" in str(error)  # a sliver within the tolerance of one pixel edge
        assert min(box[2] - box[0], box[3] - box[1]) < 2.1e-6 * scale
        return
    bounds = grid.boundingbox
    slack = 1.1e-6 * scale + 1e-8
    for low, edge, sign in (
        (box[0], bounds.left, 1),
        (box[1], bounds.bottom, 1),
        (box[2], bounds.right, -1),
        (box[3], bounds.top, -1),
    ):
        assert -slack <= sign * (low - edge) < scale + slack
    # Edges are single products of whole numbers and the pixel size.
    a, _, c, _, e, f = affine6(grid)
    assert (a, e) == (scale, -scale)
    assert c == round(c / scale) * scale
    assert f == round(f / scale) * scale


@given(coordinates, coordinates, spans, spans, st.floats(0.5, 5000))
def test_the_grid_is_odc_geos_where_the_rules_coincide(
    x: float, y: float, width: float, height: float, scale: float
) -> None:
    box = (x, y, x + width, y + height)
    edges = [v / scale for v in box]
    near = [abs(edge - round(edge)) for edge in edges]
    if min(near) < 1e-5 or round(edges[0]) == round(edges[2]) or round(edges[1]) == round(edges[3]):
        return
    grid = resolve([], crs="EPSG:3857", scale=scale, region=box)
    oracle = GeoBox.from_bbox(box, "EPSG:3857", resolution=scale, anchor="edge", tol=1e-6)
    assert (grid.width, grid.height) == (oracle.width, oracle.height)
    np.testing.assert_allclose(affine6(grid), tuple(oracle.affine)[:6], rtol=1e-12, atol=1e-6)


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.integers(1, 5000), st.integers(1, 5000))
def test_a_region_on_pixel_edges_gains_no_pixel(left: int, top: int, width: int, height: int) -> None:
    step = math.degrees(100 / 6378137.0)
    left, top = left % 100000, top % 50000
    corner = (left * step, (top - height) * step)
    box = (*corner, corner[0] + width * step, corner[1] + height * step)
    if abs(box[1]) > 90 or box[3] > 90:
        return
    grid = resolve([], crs="EPSG:4326", scale=100, region=box)
    assert (grid.width, grid.height) == (width, height)


def test_a_box_in_another_crs_is_densified() -> None:
    # The north edge of a lon/lat box bows north in UTM: its corners alone miss 400 m of it.
    box = (12.0, 60.0, 18.0, 61.0)
    grid = resolve([], crs=UTM, scale=10, region=box, region_crs="EPSG:4326")
    dense = shapely.segmentize(shapely.box(*box), 0.001)
    from pyproj import Transformer

    x, y = Transformer.from_crs(4326, UTM, always_xy=True).transform(*shapely.get_coordinates(dense).T)
    bounds = grid.boundingbox
    for edge, value in ((bounds.left, min(x)), (bounds.bottom, min(y))):
        assert edge <= value + 0.02
        assert value < edge + 10.02
    for edge, value in ((bounds.right, max(x)), (bounds.top, max(y))):
        assert edge >= value - 0.02
        assert value > edge - 10.02
    assert min(y) < y[0]


def test_scale_in_a_crs_of_feet_is_metres() -> None:
    grid = resolve([], crs="EPSG:2263", scale=30, region=(900000.0, 100000.0, 901000.0, 101000.0))
    assert grid.affine.a == pytest.approx(30 / 0.3048006096, rel=1e-9)


def test_region_in_needs_a_region() -> None:
    with pytest.raises(GridError, match=r"grid.region: this key is missing; give"):
        region_in(GridOptions(), UTM)


def test_importing_the_grid_imports_no_gdal() -> None:
    code = "import sys, patchbeam.grid; print({'rasterio', 'osgeo', 'apache_beam'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


@pytest.mark.skipif(shared_data() is None, reason="no real rasters here")
@pytest.mark.parametrize("name", ["odc-geo/au-3577-rotated.tif", "rio-tiler/mosaic_cog3.tif"])
def test_lattices_of_real_rasters(name: str) -> None:
    rasterio = pytest.importorskip("rasterio")
    with rasterio.open(shared_data() / "rasters" / name) as dataset:  # type: ignore[operator]
        source = GeoBox((dataset.height, dataset.width), dataset.transform, dataset.crs.to_wkt())
    assert resolve([source]) == source
    (x, y), origin = to_xy(source.affine, [(50.2, 20.2), (50, 20)]).tolist()
    pixel = min(abs(v) for v in (*source.affine[:2], *source.affine[3:5]) if v) * 1e-3
    grid = resolve([source], region=(x, y, x + pixel, y + pixel))
    assert grid.shape == (1, 1)
    assert affine6(grid)[2::3] == tuple(origin)
    assert offsets_on(source, grid) == (50, 20)
