"""Whatever masks a pixel, it ends as defaultValue: as it lies or resampled, in the file or beyond it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from eager import export, plan_of, records_of, write_tif
from rasterio.enums import ColorInterp

from patchbeam.records.parse import parse_example

ROWS, COLS = 5, 6
DEFAULT = 9
GONE = np.zeros((ROWS, COLS), bool)
GONE[0, 0] = GONE[2, 3] = GONE[4, 5] = GONE[1, 1] = True


def numbers(dtype: str) -> np.ndarray:
    return (np.arange(ROWS * COLS).reshape(ROWS, COLS) + 20).astype(dtype)


def by_nodata(path: Path) -> np.ndarray:
    values = np.where(GONE, -5, numbers("i2")).astype("i2")
    write_tif(path, values, nodata=-5)
    return values


def by_nan(path: Path) -> np.ndarray:
    values = np.where(GONE, np.nan, numbers("f4")).astype("f4")
    write_tif(path, values, nodata=np.nan)
    return values


def by_internal_mask(path: Path) -> np.ndarray:
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        write_tif(path, numbers("u2"), mask=~GONE)
    assert not path.with_name(path.name + ".msk").exists()
    return numbers("u2")


def by_sidecar_mask(path: Path) -> np.ndarray:
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=False):
        write_tif(path, numbers("u2"), mask=~GONE)
    assert path.with_name(path.name + ".msk").exists()
    return numbers("u2")


def by_alpha(path: Path) -> np.ndarray:
    alpha = np.where(GONE, 0, 255).astype("u1")
    alpha[2, 3] = 128  # partly transparent
    alpha[1, 1] = 254  # hardly transparent
    write_tif(path, np.stack([numbers("u1"), alpha]))
    with rasterio.open(path, "r+") as file:
        file.colorinterp = [ColorInterp.gray, ColorInterp.alpha]
    return numbers("u1")


def by_nodata_and_mask(path: Path) -> np.ndarray:
    one = GONE & (np.arange(ROWS)[:, None] < 2)
    values = np.where(one, 250, numbers("u1")).astype("u1")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True):
        write_tif(path, values, nodata=250, mask=~(GONE & ~one))
    return values


WAYS = [by_nodata, by_nan, by_internal_mask, by_sidecar_mask, by_alpha, by_nodata_and_mask]

# two pixels more on every side than the file has
WIDER = {"crsTransform": [10, 0, 499_980, 0, -10, 5_300_020], "dimensions": [COLS + 4, ROWS + 4]}
# the same, each pixel cut into 2 × 2: off the file's lattice, hence resampled
FINER = {"crsTransform": [5, 0, 499_980, 0, -5, 5_300_020], "dimensions": [2 * COLS + 8, 2 * ROWS + 8]}


def read(folder: Path, grid: dict[str, Any], **more: Any) -> np.ndarray:
    width, height = grid["dimensions"]
    options = {"patchDimensions": [width, height], "defaultValue": DEFAULT}
    job = {"sources": "image.tif", "grid": {"crs": "EPSG:32633", **grid}, "formatOptions": options}
    plan = plan_of({**job, "output": "out/x", **more}, folder)
    manifest = export(plan, overwrite=True)
    (record,) = records_of(plan, manifest)
    parsed = parse_example(record)
    if "maskBand" in more:
        assert ((parsed["valid"] == 0) == (parsed["B1"] == DEFAULT)).all()
    return np.asarray(parsed["B1"]).reshape(height, width)


def expected(values: np.ndarray, gone: np.ndarray, step: int) -> np.ndarray:
    found = np.full(((ROWS + 4) * step, (COLS + 4) * step), DEFAULT, "f4")
    for row in range(found.shape[0]):
        for col in range(found.shape[1]):
            r, c = row // step - 2, col // step - 2
            if 0 <= r < ROWS and 0 <= c < COLS and not gone[r, c]:
                found[row, col] = values[r, c]
    return found


@pytest.mark.parametrize(("grid", "step"), [(WIDER, 1), (FINER, 2)], ids=["direct", "warped"])
@pytest.mark.parametrize("way", WAYS)
def test_masked_pixels_end_as_default(
    tmp_path: Path, way: Callable[[Path], np.ndarray], grid: dict[str, Any], step: int
) -> None:
    values = way(tmp_path / "image.tif")
    np.testing.assert_array_equal(
        read(tmp_path, grid, maskBand="valid", bands=["B1"]), expected(values, GONE, step)
    )


@pytest.mark.parametrize(("grid", "step"), [(WIDER, 1), (FINER, 2)], ids=["direct", "warped"])
@pytest.mark.parametrize("nodata", [None, -9999])
def test_nan_without_a_nan_nodata_is_data(
    tmp_path: Path, nodata: float | None, grid: dict[str, Any], step: int
) -> None:
    values = np.where(GONE, np.nan, numbers("f4")).astype("f4")
    write_tif(tmp_path / "image.tif", values, nodata=nodata)
    nothing = np.zeros_like(GONE)
    np.testing.assert_array_equal(read(tmp_path, grid), expected(values, nothing, step))


@pytest.mark.parametrize("way", WAYS)
def test_interpolation_never_mixes_masked_pixels_in(
    tmp_path: Path, way: Callable[[Path], np.ndarray]
) -> None:
    way(tmp_path / "image.tif")
    shifted = {**WIDER, "crsTransform": [10, 0, 499_985, 0, -10, 5_300_015]}
    found = read(tmp_path, shifted, bands=[{"name": "B1", "band": 1, "resampling": "bilinear"}])
    values = numbers("f8")
    for row in range(ROWS + 4):
        for col in range(COLS + 4):
            # the centre lies on the corner of four pixels of the file
            four = [(row + a, col + b) for a in (-2, -1) for b in (-2, -1)]
            there = [(r, c) for r, c in four if 0 <= r < ROWS and 0 <= c < COLS]
            if len(there) == 4 and not any(GONE[place] for place in there):
                mean = sum(values[place] for place in there) / 4
                assert abs(found[row, col] - mean) <= 0.5, (row, col)
            elif not there or any(GONE[place] for place in there):
                assert found[row, col] == DEFAULT, (row, col)


@pytest.mark.parametrize("form", ["array", "sequence", "collapsed"])
def test_the_mask_band_in_every_form(tmp_path: Path, form: str) -> None:
    by_nodata(tmp_path / "image.tif")
    options: dict[str, Any] = {"patchDimensions": [COLS, ROWS], "defaultValue": DEFAULT}
    job: dict[str, Any] = {"sources": "image.tif", "maskBand": "valid", "output": "out/x"}
    if form == "array":
        job["bands"] = [{"name": "B1", "band": [1, 1]}]
        options["tensorDepths"] = {"B1": 2}
    options |= {"collapseBands": form == "collapsed", "sequenceData": form == "sequence"}
    plan = plan_of({**job, "formatOptions": options}, tmp_path)
    manifest = export(plan)
    records = [parse_example(record) for record in records_of(plan, manifest)]
    if form == "sequence":
        found = np.array([record["valid"] for record in records])
    elif form == "collapsed":
        assert list(records[0]) == ["B1"]
        found = np.asarray(records[0]["B1"]).reshape(2, -1)[1]
    else:
        found = np.asarray(records[0]["valid"])
    np.testing.assert_array_equal(found.reshape(ROWS, COLS), ~GONE)
    assert [band.name for band in manifest.bands] == ["B1", "valid"]
