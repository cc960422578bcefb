"""Every source of truth about masks is read by itself, and what they mask is joined."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio
from affine import Affine

from patchbeam.errors import JobError
from patchbeam.patches import Window
from patchbeam.rasters.bands import BandSpec, resolve_bands
from patchbeam.rasters.masks import nodata_mask, opaque
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import open_source


def test_nodata_of_each_band(tmp_path, write, read, valid):
    values = np.arange(32, dtype=np.uint8).reshape(2, 4, 4) % 16
    part = write("a.tif", values)
    bands = "".join(
        f"<VRTRasterBand dataType='Byte' band='{i}'><NoDataValue>{nodata}</NoDataValue><SimpleSource>"
        f"<SourceFilename>{part}</SourceFilename><SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i, nodata in ((1, 3), (2, 5))
    )
    path = tmp_path / "a.vrt"
    path.write_text(
        "<VRTDataset rasterXSize='4' rasterYSize='4'><SRS>EPSG:32633</SRS>"
        f"<GeoTransform>0,10,0,0,0,-10</GeoTransform>{bands}</VRTDataset>"
    )
    pixels = read(str(path))
    np.testing.assert_array_equal(valid(pixels[0]), values[0] != 3)
    np.testing.assert_array_equal(valid(pixels[1]), values[1] != 5)


def test_nan_counts_only_when_nodata_is_nan(write, read, valid):
    values = np.ones((4, 4), np.float32)
    values[1, 2] = np.nan
    assert read(write("a.tif", values))[0].valid is None
    assert read(write("b.tif", values, nodata=1.5))[0].valid is None
    np.testing.assert_array_equal(valid(read(write("c.tif", values, nodata=np.nan))[0]), ~np.isnan(values))


def test_nodata_out_of_range_masks_nothing_and_is_said_once(tmp_path, write):
    part = write("a.tif", np.full((4, 4), 255, np.uint8))
    path = tmp_path / "a.vrt"
    path.write_text(
        "<VRTDataset rasterXSize='4' rasterYSize='4'><SRS>EPSG:32633</SRS>"
        "<GeoTransform>0,10,0,0,0,-10</GeoTransform><VRTRasterBand dataType='Byte' band='1'>"
        f"<NoDataValue>-1</NoDataValue><SimpleSource><SourceFilename>{part}</SourceFilename>"
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    source = open_source("s", [str(path)])
    with ImageReader([source], resolve_bands([source]), source.files[0].grid) as reader:
        for _ in range(3):
            assert reader.read(Window(0, 0, 4, 4))[0].valid is None
        assert len(reader.warnings) == 1
        assert "band 1 has nodata -1.0, which uint8 cannot hold" in reader.warnings[0]


def test_nodata_of_the_source_takes_the_place_of_the_files(write, read, valid):
    values = np.arange(16, dtype=np.int16).reshape(4, 4)
    path = write("a.tif", values, nodata=3)
    np.testing.assert_array_equal(valid(read(path, nodata=9)[0]), values != 9)


@pytest.mark.parametrize("sidecar", [False, True], ids=["internal", "msk"])
def test_mask_and_nodata_are_joined(write, read, valid, noise, tmp_path, sidecar):
    values = noise(2, 8, 8, dtype="uint8", low=0, high=4)
    mask = np.full((8, 8), 255, np.uint8)
    mask[2:4, 3:6] = 0
    pixels = read(write("a.tif", values, mask=mask, msk=sidecar, nodata=0))
    assert (tmp_path / "a.tif.msk").exists() == sidecar
    for band, p in zip(values, pixels, strict=True):
        np.testing.assert_array_equal(valid(p), (mask == 255) & (band != 0))


def test_partial_alpha_is_masked_and_joined_with_nodata(write, read, valid, noise):
    values = noise(4, 8, 8, dtype="uint8", low=0, high=5)
    values[3] = 255
    values[3, 0, :3] = 0, 1, 254
    pixels = read(write("a.tif", values, photometric="RGB", alpha="YES", nodata=0))
    assert len(pixels) == 3
    for band, p in zip(values[:3], pixels, strict=True):
        np.testing.assert_array_equal(p.values, band)
        np.testing.assert_array_equal(valid(p), (values[3] == 255) & (band != 0))


@pytest.mark.parametrize(
    ("dtype", "full", "partial"),
    [
        ("uint8", 255, 254),
        ("uint16", 65535, 65534),
        ("uint16", 255, 254),
        ("int16", 32767, 256),
        ("float32", 1, 0.5),
    ],
)
def test_full_alpha(dtype, full, partial):
    assert opaque(np.array([full, partial, 0], dtype)).tolist() == [True, False, False]


def test_nodata_as_a_float32(write, read, valid):
    values = np.ones((2, 2), np.float32)
    values[0, 0] = np.float32(-3.4e38)
    # -3.4e38 is not a float32; the pixel is the nearest one
    np.testing.assert_array_equal(valid(read(write("a.tif", values), nodata=-3.4e38)[0]), values == 1)
    assert nodata_mask(values, 1e300) is None


def test_masks_survive_resampling(write, read, valid, noise):
    """GDAL's own warped view would count every pixel of these as valid."""
    values = noise(1, 16, 16, dtype="uint8")
    mask = np.full((16, 16), 255, np.uint8)
    mask[4:9, 5:12] = 0
    from odc.geo.geobox import GeoBox

    finer = GeoBox((32, 32), Affine(5, 0, 500_000, 0, -5, 5_000_000), "EPSG:32633")
    expected = np.kron(mask == 255, np.ones((2, 2), bool))
    for sidecar in (False, True):
        path = write(f"{sidecar}.tif", values, mask=mask, msk=sidecar)
        np.testing.assert_array_equal(valid(read(path, grid=finer)[0]), expected)
    rgba = np.concatenate([noise(3, 16, 16, dtype="uint8"), mask[None]])
    path = write("rgba.tif", rgba, photometric="RGB", alpha="YES")
    for p, band in zip(read(path, grid=finer), rgba, strict=False):
        np.testing.assert_array_equal(valid(p), expected)
        np.testing.assert_array_equal(p.values[expected], np.kron(band, np.ones((2, 2), int))[expected])


