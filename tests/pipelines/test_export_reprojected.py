"""Sources off the export grid equal rasterio's warper on that grid; several sources make one image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from eager import write_tif
from exports import Exported, by_rasterio, floats, parsed, run_eagerly, run_job
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.vrt import WarpedVRT
from rasterio.warp import reproject, transform_bounds
from rasterio.windows import Window

DEFAULT = -5
UTM = "EPSG:32633"
LAYOUTS: dict[str, tuple[str, Affine]] = {
    "north-up": (UTM, Affine(10, 0, 500_000, 0, -10, 5_300_000)),
    "south-up": (UTM, Affine(10, 0, 500_000, 0, 10, 5_299_100)),
    "rotated": (UTM, Affine(8, 3, 500_000, 2, -9, 5_300_000)),
    "non-square": (UTM, Affine(12.5, 0, 500_000, 0, -7.25, 5_300_000)),
    "antimeridian": ("EPSG:32760", Affine(1000, 0, 770_000, 0, -1000, 8_200_000)),
}


def raster(path: Path, layout: str = "north-up", dtype: str = "i2", bands: int = 1, **options: Any) -> Path:
    """Noise between 0 and 5000, -1 (nodata) in a corner."""
    values = np.random.default_rng(7).integers(0, 5000, (bands, 90, 100)).astype(dtype)
    values[:, 10:20, :30] = -1
    crs, transform = LAYOUTS[layout]
    return write_tif(path, values, **({"crs": crs, "transform": transform, "nodata": -1} | options))


def canvas(export: Exported) -> tuple[Affine, int, int]:
    """Transform, width and height of the grid widened by the margin; patches stand on it side by side."""
    x, y = (k // 2 for k in export.plan.options.kernel_width_height)
    grid = export.manifest.grid
    a, b, c, d, e, f = export.affine[:6]
    corner = Affine(a, b, c - a * x - b * y, d, e, f - d * x - e * y)
    return corner, grid.width + 2 * x, grid.height + 2 * y


def warped(export: Exported, path: Path, resampling: str) -> np.ndarray:
    """A band on the whole grid and its margin, by GDAL with a transformer that is not approximated."""
    transform, width, height = canvas(export)
    crs = CRS.from_user_input(export.mixer["projection"]["crs"])
    with (
        rasterio.open(path) as file,
        WarpedVRT(
            file,
            crs=crs,
            transform=transform,
            width=width,
            height=height,
            resampling=Resampling[resampling],
            tolerance=1e-9,
        ) as view,
    ):
        return view.read(1, masked=True).astype(np.float64).filled(np.nan)


def patches(export: Exported, whole: np.ndarray) -> np.ndarray:
    """Every patch cut from the canvas, ``(patch, row, col)``."""
    x, y = (k // 2 for k in export.plan.options.kernel_width_height)
    cut = []
    for place in export.places():
        row, col = int(place.row_off) + y, int(place.col_off) + x
        cut.append(whole[row : row + int(place.height), col : col + int(place.width)])
    return np.stack(cut)


def job(**more: Any) -> dict[str, Any]:
    options = {"patchDimensions": [24, 16], "kernelSize": [9, 6], "defaultValue": DEFAULT}
    return {"formatOptions": options, **more}


SHAPE = (16 + 6, 24 + 8)


def grid_over(path: Path, crs: str, size: float) -> dict[str, Any]:
    """A job's grid in another CRS around a file, reaching a little beyond it."""
    with rasterio.open(path) as file:
        left, bottom, right, top = transform_bounds(
            file.crs, crs, *rasterio.transform.array_bounds(90, 100, file.transform)
        )
    columns, rows = int((right - left) / size) + 6, int((top - bottom) / size) + 4
    return {
        "crs": crs,
        "crsTransform": [size, 0, left - 2.6 * size, 0, -size, top + 1.7 * size],
        "dimensions": [columns, rows],
    }


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "antimeridian"])
@pytest.mark.parametrize("resampling", ["nearest", "bilinear"])
def test_another_crs(tmp_path: Path, layout: str, resampling: str) -> None:
    path = raster(tmp_path / "a.tif", layout)
    sources = {"a": {"path": "a.tif", "resampling": resampling}}
    export = run_eagerly(tmp_path, job(sources=sources, grid=grid_over(path, "EPSG:3857", 10.3)))
    got = parsed(export, floats(SHAPE, "B1"))["B1"]
    expected = patches(export, warped(export, path, resampling))
    check(got, expected, resampling)


