"""Pictures show the pixels of the records, at the place of their patches."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from eager import export, plan_of, write_tif
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from shared import shared_data

from patchbeam.errors import CorruptRecord, JobError
from patchbeam.look import LookOptions, look, png
from patchbeam.look.canvas import BACKGROUND, DROPPED, MARGIN, MASKED, MISSING
from patchbeam.look.colours import nearest, resized, stretch_of
from patchbeam.look.overview import draw_patch, lay_out
from patchbeam.look.painter import make_painter
from patchbeam.look.palette import reduce_colours
from patchbeam.look.strips import scale_bar
from patchbeam.look.view import ExportView
from patchbeam.pool import Pool
from patchbeam.scene import write_scene
from patchbeam.scene.spectra import CLASS_COLOURS

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def decoded(data: bytes) -> np.ndarray:
    """The RGB pixels of a PNG, by GDAL."""
    with rasterio.MemoryFile(data) as memory, memory.open() as file:
        if file.count == 1:
            table = np.zeros((256, 3), np.uint8)
            for value, colour in file.colormap(1).items():
                table[value] = colour[:3]
            return table[file.read(1)]
        return np.moveaxis(file.read(), 0, -1)


def make(folder: Path, values: np.ndarray, names: list[str], **job: Any) -> str:
    write_tif(folder / "scene.tif", values, names=names, **job.pop("tif", {}))
    export(
        plan_of(
            {
                "sources": "scene.tif",
                "output": "out/scene",
                "formatOptions": {"patchDimensions": [32, 32], **job.pop("formatOptions", {})},
                **job,
            },
            folder,
        )
    )
    return str(folder / "out" / "scene")


def body(picture: np.ndarray) -> np.ndarray:
    """The picture between title and legend: rows and columns that are not background throughout."""
    lit = (picture != BACKGROUND).any(axis=2)
    rows = np.flatnonzero(lit.mean(axis=1) > 0.8)
    block = picture[rows[0] : rows[-1] + 1]
    columns = np.flatnonzero((block != BACKGROUND).any(axis=(0, 2)))
    return block[:, columns[0] : columns[-1] + 1]


@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 40), st.just(3))))
def test_png_is_read_back(pixels: np.ndarray) -> None:
    np.testing.assert_array_equal(decoded(png(pixels)), pixels)


def test_png_of_many_colours_and_its_filters() -> None:
    rows, cols = np.indices((300, 200))
    pixels = np.stack([rows % 256, cols, (rows + cols) % 256], axis=-1).astype(np.uint8)
    noise = np.random.default_rng(0).integers(0, 256, (300, 200, 3), np.uint8)
    for picture in (pixels, noise, np.concatenate([pixels, noise])):
        np.testing.assert_array_equal(decoded(png(picture)), picture)
    assert len(png(pixels)) < len(zlib.compress(pixels.tobytes()))


def test_fewer_colours() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    few = reduce_colours(noise, 16)
    assert len(np.unique(few.reshape(-1, 3), axis=0)) == 16
    assert np.abs(few.astype(int) - noise).mean() < 45
    two = np.where(noise[..., :1] > 128, np.uint8(200), np.uint8(10)).repeat(3, axis=2)
    np.testing.assert_array_equal(reduce_colours(two, 16), two)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(1, 60))
def test_resizing(height: int, width: int, rows: int, cols: int) -> None:
    values = np.random.default_rng(0).normal(size=(height, width)).astype(np.float32)
    small = resized(values, cols, rows)
    assert small.shape == nearest(values, cols, rows).shape == (rows, cols)
    assert set(nearest(values, cols, rows).flat) <= set(values.flat)
    assert values.min() - 1e-5 <= small.min() and small.max() <= values.max() + 1e-5
    if rows < height and cols < width and height % rows == 0 and width % cols == 0:
        means = values.reshape(rows, height // rows, cols, width // cols).mean(axis=(1, 3))
        np.testing.assert_allclose(small, means, atol=1e-5)


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(64, 2000))
def test_a_picture_is_never_larger_than_asked_for(columns: int, rows: int, size: int) -> None:
    tiling = lay_out(columns, rows, (256, 128), size)
    assert max(tiling.size) <= size
    assert tiling.columns * tiling.every >= columns and tiling.rows * tiling.every >= rows


def test_the_pixels_are_those_of_the_raster(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(0, 256, (3, 64, 96)).astype(np.uint8)
    prefix = make(tmp_path, values, ["red", "green", "blue"], formatOptions={"kernelSize": [16, 16]})
    picture = body(look(prefix, LookOptions(percentiles=(0, 100))))
    zoom, gap = 3, 3  # small exports are enlarged
    assert picture.shape == (2 * 32 * zoom + gap, 3 * 32 * zoom + 2 * gap, 3)
    low = values.min(axis=(1, 2), keepdims=True)
    span = values.max(axis=(1, 2), keepdims=True) - low
    due = np.rint(255 * ((values - low) / span) ** (1 / 1.5)).astype(int)
    for row in range(2):
        for col in range(3):
            y, x = row * (32 * zoom + gap), col * (32 * zoom + gap)
            tile = picture[y : y + 32 * zoom : zoom, x : x + 32 * zoom : zoom]
            part = due[:, row * 32 : row * 32 + 32, col * 32 : col * 32 + 32]
            assert np.abs(np.moveaxis(tile.astype(int), -1, 0) - part).max() <= 1


def test_with_the_mixer_alone_it_is_the_same_picture(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(1, 256, (3, 64, 96)).astype(np.uint8)
    for name, options in (("margin", {"kernelSize": [16, 16]}), ("none", {})):
        folder = tmp_path / name
        folder.mkdir()
        prefix = make(folder, values, ["a", "b", "c"], formatOptions=options, gzip="zlib6")
        whole = body(look(prefix))
        Path(f"{prefix}-manifest.json").unlink()
        np.testing.assert_array_equal(body(look(prefix)), whole)


def test_masked_dropped_and_missing(tmp_path: Path) -> None:
    values = np.full((1, 64, 128), 9, np.uint16)
    values[:, :, 40:] = 0
    values[:, :, 96:] = 9
    prefix = make(
        tmp_path,
        values,
        ["red"],
        tif={"nodata": 0},
        maskBand="valid",
        formatOptions={"maskedThreshold": 0.9, "compressed": False, "maxFileSize": 11_000},
    )
    picture = body(look(prefix, LookOptions(size=400)))
    tiles = {col: picture[5:60, col * 96 + 12 : col * 96 + 80].reshape(-1, 3) for col in range(4)}
    present = {tuple(colour) for colour in tiles[1].tolist()}
    assert MASKED in present and len(present) == 2
    assert {tuple(colour) for colour in tiles[2].tolist()} == set(DROPPED)
    Path(f"{prefix}-00000.tfrecord").unlink()
    picture = body(look(prefix, LookOptions(size=400)))
    assert {tuple(colour) for colour in picture[5:60, 12:80].reshape(-1, 3).tolist()} == set(MISSING)


def test_classes_have_the_colours_of_the_file(tmp_path: Path) -> None:
    write_scene(tmp_path / "scene.tif", width=128, height=128)
    job = {
        "sources": {"classes": "scene-classes.tif"},
        "output": "out/scene",
        "formatOptions": {"patchDimensions": [64, 64]},
    }
    export(plan_of(job, tmp_path))
    picture = body(look(str(tmp_path / "out" / "scene")))
    with rasterio.open(tmp_path / "scene-classes.tif") as file:
        values = file.read(1)
    due = np.array([MASKED, *(colour[:3] for colour in CLASS_COLOURS[1:])], np.uint8)[values]
    zoom, gap = 3, 3
    tile = picture[: 64 * zoom : zoom, : 64 * zoom : zoom]
    np.testing.assert_array_equal(tile, due[:64, :64])
    assert picture.shape[0] == 2 * 64 * zoom + gap


def test_a_class_map_that_nothing_tells_of(tmp_path: Path) -> None:
    values = (np.arange(64 * 64).reshape(1, 64, 64) % 3).astype(np.uint8)
    prefix = make(tmp_path, values, ["kind"])
    assert len(np.unique(body(look(prefix, LookOptions(classes=True))).reshape(-1, 3), axis=0)) == 4
    noise = np.random.default_rng(0).normal(size=(1, 64, 64)).astype(np.float32)
    (tmp_path / "noise").mkdir()
    with pytest.raises(JobError, match=r"--classes: band 'kind' has \d+ different numbers"):
        look(make(tmp_path / "noise", noise, ["kind"]), LookOptions(classes=True))


def test_margins_sheet_and_patch(tmp_path: Path) -> None:
    values = np.random.default_rng(3).integers(1, 256, (3, 64, 96)).astype(np.uint8)
    prefix = make(tmp_path, values, ["a", "b", "c"], formatOptions={"kernelSize": [16, 16]})
    margins = look(prefix, LookOptions(margins=True))
    assert (margins == MARGIN).all(axis=2).any()
    assert not (look(prefix) == MARGIN).all(axis=2).any()
    sheet, patch = look(prefix, LookOptions(sheet=4)), look(prefix, LookOptions(patch=5))
    assert sheet.shape != patch.shape
    assert (patch == MARGIN).all(axis=2).any()
    assert look(prefix, LookOptions(sheet=100)).size  # there are 6


@pytest.mark.parametrize(
    "options",
    [
        {"numbers": "native"},
        {"formatOptions": {"collapseBands": True}},
        {"formatOptions": {"sequenceData": True}},
        {"edge": "pad", "formatOptions": {"patchDimensions": [40, 40]}},
    ],
)
def test_exports_of_every_kind(tmp_path: Path, options: dict[str, Any]) -> None:
    values = np.random.default_rng(3).integers(1, 256, (3, 64, 96)).astype(np.uint16)
    prefix = make(tmp_path, values, ["a", "b", "c"], **options)
    picture = body(look(prefix))
    assert picture.std() > 20
    assert look(prefix, LookOptions(patch=0)).size and look(prefix, LookOptions(sheet=2)).size


def test_what_cannot_be_shown(tmp_path: Path) -> None:
    values = np.full((2, 64, 64), 5, np.uint8)
    prefix = make(tmp_path, values, ["red", "nir"])
    assert look(prefix).size  # a constant is no division by zero
    for options, text in (
        ({"bands": ("rad",)}, "did you mean 'red'"),
        ({"bands": ("red", "nir")}, "give one band, or three"),
        ({"patch": 4}, r"not in 0\.\.3"),
    ):
        with pytest.raises(JobError, match=text):
            look(prefix, LookOptions(**options))  # type: ignore[arg-type]
    for bad in (
        {"percentiles": (98, 2)},
        {"size": 3},
        {"sheet": 0},
        {"sheet": 1, "patch": 1},
        {"colours": 1},
    ):
        with pytest.raises(JobError):
            LookOptions(**bad)  # type: ignore[arg-type]
    path = next((tmp_path / "out").glob("*.gz"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptRecord, match=path.name):
        look(prefix)


def test_scale_and_stretch() -> None:
    assert scale_bar(10.0, 250) == (200, 2000.0)
    assert stretch_of(np.array([np.nan, 1, 2, np.inf, 3]), (0, 100)).high == 3
    assert stretch_of(np.array([]), (2, 98)).high == 1


@pytest.mark.skipif(shared_data() is None, reason="no real files on this machine")
def test_exports_of_earth_engine() -> None:
    folder = shared_data()
    assert folder is not None
    picture = body(look(str(folder / "earth-engine" / "image_2021")))
    assert picture.shape == (768, 768, 3) and picture.std() > 30


def test_each_band_of_a_patch_shows_its_own_mask(tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(100, 200, (2, 64, 64)).astype(np.uint16)
    values[0, :, :16] = 0  # red alone is masked there
    prefix = make(tmp_path, values, ["red", "nir"], tif={"nodata": 0}, maskBand="valid")
    with ExportView(prefix) as view:
        for name, masked in (("red", True), ("nir", False), ("valid", False)):
            (_,), mask = view.read(0, (name,))
            assert (mask is not None and bool(mask[:, :16].all())) == masked
            assert mask is None or not mask[:, 16:].any()
        with Pool(1) as pool:
            painter = make_painter(
                view, ("valid",), percentiles=(2, 98), classes=False, pool=pool, sample=(0,)
            )
        drawn = draw_patch(view, painter, 0, (32, 32), margins=True)
    assert (drawn[:, :16] == 0).all() and (drawn[:, 16:] == 255).all()


def test_one_patch_is_stretched_by_all_that_is_stored(tmp_path: Path) -> None:
    values = np.full((1, 96, 96), 100, np.uint16)
    values[0, 32:64, 32:64] = np.arange(32 * 32).reshape(32, 32) + 1000
    prefix = make(tmp_path, values, ["red"], formatOptions={"kernelSize": [16, 16]})
    with ExportView(prefix) as view, Pool(1) as pool:
        one = make_painter(view, ("red",), percentiles=(0, 100), classes=False, pool=pool, sample=(4,))
        assert (one.stretches[0].low, one.stretches[0].high) == (100, 2023)


def test_a_kernel_that_the_manifest_contradicts_is_refused(tmp_path: Path) -> None:
    prefix = make(tmp_path, np.ones((1, 96, 96), np.uint8), ["red"], formatOptions={"kernelSize": [16, 16]})
    same = look(prefix, LookOptions(kernel=(16, 16)))
    np.testing.assert_array_equal(same, look(prefix))
    with pytest.raises(JobError, match=r"--kernel-size: \[8, 8\] is given and .*says \[16, 16\]; leave"):
        look(prefix, LookOptions(kernel=(8, 8)))
