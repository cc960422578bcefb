from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from affine import Affine
from hypothesis import example, given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from pyproj import CRS, Transformer
from refusals import says_what_to_do
from shared import shared_data

from patchbeam.errors import JobError
from patchbeam.mixer import Mixer, crs_text, java_double

MODIS_SINUSOIDAL = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs"

# ruff: noqa: E501
TEXT = """{
  "projection": {
    "crs": "EPSG:4326",
    "affine": {
      "doubleMatrix": [8.983152841195215E-5, 0.0, 89.39005136557161, 0.0, -8.983152841195215E-5, 27.448158253564596]
    }
  },
  "patchDimensions": [256, 256],
  "patchesPerRow": 1,
  "totalPatches": 1
}"""

# What Double.toString of JDK 19 and later prints, from the text of its contract.
JAVA = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (100.0, "100.0"),
    (-30.0, "-30.0"),
    (0.1, "0.1"),
    (0.001, "0.001"),
    (-0.001, "-0.001"),
    (0.00123, "0.00123"),
    (9.99e-4, "9.99E-4"),
    (1e-4, "1.0E-4"),
    (9999999.0, "9999999.0"),
    (1234567.25, "1234567.25"),
    (1e7, "1.0E7"),
    (-1e7, "-1.0E7"),
    (12345678.9, "1.23456789E7"),
    (2e23, "2.0E23"),
    (1e23, "1.0E23"),
    (5e-324, "4.9E-324"),
    (1e-323, "9.9E-324"),
    (2e-323, "2.0E-323"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (2.2250738585072014e-308, "2.2250738585072014E-308"),
    (9.007199254740993e15, "9.007199254740992E15"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
]


def mapping(**changes: Any) -> dict[str, Any]:
    root: dict[str, Any] = json.loads(TEXT)
    root.update(patchesPerRow=3, totalPatches=6)
    root.update(changes)
    return root


def with_affine(*values: Any) -> dict[str, Any]:
    return mapping(projection={"crs": "EPSG:4326", "affine": {"doubleMatrix": list(values)}})


@dataclass(frozen=True)
class Patches:
    columns: int
    count: int
    patch_width_height: tuple[int, int]


def test_the_layout_is_written_byte_for_byte() -> None:
    mixer = Mixer(
        crs="EPSG:4326",
        affine=(8.983152841195215e-5, 0, 89.39005136557161, 0, -8.983152841195215e-5, 27.448158253564596),
        patch_width_height=(256, 256),
        patches_per_row=1,
        total_patches=1,
    )
    assert mixer.to_text() == TEXT
    assert Mixer.from_text(TEXT) == mixer
    assert Mixer.from_text(TEXT.encode("utf-8-sig")) == mixer


def test_real_mixers_are_rewritten_byte_for_byte() -> None:
    data = shared_data()
    files = sorted((data / "earth-engine").glob("*.json")) if data else []
    if not files:
        pytest.skip("no real mixers on this machine")
    for file in files:
        text = file.read_bytes()
        assert Mixer.from_text(text, file.name).to_text().encode() == text.rstrip(b"\n"), file.name


@pytest.mark.parametrize(("value", "text"), JAVA)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_nan_and_numpy_numbers() -> None:
    assert java_double(math.nan) == "NaN"
    assert java_double(np.float64(30.5)) == "30.5"
    assert java_double(7) == "7.0"


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5.684341886080802e-14)
@example(0.001)
@example(9999999.999999998)
@example(0.0009999999999999998)
def test_a_java_double_reads_back_and_has_pythons_digits(value: float) -> None:
    text = java_double(value)
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    mantissa, _, exponent = text.partition("E")
    whole, point, fraction = mantissa.lstrip("-").partition(".")
    assert point and whole and fraction
    magnitude = abs(value)
    assert bool(exponent) == (magnitude != 0 and not 1e-3 <= magnitude < 1e7)
    if exponent:
        assert len(whole) == 1 and whole != "0"
    digits = (whole + fraction).strip("0")
    python = repr(magnitude).partition("e")[0].replace(".", "").strip("0")
    # Java never weighs fewer than two digits, which only the smallest subnormals show.
    assert digits == python or (len(python) == 1 and len(digits) == 2)
    assert len(fraction) == 1 or not fraction.endswith("0")