def check(got: np.ndarray, expected: np.ndarray, resampling: str) -> None:
    """Nearest to the bit. Bilinear: where GDAL reads past a masked neighbour and we mask, masked here."""
    there = got != DEFAULT
    assert there.mean() > 0.3
    if resampling == "nearest":
        np.testing.assert_array_equal(there, ~np.isnan(expected))
        np.testing.assert_array_equal(got[there], expected[there])
        return
    assert not np.isnan(expected[there]).any()
    np.testing.assert_array_equal(got[there], expected[there])
    # the pixels that differ in being valid stand beside nodata or the edge alone
    assert (there == ~np.isnan(expected)).mean() > 0.97


@pytest.mark.parametrize("resampling", ["nearest", "bilinear"])
def test_one_crs_and_another_lattice_equals_reproject(tmp_path: Path, resampling: str) -> None:
    path = raster(tmp_path / "a.tif", dtype="f4")
    grid = {"crsTransform": [7.3, 0, 500_033, 0, -7.3, 5_299_950], "dimensions": [110, 90]}
    sources = {"a": {"path": "a.tif", "resampling": resampling}}
    export = run_job(tmp_path, job(sources=sources, grid=grid))
    transform, width, height = canvas(export)
    with rasterio.open(path) as file:
        expected = np.full((height, width), np.nan)
        reproject(
            file.read(1).astype(np.float64),
            expected,
            src_transform=file.transform,
            src_crs=file.crs,
            src_nodata=-1,
            dst_transform=transform,
            dst_crs=file.crs,
            dst_nodata=np.nan,
            resampling=Resampling[resampling],
        )
    got = parsed(export, floats(SHAPE, "B1"))["B1"]
    wanted = patches(export, expected)
    if resampling == "nearest":
        check(got, wanted, resampling)
        return
    there = got != DEFAULT
    np.testing.assert_allclose(got[there], wanted[there], rtol=1e-6)
    assert there.mean() > 0.8


def test_a_zone_that_crosses_the_antimeridian_on_a_grid_of_degrees(tmp_path: Path) -> None:
    path = raster(tmp_path / "a.tif", "antimeridian")
    grid = {"crs": "EPSG:4326", "crsTransform": [0.01, 0, 179.5, 0, -0.01, -16.3], "dimensions": [90, 70]}
    export = run_job(tmp_path, job(sources="a.tif", grid=grid))
    got = parsed(export, floats(SHAPE, "B1"))["B1"]
    check(got, patches(export, warped(export, path, "nearest")), "nearest")
    # both sides of 180 degrees hold pixels
    whole = got[: export.mixer["patchesPerRow"], 3:-3, 4:-4]
    assert (whole[0] != DEFAULT).any() and (whole[2] != DEFAULT).any()


def test_tiles_on_both_sides_of_the_antimeridian_are_one_image(tmp_path: Path) -> None:
    random = np.random.default_rng(8)
    both = random.integers(1, 200, (40, 80)).astype("u1")
    for name, columns, left in (("west", slice(0, 40), 179.6), ("east", slice(40, 80), -180.0)):
        transform = Affine(0.01, 0, left, 0, -0.01, 10)
        write_tif(tmp_path / f"{name}.tif", both[:, columns], crs="EPSG:4326", transform=transform)
    grid = {"crs": "EPSG:4326", "crsTransform": [0.01, 0, 179.6, 0, -0.01, 10], "dimensions": [80, 40]}
    settings = {"patchDimensions": [20, 20], "kernelSize": 8}
    export = run_eagerly(
        tmp_path, {"sources": ["west.tif", "east.tif"], "grid": grid, "formatOptions": settings}
    )
    got = parsed(export, floats((28, 28), "B1"))["B1"]
    padded = np.pad(both, 4)
    for i in range(8):
        row, col = i // 4 * 20, i % 4 * 20
        np.testing.assert_array_equal(got[i], padded[row : row + 28, col : col + 28])


