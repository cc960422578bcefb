"""The sample scene: what it shows, and that it depends on its seed and size alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import given
from hypothesis import strategies as st
from shared import ROOT

from patchbeam.scene import BANDS, CLASSES, write_scene
from patchbeam.scene.render import Renderer

SIDE = 512

# CRC-32 of a window's pixels by date and of its classes; they change only by intention.
GOLDEN_DATES = [1897527664, 231820383]
GOLDEN_CLASSES = 1812918392
GOLDEN_CIRRUS = 948147995  # of the whole band in a scene of its own


def read(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        return file.read()


def renderer(**changes: Any) -> Renderer:
    options = {
        "width": 600,
        "height": 400,
        "bands": 3,
        "days": (133, 240),
        "seed": 5,
        "dtype": "uint16",
        "cloud_fraction": 0.2,
        "nodata_fraction": 0.05,
        "widest": 600,
    }
    return Renderer(**(options | changes))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_scene(tmp_path_factory.mktemp("scene") / "scene.tif", width=SIDE, height=SIDE, bands=6)


@pytest.fixture(scope="module")
def whole() -> tuple[Renderer, np.ndarray, np.ndarray]:
    drawn = renderer()
    window = drawn.window(0, 0, 400, 600)
    return drawn, np.concatenate(window.dates), window.classes


@given(st.data())
def test_any_window_shows_the_same_pixels(whole: Any, data: st.DataObject) -> None:
    drawn, pixels, classes = whole
    row, col = data.draw(st.integers(0, 399)), data.draw(st.integers(0, 599))
    rows, cols = data.draw(st.integers(1, min(70, 400 - row))), data.draw(st.integers(1, min(70, 600 - col)))
    window = drawn.window(row, col, rows, cols)
    here = (slice(row, row + rows), slice(col, col + cols))
    np.testing.assert_array_equal(np.concatenate(window.dates), pixels[:, *here])
    np.testing.assert_array_equal(window.classes, classes[here])


@pytest.mark.parametrize(
    "changes",
    [
        {"block_size": 64},
        {"layout": "striped", "compress": "none", "threads": 1},
        {"interleave": "band", "compress": "zstd", "level": 3},
        {"compress": "lzw", "class_map": False},
    ],
)
def test_the_layout_changes_no_pixel(tmp_path: Path, scene: list[Path], changes: dict[str, Any]) -> None:
    files = write_scene(tmp_path / "other.tif", width=SIDE, height=SIDE, bands=6, **changes)
    for ours, theirs in zip(files, scene, strict=False):
        np.testing.assert_array_equal(read(ours), read(theirs))
    with rasterio.open(files[0]) as file:
        assert file.profile["tiled"] is (changes.get("layout") != "striped")
        assert (file.compression.value if file.compression else "none").lower() == changes.get(
            "compress", "deflate"
        )
        assert file.interleaving.value.lower() == changes.get("interleave", "pixel")
        expected = (16, SIDE) if changes.get("layout") == "striped" else (changes.get("block_size", 256),) * 2
        assert file.block_shapes[0] == expected


def test_pixels_stay_the_same_from_release_to_release() -> None:
    window = renderer(seed=0).window(100, 200, 64, 96)
    assert [zlib.crc32(date.tobytes()) for date in window.dates] == GOLDEN_DATES
    assert zlib.crc32(window.classes.tobytes()) == GOLDEN_CLASSES


def test_seeds_differ(whole: Any) -> None:
    _, pixels, _ = whole
    other = np.concatenate(renderer(seed=6).window(0, 0, 400, 600).dates)
    assert np.mean(other != pixels) > 0.9


def test_bands_hang_together_as_real_ones_do(scene: list[Path]) -> None:
    pixels = read(scene[0])
    valid = pixels[0] > 0
    assert pixels.dtype == np.uint16
    assert pixels.max() <= 10_000
    between = np.corrcoef(pixels[:, valid])
    assert between[0, 1] > 0.9 and between[1, 2] > 0.9  # among the visible
    assert 0.2 < between[2, 3] < 0.95  # red and near infrared
    beside = np.corrcoef(pixels[3, :, :-1].ravel(), pixels[3, :, 1:].ravel())[0, 1]
    assert beside > 0.8


def test_spectra_follow_the_class_map(scene: list[Path]) -> None:
    blue, _, red, infrared = (band.astype(float) for band in read(scene[0])[:4])
    classes = read(scene[1])[0]
    clear = blue < 1500
    index = (infrared - red) / np.maximum(infrared + red, 1)

    def median(of: np.ndarray, name: str) -> float:
        return float(np.median(of[clear & (classes == CLASSES.index(name))]))

    assert median(index, "water") < 0 < 0.3 < median(index, "grass")
    assert median(index, "trees") > 0.6
    assert median(infrared, "water") < 500 < median(infrared, "built-up")
    assert median(red, "trees") < median(red, "crops") < median(red, "built-up")
    assert {0, 1, 2, 3, 4, 5} <= set(np.unique(classes).tolist())
    assert classes.max() < len(CLASSES)


def test_cirrus_band_comes_last_dark_over_the_ground_and_bright_in_clouds(tmp_path: Path) -> None:
    options: dict[str, Any] = {"width": SIDE, "height": SIDE, "cloud_fraction": 0.2}
    (twelve,) = write_scene(tmp_path / "twelve.tif", bands=12, class_map=False, **options)
    thirteen, classes = write_scene(tmp_path / "thirteen.tif", bands=13, **options)
    (again,) = write_scene(
        tmp_path / "again.tif", bands=13, class_map=False, threads=1, block_size=64, **options
    )
    with rasterio.open(thirteen) as file:
        assert file.descriptions == (*BANDS[:12], "B10")
    assert len(set(BANDS)) == 13
    pixels = read(thirteen)
    np.testing.assert_array_equal(pixels[:12], read(twelve))
    np.testing.assert_array_equal(pixels, read(again))
    assert zlib.crc32(pixels[12].tobytes()) == GOLDEN_CIRRUS
    (clear,) = write_scene(
        tmp_path / "clear.tif", bands=13, class_map=False, **(options | {"cloud_fraction": 0})
    )
    ground = read(clear)
    valid = read(classes)[0] > 0
    np.testing.assert_array_equal(pixels[12] > 0, valid)
    np.testing.assert_array_equal(ground[12] > 0, valid)
    assert np.median(ground[12][valid]) < 30 and ground[12].max() < 100  # noise included
    blue_rise, cirrus_rise = (pixels[[0, 12]].astype(int) - ground[[0, 12]])[:, valid]
    clouded = blue_rise > 1000
    assert 0.03 < clouded.mean() < 0.3
    assert cirrus_rise[clouded].min() > 200 and cirrus_rise[blue_rise > 4000].min() > 1200
    assert cirrus_rise[blue_rise <= 0].max() < 200


def test_no_data_is_a_corner_and_nowhere_else(scene: list[Path]) -> None:
    pixels, classes = read(scene[0]), read(scene[1])[0]
    beyond = pixels == 0
    assert (beyond == beyond[0]).all()
    np.testing.assert_array_equal(beyond[0], classes == 0)
    assert 0.02 < beyond[0].mean() < 0.04
    assert beyond[0][-1, -1] and not beyond[0][0].any() and not beyond[0][:, 0].any()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_clouds_cover_about_the_share_asked_for(share: float) -> None:
    clear, cloudy = (
        renderer(width=1024, height=1024, cloud_fraction=f, nodata_fraction=0, days=(133,), widest=1024)
        .window(0, 0, 1024, 1024)
        .dates[0][0]
        .astype(int)
        for f in (0.0, share)
    )
    assert abs(np.mean(cloudy > clear + 100) - share) < 0.35 * share + 1e-9


def test_dates_show_one_land_through_the_year(tmp_path: Path) -> None:
    files = write_scene(
        tmp_path / "year.tif", width=300, height=200, dates=4, dtype="float32", cloud_fraction=0
    )
    assert [file.name for file in files] == [
        "year-20240315.tif",
        "year-20240527.tif",
        "year-20240809.tif",
        "year-20241021.tif",
        "year-classes.tif",
    ]
    classes = read(files[-1])[0]
    crops, valid = classes == CLASSES.index("crops"), classes > 0
    vegetation = []
    for file, stamp in zip(files, ("2024:03:15", "2024:05:27", "2024:08:09", "2024:10:21"), strict=False):
        with rasterio.open(file) as raster:
            assert raster.tags()["TIFFTAG_DATETIME"].startswith(stamp)
            assert raster.dtypes[0] == "float32" and np.isnan(raster.nodata)
            _, _, red, infrared = raster.read()
        np.testing.assert_array_equal(np.isnan(red), ~valid)
        assert np.nanmin(red) > 0 and np.nanmax(infrared) <= 1
        vegetation.append(float(np.nanmean(((infrared - red) / (infrared + red))[crops])))
    assert vegetation[1] > vegetation[0] + 0.1 and vegetation[1] > vegetation[3] + 0.1


def test_files_say_what_they_hold(scene: list[Path]) -> None:
    with rasterio.open(scene[0]) as file:
        assert file.descriptions == BANDS[:6]
        assert file.crs.to_epsg() == 32633 and file.nodata == 0 and file.res == (10, 10)
        assert file.tags()["TIFFTAG_DATETIME"] == "2024:05:12 10:10:31"
    with rasterio.open(scene[1]) as file:
        assert file.tags(1)["CLASS_1"] == "water" and file.colormap(1)[1] == (65, 120, 190, 255)


def test_scale_is_turned_into_the_units_of_the_crs(tmp_path: Path) -> None:
    options: dict[str, Any] = {"width": 20, "height": 30, "class_map": False}
    (degrees,) = write_scene(tmp_path / "d.tif", crs="EPSG:4326", scale_m=30, origin=(11, 46), **options)
    (feet,) = write_scene(tmp_path / "f.tif", crs="EPSG:2263", scale_m=3.048, **options)
    with rasterio.open(degrees) as file:
        assert file.transform[0] == pytest.approx(30 / 6378137 * 180 / np.pi, rel=1e-12)
        assert (file.bounds.left, file.bounds.top) == (11, 46)
    with rasterio.open(feet) as file:
        assert file.transform[0] == pytest.approx(10, rel=1e-5)


@pytest.mark.parametrize(("width", "height"), [(1, 1), (1, 300), (513, 7)])
def test_odd_sizes(tmp_path: Path, width: int, height: int) -> None:
    pixels, classes = (read(file) for file in write_scene(tmp_path / "s.tif", width=width, height=height))
    assert pixels.shape == (4, height, width) and classes.shape == (1, height, width)


def peak_bytes(path: Path, width: int, height: int) -> int:
    program = (
        "from patchbeam.scene import write_scene;"
        f"write_scene({os.fspath(path)!r}, width={width}, height={height}, threads=1, level=1);"
        # ru_maxrss would begin with what the process that started this one had
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(run.stdout) * (1 if sys.platform == "darwin" else 1024)


def test_memory_does_not_grow_with_the_scene(tmp_path: Path) -> None:
    small = peak_bytes(tmp_path / "small.tif", 1024, 1536)
    large = peak_bytes(tmp_path / "large.tif", 2048, 3072)
    written = 2048 * 3072 * 4 * 2
    assert large - small < written / 3
