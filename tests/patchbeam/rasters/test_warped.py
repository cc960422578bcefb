"""Files off the grid's lattice, against GDAL's warper on the whole file and the whole grid."""

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
from rasterio.warp import reproject, transform_bounds

from patchbeam.patches import Window
from patchbeam.rasters import resample as resampling_module
from patchbeam.rasters.bands import resolve_bands
from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.resample import resample, snapped
from patchbeam.rasters.source import RESAMPLINGS, open_source

UTM33 = "EPSG:32633"
SHIFTED = GeoBox((70, 80), Affine(7.3, 0, 500_031, 0, -7.3, 4_999_988), UTM33)
HALVED = GeoBox((60, 60), Affine(5, 0, 500_002, 0, -5, 4_999_994), UTM33)
TRIPLED = GeoBox((24, 30), Affine(30, 0, 499_980, 0, -30, 5_000_020), UTM33)
ODD = GeoBox((24, 30), Affine(23.7, 0, 499_990, 0, -24.1, 5_000_010), UTM33)
# off any tie: wide kernels of GDAL jump where a position lies on a pixel's centre to the last bit
TURNED = GeoBox((60, 60), Affine(8, 4, 500_050.37, 3, -9, 4_999_800.91), UTM33)
GRIDS = {"shifted": SHIFTED, "halved": HALVED, "tripled": TRIPLED, "odd": ODD, "turned": TURNED}
TRANSFORMS = {
    "north-up": Affine(10, 0, 500_000, 0, -10, 5_000_000),
    "south-up": Affine(10, 0, 500_000, 0, 10, 4_999_360),
    "rotated": Affine(8, 3, 500_000, 2, -9, 5_000_000),
    "non-square": Affine(12, 0, 500_000, 0, -9, 5_000_000),
    "west-up": Affine(-10, 0, 500_640, 0, -10, 5_000_000),
}


def over(path, crs, shape=(60, 70), scale=0.8):
    """A grid in another CRS over a raster, reaching beyond it."""
    with rasterio.open(path) as dataset:
        left, bottom, right, top = transform_bounds(dataset.crs, crs, *dataset.bounds)
    wide, high = (right - left) / shape[1] / scale, (top - bottom) / shape[0] / scale
    return GeoBox(shape, Affine(wide, 0, left - 5 * wide, 0, -high, top + 4 * high), crs)


def whole(path, grid, resampling, scale=None, **options):
    """Every band on the whole grid by GDAL, which asks PROJ for every pixel."""
    options = options if scale is None else {"XSCALE": 1 / scale[0], "YSCALE": 1 / scale[1], **options}
    with (
        rasterio.open(path) as dataset,
        WarpedVRT(
            dataset, crs=rasterio.CRS.from_user_input(str(grid.crs)), transform=grid.affine, width=grid.width,
            height=grid.height, resampling=Resampling[resampling], tolerance=1e-9, **options,
        ) as view,
    ):  # fmt: skip
        return view.read()


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_nearest_in_one_crs_equals_reproject(write, read, valid, noise, transform, grid):
    values = noise(2, 64, 64)
    expected = np.zeros((2, *grid.shape), np.uint16)
    reproject(
        values, expected, src_transform=transform, src_crs=UTM33, dst_transform=grid.affine, dst_crs=UTM33,
    )  # fmt: skip
    pixels = read(write("a.tif", values, transform=transform), grid=grid)
    got = np.stack([np.where(valid(p), p.values, 0) for p in pixels])
    assert expected.any()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32632", "EPSG:3857", "EPSG:3035"])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_nearest_between_crs_equals_exact_gdal(write, read, valid, noise, transform, crs):
    path = write("a.tif", noise(2, 64, 64), transform=transform)
    grid = over(path, crs)
    expected = whole(path, grid, "nearest")
    got = np.stack([np.where(valid(p), p.values, 0) for p in read(path, grid=grid)])
    np.testing.assert_array_equal(got, expected)
    assert (expected != 0).mean() > 0.2


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("grid", [SHIFTED, HALVED, TURNED], ids=["shifted", "halved", "turned"])
@pytest.mark.parametrize("resampling", ["bilinear", "cubic", "cubic_spline", "lanczos", "average"])
def test_kernels_equal_reproject(write, read, valid, noise, resampling, grid, dtype):
    values = noise(2, 64, 64, dtype=dtype)
    path = write("a.tif", values)
    header = open_source("s", [path]).files[0]
    across, down = (snapped(s) for s in PixelMap(header, grid).shrink(Rect(0, 0, grid.width, grid.height)))
    expected = np.zeros((2, *grid.shape))
    reproject(
        values.astype(np.float64), expected, src_transform=TRANSFORMS["north-up"], src_crs=UTM33,
        dst_transform=grid.affine, dst_crs=UTM33, resampling=Resampling[resampling], XSCALE=1 / across,
        YSCALE=1 / down,
    )  # fmt: skip
    for p, band in zip(read(path, grid=grid, resampling=resampling), expected, strict=True):
        kept = valid(p)
        assert kept.mean() > 0.5
        if np.dtype(dtype).kind == "f":
            np.testing.assert_allclose(p.values[kept], band[kept], rtol=1e-5, atol=1e-4)
            continue
        # rounded to the nearest whole number, whichever one where two are about as near: versions of GDAL
        # differ in the sixth digit
        limits = np.iinfo(dtype)
        assert np.abs(p.values[kept] - band[kept].clip(limits.min, limits.max)).max() <= 0.5 + 1e-4