@pytest.mark.parametrize(
    "resampling", ["bilinear", "cubic", "cubic_spline", "lanczos", "average", "mode", "max", "q1"]
)
def test_a_pixel_with_a_masked_contributor_is_masked(write, read, valid, noise, resampling):
    """And none but those: found by asking which pixels change when the masked one does."""
    from odc.geo.geobox import GeoBox
    from rasterio.enums import Resampling
    from rasterio.warp import reproject

    grid = GeoBox((20, 20), Affine(7.3, 0, 500_011, 0, -7.3, 4_999_988), "EPSG:32633")
    source = dict(src_transform=Affine(10, 0, 500_000, 0, -10, 5_000_000), src_crs="EPSG:32633")
    touched = np.zeros((20, 20), bool)
    # average tells which pixels the counting kernels look at
    kernel = resampling if resampling in ("bilinear", "cubic", "cubic_spline", "lanczos") else "average"
    spot = np.zeros((16, 16))
    spot[7, 8] = 1
    out = np.zeros((20, 20))
    reproject(
        spot, out, **source, dst_transform=grid.affine, dst_crs="EPSG:32633", resampling=Resampling[kernel],
        XSCALE=1, YSCALE=1,
    )  # fmt: skip
    touched = np.abs(out) > 1e-6
    assert touched.any()
    values = noise(16, 16, dtype="float32", low=10, high=20)
    values[7, 8] = -9999
    p = read(write("a.tif", values, nodata=-9999), grid=grid, resampling=resampling)[0]
    inside = valid(read(write("b.tif", np.ones((16, 16), np.float32)), grid=grid, resampling=resampling)[0])
    np.testing.assert_array_equal(valid(p), inside & ~touched)
    kept = p.values[valid(p)]
    assert kept.min() > 0 and kept.max() < 30


def test_unknown_source(write, noise):
    source = open_source("s", [write("a.tif", noise(4, 4))])
    bands = resolve_bands([source], [BandSpec(source="s", band=1)])
    with pytest.raises(JobError, match="names source 's', which is not there"):
        ImageReader([], bands, source.files[0].grid)


def test_footprint(write, read, valid, noise):
    values = noise(5, 7)
    p = read(write("a.tif", values), Window(-3, -2, 20, 10))[0]
    expected = np.zeros((10, 20), bool)
    expected[2:7, 3:10] = True
    np.testing.assert_array_equal(valid(p), expected)
    np.testing.assert_array_equal(p.values[2:7, 3:10], values)
    assert rasterio.__version__
