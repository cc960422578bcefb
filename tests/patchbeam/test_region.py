from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import shapely
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from odc.geo.crs import CRS
from odc.geo.geobox import GeoBox
from pyproj import Transformer
from refusals import says_what_to_do

from patchbeam.errors import GridError
from patchbeam.grid import GridOptions, clip_region, region_in, resolve_grid
from patchbeam.patches import Window
from patchbeam.region import parse_region

LONLAT = CRS("EPSG:4326")


def polygon(*rings: list[list[float]]) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def bounds(region: Any, crs: str = "EPSG:4326", **options: Any) -> tuple[float, ...]:
    return region_in(GridOptions(region=region, **options), crs).bounds


SQUARE = polygon([[1, 2], [3, 2], [3, 4], [1, 4], [1, 2]])


@pytest.mark.parametrize(
    "region",
    [
        SQUARE,
        {"type": "Feature", "properties": {}, "geometry": SQUARE},
        {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": SQUARE}]},
        {
            "type": "FeatureCollection",
            "features": [{"type": "Feature", "geometry": None}, {"type": "Feature", "geometry": SQUARE}],
        },
        {"type": "GeometryCollection", "geometries": [SQUARE, {"type": "Point", "coordinates": [2, 2]}]},
        {"type": "MultiPolygon", "coordinates": [SQUARE["coordinates"]]},
        {"type": "LineString", "coordinates": [[1, 2, 7], [3, 4, 8]]},
        {"type": "MultiPoint", "coordinates": [[1, 4], [3, 2]]},
        {"type": "MultiLineString", "coordinates": [[[1, 4], [3, 2]], [[2, 2], [3, 3]]]},
        polygon([[1, 2], [3, 2], [3, 4], [1, 4]]),
        (1.0, 2.0, 3.0, 4.0),
        [1, 2, 3, 4],
    ],
)
def test_every_form_of_region_gives_its_bounds(region: Any) -> None:
    assert bounds(region) == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("region", "words"),
    [
        ({"type": "Polygone"}, r"grid.region.type: 'Polygone' .*did you mean 'Polygon'"),
        ({}, "grid.region.type: None is not a GeoJSON type"),
        ({"type": "FeatureCollection", "features": []}, "the GeoJSON FeatureCollection holds no geometry"),
        ({"type": "FeatureCollection"}, r"grid.region.features: .* has no list of features"),
        ({"type": "FeatureCollection", "features": [3]}, r"grid.region.features\[0\]: '3' is not a GeoJSON"),
        ({"type": "Feature", "geometry": None}, "holds no geometry"),
        ({"type": "Polygon", "coordinates": []}, "holds no geometry"),
        (polygon([[0, 0], [1, 1]]), r"grid.region.coordinates\[0\]: a ring needs at least 3 corners"),
        (polygon([[0, 0], [1, 1], [math.nan, 0], [0, 0]]), r"coordinates\[0\]\[2\]\[0\]: nan is not finite"),
        (polygon([[0, 0], [1, 1], ["1", 0], [0, 0]]), r"coordinates\[0\]\[2\]\[0\]: '1' is not a number"),
        (polygon([[0, 0], [1, 1], [1], [0, 0]]), r"coordinates\[0\]\[2\]: \[1\] is not a position"),
        ({"type": "Polygon", "coordinates": "no"}, "grid.region.coordinates: 'no' is not a list"),
        ("area.geojson", "neither a GeoJSON geometry"),
        ([1, 2, 3], "neither a GeoJSON geometry"),
        ([1, 2, "3", 4], r"grid.region\[2\]: '3' is not a number"),
        ([1, 2, True, 4], r"grid.region\[2\]: True is not a number"),
    ],
)
def test_what_is_no_region_is_refused_with_its_place(region: Any, words: str) -> None:
    with pytest.raises(GridError, match=words) as caught:
        parse_region(region)
    assert says_what_to_do(str(caught.value))


def test_projected_coordinates_taken_as_degrees_are_refused() -> None:
    square = polygon([[500000, 5000000], [500100, 5000000], [500100, 5000100], [500000, 5000000]])
    with pytest.raises(GridError, match=r"no longitude and latitude of EPSG:4326; give grid.regionCrs"):
        bounds(square, "EPSG:32633")
    assert bounds(square, "EPSG:32633", region_crs="EPSG:32633") == (500000, 5000000, 500100, 5000100)


def test_a_box_that_no_globe_has_is_refused() -> None:
    with pytest.raises(
        GridError, match=r"wider than the globe in EPSG:4326; give at most 360 from xmin to xmax"
    ):
        bounds((-200, 0, 200, 1), "EPSG:4326")