@pytest.mark.parametrize("resampling", [r for r in RESAMPLINGS if r != "nearest"])
@pytest.mark.parametrize("grid", [TRIPLED, ODD], ids=["tripled", "odd"])
def test_shrinking_equals_reproject(write, read, valid, noise, resampling, grid):
    values = noise(64, 64, dtype="int16")
    path = write("a.tif", values)
    header = open_source("s", [path]).files[0]
    scale = [snapped(s) for s in PixelMap(header, grid).shrink(Rect(0, 0, grid.width, grid.height))]
    expected = whole(path, grid, resampling, scale)[0]
    (p,) = read(path, grid=grid, resampling=resampling)
    kept = valid(p)
    assert kept.mean() > 0.3
    np.testing.assert_array_equal(p.values[kept], expected[kept])


@pytest.mark.parametrize("resampling", ["bilinear", "cubic", "average", "mode"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3035"])
def test_kernels_between_crs_equal_exact_gdal(write, read, valid, noise, resampling, crs):
    path = write("a.tif", noise(64, 64, dtype="float32"), transform=TRANSFORMS["rotated"])
    grid = over(path, crs, shape=(110, 110))
    header = open_source("s", [path]).files[0]
    scale = [snapped(s) for s in PixelMap(header, grid).shrink(Rect(0, 0, grid.width, grid.height))]
    expected = whole(path, grid, resampling, scale)[0]
    (p,) = read(path, grid=grid, resampling=resampling)
    kept = valid(p)
    assert kept.mean() > 0.2
    # the PROJ of pyproj and that of rasterio may be of different age: inverse LAEA then differs by 0.4 mm
    np.testing.assert_allclose(p.values[kept], expected[kept], rtol=1e-4, atol=0.01)


def test_whole_numbers_become_fractions_in_a_floating_point_band(write, read, valid):
    from patchbeam.rasters.bands import BandSpec

    values = np.tile(np.arange(16, dtype=np.int16), (16, 1))
    grid = GeoBox((8, 8), Affine(5, 0, 500_040, 0, -5, 4_999_960), UTM33)
    band = [BandSpec(source="s", band=1, type="float32", resampling="bilinear")]
    (p,) = read(write("a.tif", values), grid=grid, bands=band)
    np.testing.assert_allclose(p.values[0], np.arange(8) / 2 + 3.75)


@pytest.mark.parametrize("resampling", ["nearest", "bilinear", "cubic", "average", "mode"])
@pytest.mark.parametrize("grid", [ODD, TURNED, None], ids=["odd", "turned", "long-lat"])
def test_no_pixel_depends_on_the_window(write, valid, noise, resampling, grid):
    values = noise(2, 90, 90, dtype="float32", low=0, high=400)
    path = write("a.tif", values, nodata=0, tiled=True)
    grid = over(path, "EPSG:4326", shape=(300, 280)) if grid is None else grid
    source = open_source("s", [path], resampling=resampling)
    reader = ImageReader([source], resolve_bands([source]), grid)
    all_ = reader.read(Window(-20, -20, grid.width + 40, grid.height + 40))
    assert valid(all_[0]).mean() > 0.1

    @settings(max_examples=8)
    @given(st.data())
    def check(data):
        left = data.draw(st.integers(-20, grid.width + 10))
        top = data.draw(st.integers(-20, grid.height + 10))
        width = data.draw(st.integers(1, grid.width + 20 - left))
        height = data.draw(st.integers(1, grid.height + 20 - top))
        w = Window(left, top, width, height)
        rows, cols = slice(top + 20, top + 20 + w.height), slice(left + 20, left + 20 + w.width)
        for p, q in zip(reader.read(w), all_, strict=True):
            kept = valid(q)[rows, cols]
            np.testing.assert_array_equal(valid(p), kept)
            np.testing.assert_array_equal(p.values[kept], q.values[rows, cols][kept])

    check()
    reader.close()


def test_nor_on_threads(write, noise):
    path = write("a.tif", noise(300, 300), tiled=True)
    grid = over(path, "EPSG:4326", shape=(500, 500))
    for resampling in ("nearest", "bilinear", "cubic"):
        source = open_source("s", [path], resampling=resampling)
        read = []
        for threads in (1, 3):
            with ImageReader([source], resolve_bands([source]), grid, threads=threads) as reader:
                read.append(reader.read(Window(0, 0, 500, 500))[0])
        np.testing.assert_array_equal(read[0].values, read[1].values)
        np.testing.assert_array_equal(read[0].valid, read[1].valid)


def test_nor_on_how_much_is_read_at_a_time(write, read, noise, monkeypatch):
    path = write("a.tif", noise(60, 60), transform=TRANSFORMS["rotated"])
    for resampling in ("nearest", "bilinear"):
        for grid in (SHIFTED, ODD):
            (expected,) = read(path, grid=grid, resampling=resampling)
            with monkeypatch.context() as patch:
                patch.setattr("patchbeam.rasters.warped.MAX_SOURCE_PIXELS", 900)
                (p,) = read(path, grid=grid, resampling=resampling)
            np.testing.assert_array_equal(p.valid, expected.valid)
            kept = expected.valid if expected.valid is not None else slice(None)
            np.testing.assert_array_equal(p.values[kept], expected.values[kept])


def test_positions_between_nodes(write, noise):
    """Interpolated positions miss PROJ's by less than anything that shows."""
    for crs, a, x, y in (("EPSG:32660", 30, 500_000, 7_000_000), ("EPSG:3031", 500, -2e6, 2e6)):
        file = open_source(
            "s", [write("a.tif", noise(400, 400), crs=crs, transform=Affine(a, 0, x, 0, -a, y))]
        ).files[0]
        grid = over(file.path, "EPSG:3857", shape=(300, 300))
        map_ = PixelMap(file, grid)
        rect = Rect(-40, 17, 290, 280)
        got = map_.centres(rect)
        cols, rows = np.meshgrid(
            np.arange(rect.left, rect.right) + 0.5, np.arange(rect.top, rect.bottom) + 0.5
        )
        for g, e in zip(got, map_.exact(cols, rows), strict=True):
            np.testing.assert_allclose(g, e, atol=2e-6, rtol=1e-9)


@pytest.mark.parametrize("resampling", ["bilinear", "average", "max", "nearest"])
def test_overviews_when_shrinking(write, read, valid, noise, resampling):
    """Those kernels that average take them; those that ask for the pixels themselves do not."""

    def finish(dataset):
        dataset.build_overviews([2, 4], Resampling.average)

    values = noise(128, 128, dtype="uint8")
    plain, path = write("p.tif", values), write("a.tif", values, tiled=True, finish=finish)
    grid = GeoBox((30, 30), Affine(40, 0, 500_000, 0, -40, 5_000_000), UTM33)
    (p,) = read(path, grid=grid, resampling=resampling)
    (full,) = read(plain, grid=grid, resampling=resampling)
    if resampling in ("max", "nearest"):
        np.testing.assert_array_equal(p.values, full.values)
        return
    with rasterio.open(path, OVERVIEW_LEVEL=1) as overview:
        np.testing.assert_array_equal(p.values, overview.read(1)[:30, :30])


@pytest.mark.parametrize("masked", [False, True], ids=["valid", "masked"])
@pytest.mark.parametrize("resampling", ["average", "cubic", "mode", "min", "med", "rms", "sum"])
def test_masks_are_computed_at_the_positions_of_values(monkeypatch, resampling, masked):
    tolerances = []

    class Noting(WarpedVRT):
        def __init__(self, *arguments, **options):
            tolerances.append(options["tolerance"])
            super().__init__(*arguments, **options)

    monkeypatch.setattr(resampling_module, "WarpedVRT", Noting)
    source = GeoBox((60, 60), Affine(10, 0, 500_000, 0, -10, 5_400_000), "EPSG:32633")
    left, bottom, right, top = transform_bounds(
        "EPSG:32633", "EPSG:4326", 500_150, 5_399_550, 500_450, 5_399_850
    )
    target = GeoBox((10, 10), Affine((right - left) / 10, 0, left, 0, (bottom - top) / 10, top), "EPSG:4326")
    values = np.full((1, 60, 60), 7, np.float32)
    valid = np.random.default_rng(0).random(values.shape) > 0.01 if masked else None
    found, good = resample(values, valid, source, target, resampling, (3.0, 3.0), covered=False)
    # what is masked stands as 0, and no valid pixel has any of it
    assert good.any() and good.all() != masked
    assert resampling == "sum" or (abs(found[good] - 7) < 1e-4).all()
    assert len(tolerances) == (1 if resampling == "cubic" and not masked else 2)
    assert len(set(tolerances)) == 1