def test_three_sources_on_their_own_grids_are_one_image(tmp_path: Path) -> None:
    """Two bands on the grid, one finer in its CRS, one coarser in degrees; each as if it were alone."""
    optical = raster(tmp_path / "s2.tif", bands=2, names=["B4", "B8"])
    random = np.random.default_rng(9)
    fine = write_tif(
        tmp_path / "classes.tif",
        random.integers(1, 9, (260, 260)).astype("u1"),
        transform=Affine(4, 0, 499_990, 0, -4, 5_300_020),
        names=["landcover"],
    )
    dem = write_tif(
        tmp_path / "dem.tif",
        random.normal(500, 30, (30, 40)).astype("f4"),
        crs="EPSG:4326",
        transform=Affine(0.0005, 0, 14.996, 0, -0.0005, 47.857),
    )
    sources = {
        "s2": "s2.tif",
        "classes": "classes.tif",
        "dem": {"path": "dem.tif", "resampling": "bilinear"},
    }
    bands = [
        {"name": "height", "source": "dem"},
        {"source": "s2", "band": "B8"},
        {"name": "class", "source": "classes", "band": "landcover"},
        {"source": "s2", "band": 1},
    ]
    export = run_job(tmp_path, job(sources=sources, bands=bands))
    assert [band.name for band in export.manifest.bands] == ["height", "B8", "class", "B4"]
    got = parsed(export, floats(SHAPE, "height", "B8", "class", "B4"))
    for i, place in enumerate(export.places()):
        np.testing.assert_array_equal(got["B8"][i], by_rasterio(optical, 2, place, DEFAULT))
        np.testing.assert_array_equal(got["B4"][i], by_rasterio(optical, 1, place, DEFAULT))
    # what -5 is in a band of bytes, and what a warped view holds where the file has no pixel: 0
    np.testing.assert_array_equal(got["class"], patches(export, warped(export, fine, "nearest")))
    there = got["height"] != DEFAULT
    expected = patches(export, warped(export, dem, "bilinear"))
    np.testing.assert_allclose(got["height"][there], expected[there], rtol=1e-5)
    assert there.mean() > 0.6


def test_names_that_two_sources_share_are_told_apart(tmp_path: Path) -> None:
    raster(tmp_path / "a.tif")
    raster(tmp_path / "b.tif")
    export = run_eagerly(tmp_path, job(sources={"spring": "a.tif", "autumn": "b.tif"}))
    assert [band.name for band in export.manifest.bands] == ["spring_B1", "autumn_B1"]
    got = parsed(export, floats(SHAPE, "spring_B1", "autumn_B1"))
    np.testing.assert_array_equal(got["spring_B1"], got["autumn_B1"])


def test_mosaics_take_the_first_valid_pixel(tmp_path: Path) -> None:
    """Tiles that overlap, listed against their order on the map."""
    left = raster(tmp_path / "left.tif")
    random = np.random.default_rng(10)
    right = write_tif(
        tmp_path / "right.tif",
        random.integers(6000, 9000, (90, 100)).astype("i2"),
        nodata=-1,
        transform=Affine(10, 0, 500_600, 0, -10, 5_300_000),
    )
    for compose, order in (("first", (right, left)), ("last", (left, right))):
        files = ["right.tif", "left.tif"]
        export = run_eagerly(tmp_path, job(sources={"a": {"path": files, "compose": compose}}))
        assert (export.manifest.grid.width, export.manifest.grid.height) == (160, 90)
        got = parsed(export, floats(SHAPE, "B1"))["B1"]
        for i, place in enumerate(export.places()):
            best = np.full(SHAPE, np.nan)
            for path in order:
                shift = 60 if path == right else 0
                window = Window(place.col_off - shift, place.row_off, place.width, place.height)
                best = np.where(np.isnan(best), by_rasterio(path, 1, window, np.nan), best)
            np.testing.assert_array_equal(got[i], np.nan_to_num(best, nan=DEFAULT))


