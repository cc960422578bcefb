from __future__ import annotations

import math

import pytest

from patchbeam.crs import describe, longitude_period, parse_crs, pixel_size, same_crs
from patchbeam.errors import GridError


@pytest.mark.parametrize("code", ["SR-ORG:6974", "sr-org:6974 ", "SR-ORG:6842"])
def test_modis_sinusoidal_has_a_name_that_proj_does_not_know(code: str) -> None:
    crs = parse_crs(code)
    assert crs.projected
    assert crs.semi_major_axis == pytest.approx(6371007.181)
    assert describe(crs)


@pytest.mark.parametrize(
    "text", ["EPSG:32633", "epsg:32633", "+proj=utm +zone=33 +datum=WGS84", "urn:ogc:def:crs:EPSG::32633"]
)
def test_any_text_that_proj_takes(text: str) -> None:
    assert parse_crs(text).projected


@pytest.mark.parametrize("text", ["", "EPSG:0", "utm33", "EPSG:5773", "EPSG:4978"])
def test_what_holds_no_map_is_refused(text: str) -> None:
    with pytest.raises(GridError, match=r"source\.crs: "):
        parse_crs(text, "source.crs")


def test_sizes_are_in_the_units_of_the_crs() -> None:
    assert pixel_size(30, parse_crs("EPSG:4326")) == 2.6949458523585647e-4
    assert pixel_size(10, parse_crs("EPSG:4326")) == 8.983152841195215e-5
    assert pixel_size(30, parse_crs("EPSG:32633")) == 30
    assert pixel_size(30, parse_crs("EPSG:2263")) == pytest.approx(30 * 3937 / 1200)
    paris = parse_crs("EPSG:4807")  # degrees of a grad CRS: 400 a turn
    assert longitude_period(paris) == pytest.approx(400)
    assert pixel_size(30, paris) == pytest.approx(math.degrees(30 / 6378137) / 0.9)


def test_only_x_and_y_are_compared() -> None:
    lonlat = parse_crs("EPSG:4326")
    assert same_crs(lonlat, parse_crs("OGC:CRS84"))
    assert same_crs(lonlat, parse_crs("EPSG:4326+5773"))
    assert not same_crs(lonlat, parse_crs("EPSG:4258"))
    assert not same_crs(lonlat, None)
    assert same_crs(None, None)
    assert longitude_period(parse_crs("EPSG:32633")) is None
    assert longitude_period(None) is None
