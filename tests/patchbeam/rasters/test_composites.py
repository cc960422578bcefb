"""Composites of overlapping scenes equal the slow way: each warped whole by GDAL, then NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from rasterio.enums import Resampling
from rasterio.vrt import WarpedVRT
from rasterio.warp import transform

from patchbeam.errors import ReadFailed, SourceError
from patchbeam.patches import Window
from patchbeam.rasters import compose
from patchbeam.rasters.bands import BandSpec, resolve_bands
from patchbeam.rasters.composites import COMPOSITES, median
from patchbeam.rasters.layers import tiles
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import open_source

UTM33, UTM34 = "EPSG:32633", "EPSG:32634"
GRID = GeoBox((90, 110), Affine(12, 0, 699_980, 0, -12, 5_000_020), UTM33)


FINE = GeoBox((90, 110), Affine(8, 0, 699_980, 0, -8, 5_000_020), UTM33)


def scenes(write, *, holes=True):
    """Five scenes round the border of two zones: three resolutions, four nodata values."""
    (x,), (y,) = transform(UTM33, UTM34, [700_000], [5_000_000])
    layouts = [
        (UTM33, 10, 700_000, 5_000_000, 0, (2, 80, 90)),
        (UTM34, 10, round(x, -1), round(y, -1), 7, (2, 90, 100)),
        (UTM33, 20, 699_800, 5_000_300, -1, (2, 50, 60)),
        (UTM34, 30, round(x) + 300, round(y) + 100, -32768, (2, 40, 40)),
        # on the grid's own lattice
        (UTM33, 12, 700_100, 4_999_900, 0, (2, 40, 60)),
    ]
    paths = []
    for i, (crs, size, left, top, nodata, shape) in enumerate(layouts):
        values = np.random.default_rng(i).integers(10, 3000, shape).astype("int16")
        if holes:
            gone = np.random.default_rng(100 + i).random(shape) < 0.2
            values[gone] = nodata
        affine = Affine(size, 0, left, 0, -size, top)
        paths.append(write(f"{i}.tif", values, crs=crs, transform=affine, nodata=nodata))
    return paths


def slow(paths, name, resampling="nearest", dtype="int16", grid=GRID):
    """Every scene warped whole, then combined."""
    stack = []
    for path in paths:
        with rasterio.open(path) as file:
            there = np.ones((file.count, file.height, file.width), file.dtypes[0])
            values = file.read().astype(dtype)
            good = there * (file.read() != file.nodata)
        kinds = []
        for array, how in ((values, resampling), (good, resampling if not good.all() else "nearest")):
            with rasterio.io.MemoryFile() as memory:
                profile = {"driver": "GTiff", "dtype": array.dtype, "count": len(array)}
                with rasterio.open(path) as file:
                    profile |= {
                        "width": file.width, "height": file.height, "crs": file.crs,
                        "transform": file.transform,
                    }  # fmt: skip
                with memory.open(**profile) as file:
                    file.write(array)
                with memory.open() as file, WarpedVRT(
                    file, crs=UTM33, transform=grid.affine, width=grid.width, height=grid.height,
                    resampling=Resampling[how], tolerance=1e-9,
                ) as view:  # fmt: skip
                    kinds.append(view.read())
        stack.append(np.ma.array(kinds[0], mask=kinds[1] == 0))
    stack = np.ma.stack(stack)
    filled = stack.filled(0)
    order = ~np.ma.getmaskarray(stack)
    if name == "last":
        filled, order = filled[::-1], order[::-1]
    if name in ("first", "last"):
        at = order.argmax(axis=0)[None]
        return np.take_along_axis(filled, at, axis=0)[0], order.any(axis=0)
    if name == "count":
        return order.sum(axis=0), np.ones(order.shape[1:], bool)
    result = {"min": np.ma.min, "max": np.ma.max, "mean": np.ma.mean, "median": np.ma.median}[name](
        stack.astype("float64"), axis=0
    )
    return result.filled(0), order.any(axis=0)


def check(pixels, expected, good, valid):
    for i, p in enumerate(pixels):
        np.testing.assert_array_equal(valid(p), good[i])
        np.testing.assert_array_equal(p.values[good[i]], expected[i][good[i]].astype(p.values.dtype))


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.parametrize("threads", [1, 2])
def test_two_zones(write, read, valid, monkeypatch, name, threads):
    monkeypatch.setattr(compose, "MOST_BYTES", 20_000)  # several tiles
    paths = scenes(write)
    pixels = read(paths, grid=GRID, compose=name, threads=threads)
    kinds = {"mean": "float32", "median": "float32", "count": "uint8"}
    assert pixels[0].values.dtype == kinds.get(name, "int16")
    check(pixels, *slow(paths, name), valid)


@pytest.mark.parametrize("name", ["min", "mean", "median"])
def test_two_zones_bilinear(write, read, valid, name):
    """Without masked pixels GDAL and we agree; in floating point, as means are made of fractions."""
    paths = scenes(write, holes=False)
    bands = [BandSpec(source="s", band=i, type="float32") for i in (1, 2)]
    pixels = read(paths, grid=FINE, compose=name, resampling="bilinear", bands=bands)
    expected, good = slow(paths, name, "bilinear", "float32", FINE)
    for i, p in enumerate(pixels):
        np.testing.assert_array_equal(valid(p), good[i])
        np.testing.assert_allclose(p.values[good[i]], expected[i][good[i]], rtol=1e-6)


@pytest.mark.parametrize("name", COMPOSITES)
def test_windows_are_parts_of_the_whole(write, read, valid, name):
    paths = scenes(write)
    whole = read(paths, grid=GRID, compose=name)
    window = Window(31, 17, 40, 50)
    for w, p in zip(whole, read(paths, window, grid=GRID, compose=name), strict=True):
        np.testing.assert_array_equal(valid(p), valid(w)[17:67, 31:71])
        np.testing.assert_array_equal(p.values[valid(p)], w.values[17:67, 31:71][valid(p)])


def test_types(write, read, noise):
    paths = [write(f"{i}.tif", noise(20, 30, seed=i)) for i in range(4)]
    stack = np.stack([noise(20, 30, seed=i) for i in range(4)]).astype("float64")
    mean = [BandSpec(source="s", band=1, type="uint16")]
    (p,) = read(paths, compose="mean", bands=mean)
    np.testing.assert_array_equal(p.values, np.rint(stack.mean(axis=0)))
    (p,) = read(paths, compose="median", bands=[BandSpec(source="s", band=1, type="float64")])
    np.testing.assert_array_equal(p.values, np.median(stack, axis=0))
    small = write("small.tif", np.full((20, 30), 300, "uint16"))
    with pytest.raises(ReadFailed, match=r"max of 2 files of source 's'.*column 0, row 0.*300 does not fit"):
        read([paths[0], small], compose="max", bands=[BandSpec(source="s", band=1, type="uint8")])


def test_first_stops_when_full(write, noise, monkeypatch):
    paths = [write(f"{i}.tif", noise(20, 30, seed=i)) for i in range(4)]
    read = []
    own = compose.read_piece
    monkeypatch.setattr(
        compose, "read_piece", lambda d, h, *a, **k: read.append(h.path) or own(d, h, *a, **k)
    )
    for name, expected in (("first", paths[:1]), ("last", paths[-1:]), ("min", paths)):
        read.clear()
        source = open_source("s", paths, compose=name)
        with ImageReader([source], resolve_bands([source]), source.files[0].grid) as reader:
            reader.read(Window(0, 0, 30, 20))
        assert read == expected


def test_unscaled(write, read):
    def scale(factor):
        def finish(file):
            file.scales, file.offsets = (factor,), (1.0,)

        return finish

    one = write("1.tif", np.full((4, 4), 10, "uint8"), finish=scale(0.5))
    two = write("2.tif", np.full((4, 4), 10, "uint8"), finish=scale(2.0))
    for name, expected in (("min", 6), ("max", 21), ("mean", 13.5), ("median", 13.5), ("count", 2)):
        (p,) = read([one, two], compose=name, unscale=True)
        assert (p.values == expected).all(), name


def test_a_series_has_no_composite(write, noise):
    path = write("20240101.tif", noise(4, 4))
    with pytest.raises(SourceError, match="median makes one image of all files, and series"):
        open_source("s", [path], compose="median", series=True, time="%Y%m%d")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.sampled_from(["uint8", "int16", "float32", "int64"]),
    st.floats(0, 1),
    st.integers(0),
)
def test_median_is_numpys(files, dtype, share, seed):
    random = np.random.default_rng(seed)
    values = random.integers(0, 5, (6, 7, files)).astype(dtype)
    if dtype == "uint8":
        values[values == 4] = 255
    valid = random.random(values.shape) < share
    if dtype == "float32":
        values[random.random(values.shape) < 0.05] = np.nan
    expected = np.full((6, 7), 0.0)
    for at in np.ndindex(6, 7):
        if valid[at].any():
            expected[at] = np.median(values[at][valid[at]].astype("float64"))
    result, good = median(values.copy(), valid)
    np.testing.assert_array_equal(good, valid.any(axis=-1))
    np.testing.assert_array_equal(result[good], expected[good])


@settings(max_examples=60, deadline=None)
@given(
    st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 700), st.integers(1, 700), st.integers(300, 10**5)
)
def test_tiles_cover_once(left, top, width, height, most):
    rect = Rect(left, top, left + width, top + height)
    count = np.zeros((height, width), int)
    for tile in tiles(rect, [], most):
        assert not tile.empty and tile.width * tile.height <= most
        count[tile.slices(rect)[1:]] += 1
    assert (count == 1).all()