Grid = Mapping[str, Any]
GEOJSON = {
    "type": "Polygon",
    "coordinates": [[[15.002, 47.851], [15.01, 47.851], [15.01, 47.846], [15.002, 47.846], [15.002, 47.851]]],
}
WAYS: dict[str, tuple[Grid, tuple[str, tuple[float, ...], int, int]]] = {
    "nothing": ({}, (UTM, (10, 0, 500_000, 0, -10, 5_300_000), 100, 90)),
    "region": (
        {"region": [500_101, 5_299_499, 500_419, 5_299_801]},
        (UTM, (10, 0, 500_100, 0, -10, 5_299_810), 32, 32),
    ),
    "region in another CRS": ({"region": GEOJSON}, (UTM, (), 0, 0)),
    "scale": ({"scale": 20}, (UTM, (20, 0, 500_000, 0, -20, 5_300_000), 50, 45)),
    "scale, region and crs": (
        {"scale": 30, "region": [15.0, 47.84, 15.01, 47.85], "crs": "EPSG:4326"},
        ("EPSG:4326", (), 38, 38),
    ),
    "crsTransform and region": (
        {"crsTransform": [15, 0, 3, 0, -15, 8], "region": [500_101, 5_299_499, 500_419, 5_299_801]},
        (UTM, (15, 0, 500_088, 0, -15, 5_299_808), 23, 21),
    ),
    "crsTransform and dimensions": (
        {"crsTransform": [11, 1, 500_050, -1, -9, 5_299_900], "dimensions": [70, 60]},
        (UTM, (11, 1, 500_050, -1, -9, 5_299_900), 70, 60),
    ),
    "region and dimensions": (
        {"region": [500_100, 5_299_400, 500_500, 5_299_800], "dimensions": [80, 50]},
        (UTM, (5, 0, 500_100, 0, -8, 5_299_800), 80, 50),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_give_the_grid(tmp_path: Path, way: str) -> None:
    """The grid is the one due, and what stands on it is what GDAL puts there."""
    path = raster(tmp_path / "a.tif")
    grid, (crs, transform, width, height) = WAYS[way]
    settings = {"patchDimensions": [10, 10], "kernelSize": 2, "defaultValue": DEFAULT}
    export = run_eagerly(tmp_path, {"sources": "a.tif", "grid": dict(grid), "formatOptions": settings})
    assert export.mixer["projection"]["crs"] == crs
    if way == "region in another CRS":
        left, bottom, right, top = transform_bounds("EPSG:4326", UTM, 15.002, 47.846, 15.01, 47.851, 999)
        transform = (10, 0, left // 10 * 10, 0, -10, -(-top // 10) * 10)
        width, height = -(-right // 10) - left // 10, -(-top // 10) - bottom // 10
    if transform:
        assert export.mixer["projection"]["affine"]["doubleMatrix"] == list(transform)
    else:
        size = np.degrees(30 / 6378137.0)
        a, b, c, d, e, f = export.mixer["projection"]["affine"]["doubleMatrix"]
        assert (a, b, d, e) == (size, 0, 0, -size)
        assert c == np.floor(15 / size) * size and f == np.ceil(47.85 / size) * size
    assert (export.manifest.grid.width, export.manifest.grid.height) == (width, height)
    got = parsed(export, floats((12, 12), "B1"))["B1"]
    assert len(got) == (width // 10) * (height // 10)
    check(got, patches(export, warped(export, path, "nearest")), "nearest")