def test_the_2008_crs_member_counts_unless_region_crs_is_given() -> None:
    square = polygon([[500000, 5000000], [500100, 5000000], [500100, 5000100], [500000, 5000000]])
    named = square | {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}}
    assert bounds(named, "EPSG:32633") == (500000, 5000000, 500100, 5000100)
    crs84 = SQUARE | {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}}
    assert bounds(crs84) == (1, 2, 3, 4)
    assert bounds(named | SQUARE, region_crs="EPSG:4326") == (1, 2, 3, 4)
    with pytest.raises(GridError, match=r"grid.region.crs"):
        bounds(SQUARE | {"crs": 4326})


def test_a_box_is_in_the_export_crs_and_geojson_in_lonlat() -> None:
    assert bounds((0, 0, 10, 10), "EPSG:32633") == (0, 0, 10, 10)
    centre = bounds({"type": "Point", "coordinates": [15, 0]}, "EPSG:32633")
    assert centre == pytest.approx((500000, 0, 500000, 0), abs=1e-6)


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        # a box from east to west
        ((178.0, -20.0, -179.0, -10.0), (178, -20, 181, -10)),
        # a ring that jumps, in both directions and from either side
        (polygon([[178, -20], [-179, -20], [-179, -10], [178, -10], [178, -20]]), (178, -20, 181, -10)),
        (polygon([[-179, -20], [-179, -10], [178, -10], [178, -20], [-179, -20]]), (178, -20, 181, -10)),
        # the same with vertices on the line itself
        (
            polygon([[178, -20], [180, -20], [-179, -20], [-179, -10], [-180, -10], [178, -10], [178, -20]]),
            (178, -20, 181, -10),
        ),
        # past 180, as some tools write it
        (polygon([[178, -20], [181, -20], [181, -10], [178, -10], [178, -20]]), (178, -20, 181, -10)),
        # cut in two, as RFC 7946 asks
        (
            {
                "type": "MultiPolygon",
                "coordinates": [
                    [[[178, -20], [180, -20], [180, -10], [178, -10], [178, -20]]],
                    [[[-180, -20], [-179, -20], [-179, -10], [-180, -10], [-180, -20]]],
                ],
            },
            (178, -20, 181, -10),
        ),
        # the globe, however it is drawn
        (polygon([[-180, -90], [180, -90], [180, 90], [-180, 90], [-180, -90]]), (-180, -90, 180, 90)),
        (
            polygon([[-180, -90], [180, -90], [180, 90], [0, 90], [-180, 90], [-180, -90]]),
            (-180, -90, 180, 90),
        ),
        ((-180.0, -90.0, 180.0, 90.0), (-180, -90, 180, 90)),
        ((-170.0, -20.0, 170.0, 20.0), (-170, -20, 170, 20)),
        # two far parts that do not meet at the antimeridian stay where they are
        (
            {"type": "MultiPoint", "coordinates": [[-70, -30], [170, -40]]},
            (-70, -40, 170, -30),
        ),
    ],
)
def test_regions_across_the_antimeridian_go_the_short_way(region: Any, expected: tuple[float, ...]) -> None:
    assert bounds(region) == pytest.approx(expected, abs=1e-9)


def test_a_hole_follows_its_shell_across_the_antimeridian() -> None:
    shell = [[178, -20], [-178, -20], [-178, -10], [178, -10], [178, -20]]
    hole = [[-179.5, -16], [-179, -16], [-179, -14], [-179.5, -14], [-179.5, -16]]
    geometry = region_in(GridOptions(region=polygon(shell, hole)), "EPSG:4326")
    assert geometry.area == pytest.approx(4 * 10 - 0.5 * 2)
    assert not shapely.contains_xy(geometry, 180.75, -15)
    assert shapely.contains_xy(geometry, 179.25, -15)


@pytest.mark.parametrize(
    "region",
    [
        (179.0, -18.0, -179.0, -16.0),
        polygon([[179, -18], [-179, -18], [-179, -16], [179, -16], [179, -18]]),
    ],
)
@pytest.mark.parametrize("utm", ["EPSG:32760", "EPSG:32701"])
def test_utm_at_the_antimeridian(region: Any, utm: str) -> None:
    grid = resolve_grid(GridOptions(crs=utm, scale=100, region=region, region_crs="EPSG:4326"), [])
    lon, lat = np.meshgrid(np.linspace(179, 181, 201), np.linspace(-18, -16, 201))
    x, y = Transformer.from_crs(4326, utm, always_xy=True).transform(lon.ravel(), lat.ravel())
    box = grid.boundingbox
    assert (box.left, box.bottom) <= (x.min(), y.min())
    assert x.min() - box.left < 101
    assert y.min() - box.bottom < 101
    assert 0 <= box.right - x.max() < 101
    assert 0 <= box.top - y.max() < 101