affines = st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, width=64)] * 6).filter(
    lambda a: math.isfinite(a[0] * a[4] - a[1] * a[3]) and a[0] * a[4] - a[1] * a[3] != 0
)


@given(affines, st.integers(1, 5000), st.integers(1, 5000), st.integers(1, 99), st.integers(1, 99), st.text())
def test_round_trip(
    affine: tuple[float, ...], width: int, height: int, columns: int, rows: int, crs: str
) -> None:
    mixer = Mixer(
        crs=f"x{crs}",
        affine=affine,  # type: ignore[arg-type]
        patch_width_height=(width, height),
        patches_per_row=columns,
        total_patches=columns * rows,
    )
    text = mixer.to_text()
    assert Mixer.from_text(text) == mixer
    assert Mixer.from_text(text).to_text() == text
    shuffled = json.dumps(dict(reversed(json.loads(text).items())), indent=7)
    assert Mixer.from_text(shuffled) == mixer


def test_other_keys_and_whole_floats_are_read() -> None:
    root = mapping(note="made elsewhere", patchDimensions=[256.0, 128], totalPatches=6.0)
    mixer = Mixer.from_text(json.dumps(root))
    assert mixer.patch_width_height == (256, 128)
    assert all(type(size) is int for size in (*mixer.patch_width_height, mixer.total_patches))
    assert mixer.rows == 2


@pytest.mark.parametrize(
    ("root", "key"),
    [
        (mapping(totalPatches=7), "totalPatches: 7"),
        (mapping(totalPatches=True), "totalPatches: True"),
        (mapping(totalPatches=0), "totalPatches: 0"),
        (mapping(totalPatches="6"), "totalPatches: '6'"),
        (mapping(patchesPerRow=-3), "patchesPerRow: -3"),
        (mapping(patchesPerRow=2.5), "patchesPerRow: 2.5"),
        (mapping(patchesPerRow=None), "patchesPerRow: None"),
        (mapping(patchDimensions=[256, 0]), "patchDimensions[1]: 0"),
        (mapping(patchDimensions=[False, 256]), "patchDimensions[0]: False"),
        (mapping(patchDimensions=[256]), "patchDimensions: [256]"),
        (mapping(patchDimensions=256), "patchDimensions: 256"),
        (mapping(projection=4326), "projection: 4326"),
        (mapping(projection={"crs": "EPSG:4326"}), "projection.affine: missing"),
        (mapping(projection={"affine": {"doubleMatrix": [1, 0, 0, 0, 1, 0]}}), "projection.crs: missing"),
        (mapping(projection={"crs": 4326, "affine": {"doubleMatrix": [1, 0, 0, 0, 1, 0]}}), "projection.crs"),
        (mapping(projection={"crs": " ", "affine": {"doubleMatrix": [1, 0, 0, 0, 1, 0]}}), "projection.crs"),
        (with_affine(1, 0, 0, 0, 0, 0), "projection.affine.doubleMatrix: [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]"),
        (with_affine(2, 4, 0, 1, 2, 0), "singular"),
        (with_affine(1, 0, 0, 0, -1), "projection.affine.doubleMatrix: [1, 0, 0, 0, -1]"),
        (with_affine(1, 0, "0", 0, -1, 0), "projection.affine.doubleMatrix[2]: '0'"),
        (with_affine(1, 0, 0, 0, -1, True), "projection.affine.doubleMatrix[5]: True"),
        (with_affine(1, 0, math.nan, 0, -1, 0), "projection.affine.doubleMatrix[2]: nan is not finite"),
        (with_affine(1, 0, math.inf, 0, -1, 0), "projection.affine.doubleMatrix[2]: inf is not finite"),
        (with_affine(10**400, 0, 0, 0, -1, 0), "projection.affine.doubleMatrix[0]"),
    ],
)
def test_the_impossible_is_refused_by_key(root: dict[str, Any], key: str) -> None:
    with pytest.raises(JobError) as caught:
        Mixer.from_text(json.dumps(root), "scene-mixer.json")
    assert str(caught.value).startswith("scene-mixer.json: ")
    assert key in str(caught.value) and says_what_to_do(str(caught.value))


