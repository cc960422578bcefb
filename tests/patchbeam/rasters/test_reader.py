"""Windows of rasters on the grid's own lattice, one file or many."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from rasterio.windows import Window as FileWindow

from patchbeam.errors import ReadFailed
from patchbeam.patches import Window
from patchbeam.rasters.bands import BandSpec, resolve_bands
from patchbeam.rasters.cache import LARGEST, SMALLEST, cache_size
from patchbeam.rasters.handles import Handles
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import open_source
from patchbeam.rasters.split import split_window

WINDOWS = st.builds(
    Window, st.integers(-30, 90), st.integers(-30, 90), st.integers(1, 80), st.integers(1, 80)
)
LAYOUTS = [
    {"tiled": True, "compress": "deflate"},
    {"tiled": True, "interleave": "band"},
    {"compress": "lzw"},
    {},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: "-".join(layout) or "strips")
def test_any_window_equals_rasterio(write, valid, noise, layout):
    path = write("a.tif", noise(3, 61, 73, low=0, high=9), nodata=4, **layout)
    source = open_source("s", [path])
    reader = ImageReader([source], resolve_bands([source]), source.files[0].grid)

    @given(WINDOWS)
    def check(w):
        pixels = reader.read(w)
        left, top = max(w.col_off, 0), max(w.row_off, 0)
        width, height = min(w.col_stop, 73) - left, min(w.row_stop, 61) - top
        for i, p in enumerate(pixels, 1):
            if width <= 0 or height <= 0:
                assert not valid(p).any()
                continue
            with rasterio.open(path) as dataset:
                part = FileWindow(left, top, width, height)
                values, mask = dataset.read(i, window=part), dataset.read_masks(i, window=part)
            rows = slice(top - w.row_off, top - w.row_off + height)
            cols = slice(left - w.col_off, left - w.col_off + width)
            np.testing.assert_array_equal(p.values[rows, cols], values)
            np.testing.assert_array_equal(valid(p)[rows, cols], mask == 255)
            assert valid(p).sum() == (mask == 255).sum()

    check()
    reader.close()


@pytest.mark.parametrize(
    "transform",
    [
        Affine(10, 0, 0, 0, 10, 0),
        Affine(-10, 0, 0, 0, -10, 0),
        Affine(7, 3, 100, 2, -9, 50),
        Affine(30, 0, 0.3, 0, -10, 0.7),
    ],
    ids=["south-up", "west-up", "rotated", "non-square"],
)
def test_any_lattice_is_read_as_it_is(write, read, noise, transform):
    values = noise(2, 20, 30)
    pixels = read(write("a.tif", values, transform=transform), Window(5, 6, 20, 11))
    np.testing.assert_array_equal(np.stack([p.values for p in pixels]), values[:, 6:17, 5:25])


def tiles(write, noise, count, **options):
    """Files along a diagonal, each over a part of the one before."""
    paths = []
    for i in range(count):
        transform = Affine(10, 0, 500_000 + 50 * i, 0, -10, 5_000_000 - 30 * i)
        paths.append(
            write(f"{i}.tif", noise(2, 12, 12, seed=i, low=0, high=3), transform=transform, **options)
        )
    return paths


@pytest.mark.parametrize("compose", ["first", "last"])
def test_the_first_valid_pixel_wins_band_by_band(write, read, valid, noise, compose):
    paths = tiles(write, noise, 4, nodata=0)
    grid = GeoBox((25, 30), Affine(10, 0, 500_000, 0, -10, 5_000_000), "EPSG:32633")
    expected = np.zeros((2, 25, 30), np.uint16)
    order = list(enumerate(paths))
    for i, path in order if compose == "last" else reversed(order):
        with rasterio.open(path) as dataset:
            values = dataset.read()
        part = expected[:, 3 * i : 3 * i + 12, 5 * i : 5 * i + 12]
        np.copyto(part, values, where=values != 0)
    for p, band in zip(read(paths, grid=grid, compose=compose), expected, strict=True):
        np.testing.assert_array_equal(valid(p), band != 0)
        np.testing.assert_array_equal(p.values[valid(p)], band[valid(p)])


def test_files_of_other_types_share_one_band(write, read, noise):
    a = write("a.tif", noise(8, 8, dtype="uint8"))
    b = write(
        "b.tif", noise(8, 8, dtype="int16", seed=1), transform=Affine(10, 0, 500_080, 0, -10, 5_000_000)
    )
    grid = GeoBox((8, 16), Affine(10, 0, 500_000, 0, -10, 5_000_000), "EPSG:32633")
    p = read([a, b], grid=grid)[0]
    assert p.values.dtype == np.int16 and p.valid is None
    np.testing.assert_array_equal(p.values[:, :8], noise(8, 8, dtype="uint8"))
    np.testing.assert_array_equal(p.values[:, 8:], noise(8, 8, dtype="int16", seed=1))


def test_only_files_under_the_window_are_opened(write, noise, monkeypatch):
    paths = tiles(write, noise, 6)
    source = open_source("s", paths)
    opened = []
    get = Handles.get
    monkeypatch.setattr(Handles, "get", lambda self, path, *a: opened.append(path) or get(self, path, *a))
    with ImageReader([source], resolve_bands([source]), source.files[0].grid) as reader:
        reader.read(Window(0, 0, 3, 3))
    assert set(opened) == {paths[0]}


def test_types_round_half_to_even(write, read):
    values = np.array([[0.5, 1.5, 2.5, -0.5], [254.5, 254.4999, 3.0, 0.0]], np.float32)
    band = [BandSpec(source="s", band=1, type="uint8")]
    p = read(write("a.tif", values), bands=band)[0]
    assert p.values.dtype == np.uint8
    assert p.values.tolist() == [[0, 2, 2, 0], [254, 254, 3, 0]]


@pytest.mark.parametrize(
    ("value", "dtype", "type_"),
    [
        (256, "uint16", "uint8"),
        (-1, "int16", "uint16"),
        (255.5, "float32", "uint8"),
        (np.nan, "float32", "int16"),
        (np.inf, "float64", "int64"),
        (2.0**63, "float64", "int64"),
        (1e39, "float64", "float32"),
        (2**63, "uint64", "int64"),
    ],
)
def test_a_value_out_of_range(write, read, value, dtype, type_):
    values = np.zeros((3, 4), dtype)
    values[1, 2] = value
    band = [BandSpec(source="s", band=1, type=type_, name="dem")]
    path = write("a.tif", values)
    message = (
        r"band 'dem', .*a\.tif band 1, pixel at column 2, row 1 of the grid: the value .* does not fit into "
    )
    with pytest.raises(ReadFailed, match=message + type_):
        read(path, bands=band)
    # a masked pixel may hold anything
    p = read(path, bands=band, nodata=float(value))[0]
    assert p.valid is not None and not p.valid[1, 2] and p.valid.sum() == 11


def test_int64_beyond_floating_point(write, read):
    values = np.array([[2**63 - 1, -(2**63), 2**53 + 1]], np.int64)
    assert read(write("a.tif", values))[0].values.tolist() == values.tolist()


def test_unscale(write, read, valid):
    def finish(dataset):
        dataset.scales, dataset.offsets = (0.5,), (-10.0,)

    values = np.arange(12, dtype=np.int16).reshape(3, 4)
    path = write("a.tif", values, nodata=0, finish=finish)
    p = read(path, unscale=True)[0]
    assert p.values.dtype == np.float32
    np.testing.assert_array_equal(p.values[valid(p)], (values * 0.5 - 10)[values != 0])
    np.testing.assert_array_equal(read(path)[0].values, values)


def test_threads_change_nothing(write, read, noise):
    values = noise(3, 700, 600)
    path = write("a.tif", values, tiled=True, blockxsize=64, blockysize=64, compress="deflate")
    one, three = read(path), read(path, threads=3)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a.values, b.values)


@given(
    st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 900), st.integers(1, 900), st.integers(1, 5)
)
def test_parts_make_the_window(left, top, width, height, threads):
    rect = Rect(left, top, left + width, top + height)
    seen = np.zeros((height, width), int)
    for part in split_window(rect, threads, []):
        seen[part.slices(rect)[1:]] += 1
    assert (seen == 1).all()


def test_parts_share_no_block(write, noise):
    path = write("a.tif", noise(600, 700), tiled=True, blockxsize=64, blockysize=64)
    source = open_source("s", [path])
    with ImageReader([source], resolve_bands([source]), source.files[0].grid) as reader:
        placements = reader._index("s").touching(Rect(0, 0, 700, 600))
    parts = split_window(Rect(10, 10, 500, 450), 3, placements)
    assert len(parts) == 3 and all(part.top % 64 == 0 for part in parts[1:])


def test_pickles_with_files_open(write, noise):
    source = open_source("s", [write("a.tif", noise(8, 8))])
    with ImageReader([source], resolve_bands([source]), source.files[0].grid, threads=2) as reader:
        before = reader.read(Window(0, 0, 8, 8))
        with pickle.loads(pickle.dumps(reader)) as other:
            np.testing.assert_array_equal(other.read(Window(0, 0, 8, 8))[0].values, before[0].values)
        reader.close()
        np.testing.assert_array_equal(reader.read(Window(0, 0, 8, 8))[0].values, before[0].values)


def test_handles_are_bounded(write, noise):
    paths = tiles(write, noise, 5)
    handles = Handles(max_open=2)
    kept = [handles.get(path) for path in paths]
    assert [d.closed for d in kept] == [True, True, True, False, False]
    assert handles.get(paths[4]) is kept[4]
    handles.close()
    assert all(d.closed for d in kept)


def test_a_file_that_goes_away(write, noise):
    path = write("a.tif", noise(8, 8))
    source = open_source("s", [path])
    Path(path).unlink()
    with (
        ImageReader([source], resolve_bands([source]), source.files[0].grid) as reader,
        pytest.raises(ReadFailed, match=r"a\.tif cannot be opened any more"),
    ):
        reader.read(Window(0, 0, 8, 8))


def test_a_damaged_block(write, noise):
    path = write("a.tif", noise(64, 64), tiled=True, compress="deflate")
    raw = bytearray(Path(path).read_bytes())
    raw[-300:-100] = bytes(200)
    Path(path).write_bytes(raw)
    source = open_source("s", [path])
    with (
        ImageReader([source], resolve_bands([source]), source.files[0].grid) as reader,
        pytest.raises(
            ReadFailed, match=r"a\.tif: bands \[1\], columns 0 to 63, rows 0 to 63 cannot be read: "
        ),
    ):
        reader.read(Window(0, 0, 64, 64))


def test_cache_size(write, noise):
    source = open_source("s", [write("a.tif", noise(4, 64, 64), tiled=True)])
    assert cache_size([source.files], 256, 1) == SMALLEST
    assert SMALLEST < cache_size([source.files] * 50, 10**6, 64) <= LARGEST
    with ImageReader([source], resolve_bands([source]), source.files[0].grid, cache_bytes=32 << 20) as reader:
        reader.read(Window(0, 0, 64, 64))


def test_array_band_of_one_file(write, read, valid, noise):
    values = noise(5, 8, 9, low=0, high=4)
    path = write("a.tif", values, nodata=0)
    spec = [BandSpec(source="s", indexes=(4, 1, 2), name="stack"), BandSpec(source="s", band=5)]
    stack, single = read(path, Window(-1, 0, 9, 8), bands=spec)
    assert stack.values.shape == (3, 8, 9)
    np.testing.assert_array_equal(stack.values[:, :, 1:], values[[3, 0, 1]][:, :, :8])
    np.testing.assert_array_equal(valid(stack)[:, :, 1:], values[[3, 0, 1]][:, :, :8] != 0)
    assert not valid(stack)[:, :, 0].any()
    np.testing.assert_array_equal(single.values[:, 1:], values[4][:, :8])