def test_a_utm_box_at_the_antimeridian_is_narrow_in_lonlat() -> None:
    low, _, high, _ = bounds((600000, 8000000, 1000000, 8100000), region_crs="EPSG:32760")
    assert 177 < low < 180 < high < 182.5
    assert bounds((100000, 8000000, 400000, 8100000), region_crs="EPSG:32701")[0] == pytest.approx(
        179.2, abs=0.1
    )


def test_a_crs_cut_at_the_antimeridian_refuses_a_region_across_it() -> None:
    with pytest.raises(GridError, match=r"grid.region: EPSG:3857 is cut at .* choose a CRS"):
        bounds((178.0, -20.0, -179.0, -10.0), "EPSG:3857", region_crs="EPSG:4326")
    low, _, high, _ = bounds((178.0, -20.0, -179.0, -10.0), "EPSG:3832", region_crs="EPSG:4326")
    assert high - low == pytest.approx(math.radians(3) * 6378137, rel=1e-9)


def test_a_region_that_a_crs_cannot_hold_is_refused() -> None:
    for crs in ("EPSG:32633", "EPSG:32601", "EPSG:3413", "EPSG:3035"):
        with pytest.raises(
            GridError, match=rf"grid.region: .*(no coordinates in {crs}|{crs} is cut|{crs} tears)"
        ):
            bounds((-180.0, -90.0, 180.0, 90.0), crs, region_crs="EPSG:4326")


def test_polar_regions_reach_round_the_pole_in_a_polar_crs() -> None:
    expected = bounds((-180.0, 60.0, 180.0, 90.0), "EPSG:3413", region_crs="EPSG:4326")
    radius = Transformer.from_crs(4326, 3413, always_xy=True).transform(-45, 60)
    assert expected == pytest.approx((radius[1], radius[1], -radius[1], -radius[1]), rel=1e-6)
    ring = polygon([[0, 60], [90, 60], [180, 60], [-90, 60], [0, 60]])
    assert bounds(ring, "EPSG:3413") == pytest.approx(expected, rel=1e-6)
    with pytest.raises(GridError, match=r"runs round a pole, which EPSG:4326 cannot draw"):
        bounds(ring)
    with pytest.raises(GridError, match=r"runs round a pole"):
        bounds((-1e6, -1e6, 1e6, 1e6), region_crs="EPSG:3413")


def test_a_region_moves_to_sources_that_run_from_0_to_360() -> None:
    source = GeoBox((180, 360), Affine(1, 0, 0, 0, -1, 90), "EPSG:4326")
    grid = resolve_grid(GridOptions(region=(-122.5, 37.5, -121.5, 38.5)), [source])
    assert grid.boundingbox.bbox == (237, 37, 239, 39)
    crossing = resolve_grid(GridOptions(region=(-10, 0, 10, 5)), [source])
    assert crossing.boundingbox.bbox == (-10, 0, 10, 5)


def test_clip_follows_the_grid_by_full_turns() -> None:
    source = GeoBox((180, 360), Affine(1, 0, 0, 0, -1, 90), "EPSG:4326")
    options = GridOptions(region=polygon([[-122, 37], [-120, 37], [-120, 39], [-122, 37]]), clip=True)
    grid = resolve_grid(options, [source])
    clip = clip_region(options, grid)
    assert clip is not None
    assert clip.mask(Window(0, 0, 2, 2)).sum() == 3
    assert clip_region(GridOptions(), grid) is None


@given(
    st.floats(-179, 179),
    st.floats(-75, 75),
    st.floats(0.001, 3),
    st.floats(0.001, 3),
)
def test_no_point_of_a_region_is_lost_by_its_projection(
    lon: float, lat: float, width: float, height: float
) -> None:
    box = (lon, lat, lon + width, lat + height)
    zone = int((lon + 180) // 6) + 1
    crs = f"EPSG:{32600 + zone}"
    low_x, low_y, high_x, high_y = bounds(box, crs, region_crs="EPSG:4326")
    shares = np.linspace(0, 1, 57)
    x, y = np.meshgrid(lon + width * shares, lat + height * shares)
    x, y = Transformer.from_crs(4326, crs, always_xy=True).transform(x.ravel(), y.ravel())
    slack = 1e-6 * max(high_x - low_x, high_y - low_y) + 1e-6
    assert low_x - slack <= x.min() <= low_x + slack
    assert high_x - slack <= x.max() <= high_x + slack
    assert low_y - slack <= y.min()
    assert y.max() <= high_y + slack