@pytest.mark.parametrize("key", ["projection", "patchDimensions", "patchesPerRow", "totalPatches"])
def test_a_missing_key_is_named(key: str) -> None:
    root = mapping()
    del root[key]
    with pytest.raises(JobError, match=f"^m: {key}: missing.*; mend it, or fetch"):
        Mixer.from_text(json.dumps(root), "m")
    root["".join(reversed(key)) if key == "projection" else key[:-1]] = 1
    with pytest.raises(JobError, match=f"^m: {key}: missing.*; mend it, or fetch"):
        Mixer.from_text(json.dumps(root), "m")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", b"\xff\xfe\x00", "[" * 100_000, '"projection"'])
def test_what_is_no_mixer_is_refused(text: str | bytes) -> None:
    with pytest.raises(JobError, match=r"^m\.json: .*; give the mixer of an export"):
        Mixer.from_text(text, "m.json")


def test_the_grid_covers_the_patches() -> None:
    grid = Mixer.from_text(json.dumps(with_affine(2.0, 0.5, 10, 0.25, -3, 20))).grid()
    assert (grid.width, grid.height) == (3 * 256, 2 * 256)
    assert tuple(grid.affine)[:6] == (2.0, 0.5, 10, 0.25, -3, 20)
    assert grid.crs is not None and grid.crs.epsg == 4326


def test_modis_sinusoidal() -> None:
    root = mapping(projection={"crs": "SR-ORG:6974", "affine": {"doubleMatrix": [500, 0, 0, 0, -500, 0]}})
    mixer = Mixer.from_text(json.dumps(root))
    assert '"crs": "SR-ORG:6974"' in mixer.to_text()
    grid = mixer.grid()
    assert grid.crs is not None
    assert grid.crs.proj == CRS(MODIS_SINUSOIDAL)
    again = Mixer.from_grid(grid, Patches(3, 6, (256, 256)))  # type: ignore[arg-type]
    assert again.crs.startswith("PROJCS[")
    assert again.grid() == grid


def test_an_unknown_crs_is_refused_by_name() -> None:
    root = mapping(projection={"crs": "EPSG:1", "affine": {"doubleMatrix": [1, 0, 0, 0, -1, 0]}})
    with pytest.raises(JobError, match=r"projection\.crs: 'EPSG:1'"):
        Mixer.from_text(json.dumps(root)).grid()


@pytest.mark.parametrize(
    ("crs", "text"),
    [
        (CRS(4326), "EPSG:4326"),
        (CRS("OGC:CRS84"), "EPSG:4326"),  # the same but for the order of its axes
        (CRS.from_wkt(CRS(32633).to_wkt("WKT1_GDAL")), "EPSG:32633"),
        (CRS("+proj=utm +zone=33 +datum=WGS84 +units=m +no_defs"), "EPSG:32633"),
    ],
)
def test_a_code_is_written_where_there_is_one(crs: CRS, text: str) -> None:
    assert crs_text(crs) == text


@pytest.mark.parametrize(
    "crs",
    [
        CRS(MODIS_SINUSOIDAL),
        CRS("+proj=laea +lat_0=10 +lon_0=-81 +datum=WGS84 +units=m"),
        CRS("+proj=tmerc +lon_0=15 +k=0.9996 +x_0=500001 +datum=WGS84 +units=m"),  # zone 33, a metre off
        CRS("+proj=ob_tran +o_proj=longlat +o_lon_p=-162 +o_lat_p=39.25 +lon_0=180 +datum=WGS84"),
    ],
)
def test_wkt_is_written_where_there_is_no_code(crs: CRS) -> None:
    text = crs_text(crs)
    assert "[" in text and "\n" not in text
    there = Transformer.from_crs(crs, text, always_xy=True).transform(12.5, 47.25)
    assert there == pytest.approx((12.5, 47.25), abs=1e-9)


def test_from_grid_has_no_minus_zero() -> None:
    grid = GeoBox((512, 600), Affine(10.0, -0.0, 500000.0, -0.0, -10.0, 4600000.0), "EPSG:32633")
    mixer = Mixer.from_grid(grid, Patches(2, 4, (256, 256)))  # type: ignore[arg-type]
    assert "[10.0, 0.0, 500000.0, 0.0, -10.0, 4600000.0]" in mixer.to_text()
    assert mixer.crs == "EPSG:32633"
    assert (mixer.patches_per_row, mixer.total_patches) == (2, 4)
    with pytest.raises(JobError, match="no CRS; make it with one"):
        Mixer.from_grid(GeoBox((8, 8), Affine.identity(), None), Patches(1, 1, (8, 8)))  # type: ignore[arg-type]
