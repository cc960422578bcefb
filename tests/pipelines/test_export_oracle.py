"""What TensorFlow reads from the shards is what rasterio reads from the raster, at the same place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from eager import write_tif
from exports import Exported, by_rasterio, floats, moved, parsed, run_eagerly, run_job
from rasterio.windows import Window

WIDTH, HEIGHT = 83, 61
DEFAULT = 7
NAMES = ("red", "nir", "swir")

TRANSFORMS: dict[str, tuple[str, Affine]] = {
    "north-up": ("EPSG:32633", Affine(10, 0, 500_000, 0, -10, 5_300_000)),
    "south-up": ("EPSG:32633", Affine(10, 0, 500_000, 0, 10, 5_300_000)),
    "rotated": ("EPSG:32633", Affine(8, 3, 500_000, 2, -9, 5_300_000)),
    "non-square": ("EPSG:32633", Affine(12.5, 0, 500_000, 0, -7.25, 5_300_000)),
    "degrees": ("EPSG:4326", Affine(1 / 7, 0, -20.1, 0, -1 / 9, 51.3)),
    "over the antimeridian": ("EPSG:4326", Affine(0.01, 0, 179.6, 0, -0.01, -16)),
    "antimeridian by zone": ("EPSG:32760", Affine(500, 0, 780_000, 0, -500, 8_200_000)),
}


def scene(path: Path, transform: str = "north-up", **options: Any) -> Path:
    """Three uint16 bands, each with holes of its own (0 is nodata)."""
    random = np.random.default_rng(5)
    values = random.integers(1, 2**16, (3, HEIGHT, WIDTH)).astype("u2")
    values[random.random(values.shape) < 0.1] = 0
    crs, affine = TRANSFORMS[transform]
    defaults = {"names": NAMES, "nodata": 0, "crs": crs, "transform": affine}
    return write_tif(path, values, **(defaults | options))


def check_against_rasterio(export: Exported, path: Path, shape: tuple[int, int]) -> None:
    """Every band of every patch, margins included."""
    records = parsed(export, floats(shape, *NAMES))
    places = export.places()
    assert len(records["red"]) == len(places) == export.manifest.patches.written
    for i, place in enumerate(places):
        expected = by_rasterio(path, (1, 2, 3), moved(place, export.affine, path), DEFAULT)
        for name, band in zip(NAMES, expected, strict=True):
            np.testing.assert_array_equal(records[name][i], band, err_msg=f"{name} of patch {i}")


@pytest.mark.parametrize("form", ["indexed", "zlib6", "plain"])
def test_every_patch_in_every_form(tmp_path: Path, form: str) -> None:
    path = scene(tmp_path / "a.tif", tiled=True, blockxsize=16, blockysize=16)
    options = {
        "patchDimensions": [16, 12],
        "kernelSize": [7, 4],
        "defaultValue": DEFAULT,
        "compressed": form != "plain",
        "maxFileSize": 30_000,
    }
    job = {"sources": "a.tif", "formatOptions": options}
    export = run_job(tmp_path, job if form == "plain" else {**job, "gzip": form})
    assert len(export.shards) > 3
    assert export.mixer["totalPatches"] == 5 * 5
    check_against_rasterio(export, path, (16, 22))


def test_padded_patches_end_with_the_grid_and_their_margins_do_not(tmp_path: Path) -> None:
    """Of what lies outside the grid, margins hold real pixels and the patches proper are masked."""
    path = scene(tmp_path / "a.tif")
    job = {
        "sources": "a.tif",
        "edge": "pad",
        "grid": {"region": [500_200, 5_299_700, 500_550, 5_299_930]},
        "formatOptions": {"patchDimensions": [16, 12], "kernelSize": [7, 4], "defaultValue": DEFAULT},
    }
    export = run_job(tmp_path, job)
    assert export.mixer["totalPatches"] == 3 * 2
    records = parsed(export, floats((16, 22), *NAMES))
    for i, place in enumerate(export.places()):
        expected = by_rasterio(path, (1, 2, 3), moved(place, export.affine, path), DEFAULT)
        assert (expected != DEFAULT).mean() > 0.8  # all of it lies in the source
        proper = expected[:, 2:-2, 3:-3]
        proper[:, max(0, 23 - int(place.row_off) - 2) :] = DEFAULT
        proper[:, :, max(0, 35 - int(place.col_off) - 3) :] = DEFAULT
        for name, band in zip(NAMES, expected, strict=True):
            np.testing.assert_array_equal(records[name][i], band, err_msg=f"{name} of patch {i}")


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_way_a_raster_can_lie(tmp_path: Path, transform: str) -> None:
    path = scene(tmp_path / "a.tif", transform)
    options = {"patchDimensions": [20, 15], "kernelSize": 6, "defaultValue": DEFAULT}
    export = run_eagerly(tmp_path, {"sources": "a.tif", "formatOptions": options})
    assert export.affine.almost_equals(TRANSFORMS[transform][1])
    assert export.mixer["totalPatches"] == 4 * 4
    check_against_rasterio(export, path, (21, 26))


def test_margins_are_real_pixels_beyond_the_grid(tmp_path: Path) -> None:
    path = scene(tmp_path / "a.tif")
    job = {
        "sources": "a.tif",
        "grid": {"region": [500_200, 5_299_700, 500_600, 5_299_900]},
        "formatOptions": {"patchDimensions": [10, 10], "kernelSize": [32, 64], "defaultValue": DEFAULT},
    }
    export = run_job(tmp_path, job)
    assert export.mixer["totalPatches"] == 8
    check_against_rasterio(export, path, (74, 42))
    everything = by_rasterio(path, 1, moved(export.places()[0], export.affine, path), DEFAULT)
    assert (everything[:32] != DEFAULT).any() and (everything[:, :16] != DEFAULT).any()


def test_bands_by_number_and_description_in_any_order(tmp_path: Path) -> None:
    path = scene(tmp_path / "a.tif")
    job = {
        "sources": {"s2": "a.tif"},
        "bands": ["swir", {"name": "first", "band": 1}, {"name": "infrared", "source": "s2", "band": "nir"}],
        "formatOptions": {"patchDimensions": [40, 30], "defaultValue": DEFAULT},
    }
    export = run_job(tmp_path, job)
    assert [band.name for band in export.manifest.bands] == ["swir", "first", "infrared"]
    records = parsed(export, floats((30, 40), "swir", "first", "infrared"))
    for i, place in enumerate(export.places()):
        for name, number in (("swir", 3), ("first", 1), ("infrared", 2)):
            np.testing.assert_array_equal(records[name][i], by_rasterio(path, number, place, DEFAULT))


def test_bands_without_descriptions_are_numbered(tmp_path: Path) -> None:
    scene(tmp_path / "a.tif", names=())
    export = run_eagerly(tmp_path, {"sources": "a.tif", "formatOptions": {"patchDimensions": 40}})
    assert [band.name for band in export.manifest.bands] == ["B1", "B2", "B3"]


def test_native_numbers_of_every_type(tmp_path: Path) -> None:
    """As the service writes them: bytes for uint8, int64 for other whole numbers, float for the rest."""
    import tensorflow as tf

    random = np.random.default_rng(6)
    values: dict[str, np.ndarray] = {}
    for name in ("uint8", "int8", "int16", "uint32", "int32", "int64", "float32", "float64"):
        kind = np.dtype(name)
        if kind.kind == "f":
            values[name] = random.normal(size=(40, 50)).astype("f4").astype(kind)
        else:
            limits = np.iinfo(kind)
            values[name] = random.integers(limits.min, limits.max, (40, 50), dtype=kind, endpoint=True)
        write_tif(tmp_path / f"{name}.tif", values[name], names=[name])
    job = {
        "sources": {name: f"{name}.tif" for name in values},
        "numbers": "native",
        "formatOptions": {"patchDimensions": 20, "kernelSize": 10},
    }
    export = run_job(tmp_path, job)
    spec: dict[str, Any] = {name: tf.io.FixedLenFeature([30, 30], tf.int64) for name in values}
    spec |= {name: tf.io.FixedLenFeature([30, 30], tf.float32) for name in ("float32", "float64")}
    spec["uint8"] = tf.io.FixedLenFeature([], tf.string)
    records = parsed(export, spec)
    records["uint8"] = np.stack([np.frombuffer(raw, "u1").reshape(30, 30) for raw in records["uint8"]])
    assert len(records["int16"]) == 4
    for name in values:
        for i, place in enumerate(export.places()):
            row, col = int(place.row_off) + 5, int(place.col_off) + 5
            proper = records[name][i, 5:-5, 5:-5]
            np.testing.assert_array_equal(proper, values[name][row : row + 20, col : col + 20], err_msg=name)


def test_of_dropped_patches_the_manifest_says_which_are_left(tmp_path: Path) -> None:
    path = scene(tmp_path / "a.tif")
    options = {"patchDimensions": [8, 6], "defaultValue": DEFAULT, "maskedThreshold": 0.27}
    export = run_job(tmp_path, {"sources": "a.tif", "formatOptions": options})
    assert not Path(f"{export.prefix}-mixer.json").exists()
    kept = [i for first, count in export.manifest.kept_patches or () for i in range(first, first + count)]
    assert 0 < len(kept) < 100
    records = parsed(export, floats((6, 8), *NAMES))
    expected = []
    for i in range(100):
        row, col = divmod(i, 10)
        bands = by_rasterio(path, (1, 2, 3), Window(col * 8, row * 6, 8, 6), np.nan)
        if np.isnan(bands).any(axis=0).sum() <= 0.27 * 48:
            expected.append((i, np.nan_to_num(bands, nan=DEFAULT)))
    assert [i for i, _ in expected] == kept
    for k, (i, bands) in enumerate(expected):
        for name, band in zip(NAMES, bands, strict=True):
            np.testing.assert_array_equal(records[name][k], band, err_msg=f"{name} of patch {i}")
