"""What a header holds, and what is refused with which advice."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from rasterio.control import GroundControlPoint
from rasterio.enums import ColorInterp

from patchbeam.errors import SourceError
from patchbeam.rasters.source import Source, read_header


def test_what_it_holds(write, noise):
    def finish(dataset):
        dataset.set_band_description(1, "red")
        dataset.scales, dataset.offsets = (0.5, 1.0), (10.0, 0.0)
        dataset.update_tags(TIFFTAG_DATETIME="2020:05:17 10:20:30")
        dataset.build_overviews([2, 4])

    path = write("a.tif", noise(2, 64, 80), tiled=True, compress="deflate", nodata=7, finish=finish)
    header = read_header(path)
    assert (header.width, header.height, header.count, header.driver) == (80, 64, 2, "GTiff")
    assert header.dtypes == ("uint16", "uint16") and header.nodata == (7, 7)
    assert header.descriptions == ("red", None) and header.alpha is None
    assert header.scales == (0.5, 1.0) and header.offsets == (10.0, 0.0)
    assert header.block_shapes == ((16, 16), (16, 16)) and header.overviews == (2, 4)
    assert header.compression == "DEFLATE" and header.interleave == "pixel"
    assert header.date == "2020:05:17 10:20:30"
    assert header.size_bytes == Path(path).stat().st_size and header.modified
    assert header.grid.crs == "EPSG:32633" and header.grid.affine == Affine(10, 0, 500_000, 0, -10, 5_000_000)
    assert pickle.loads(pickle.dumps(header)) == header


def test_alpha_is_found(write, noise):
    path = write("a.tif", noise(4, 8, 8, dtype="uint8"), photometric="RGB", alpha="YES")
    assert read_header(path).alpha == 4


def test_alpha_is_found_beside_newer_colours(tmp_path, write, noise):
    # rasterio has no name for the colour interpretations that came with GDAL 3.10
    part = write("a.tif", noise(2, 8, 8, dtype="uint8"))
    bands = "".join(
        f"<VRTRasterBand dataType='Byte' band='{i}'><ColorInterp>{colour}</ColorInterp><SimpleSource>"
        f"<SourceFilename>{part}</SourceFilename><SourceBand>{i}</SourceBand></SimpleSource></VRTRasterBand>"
        for i, colour in ((1, "NIR"), (2, "Alpha"))
    )
    path = tmp_path / "a.vrt"
    path.write_text(
        "<VRTDataset rasterXSize='8' rasterYSize='8'><SRS>EPSG:32633</SRS>"
        f"<GeoTransform>0,10,0,0,0,-10</GeoTransform>{bands}</VRTDataset>"
    )
    assert read_header(str(path)).alpha == 2


@pytest.mark.parametrize(
    ("dtype", "nodata", "usable"),
    [
        ("uint8", -1, False),
        ("uint8", 256, False),
        ("uint8", 0.5, False),
        ("int16", float("nan"), False),
        ("float32", -1.7976931348623157e308, False),
        ("float32", float("inf"), True),
        ("float32", float("nan"), True),
        ("float32", -3.4028234663852886e38, True),
        ("float64", -1.7976931348623157e308, True),
        ("uint8", 255, True),
    ],
)
def test_nodata_that_the_type_cannot_hold(tmp_path, write, dtype, nodata, usable):
    part = write("a.tif", np.ones((4, 4), dtype))
    path = tmp_path / "a.vrt"
    kind = {"uint8": "Byte", "int16": "Int16", "float32": "Float32", "float64": "Float64"}[dtype]
    path.write_text(
        "<VRTDataset rasterXSize='4' rasterYSize='4'><SRS>EPSG:32633</SRS>"
        f"<GeoTransform>0,10,0,0,0,-10</GeoTransform><VRTRasterBand dataType='{kind}' band='1'>"
        f"<NoDataValue>{nodata!r}</NoDataValue><SimpleSource><SourceFilename>{part}</SourceFilename>"
        "<SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    header = read_header(str(path))
    held, other = header.nodata[0], header.unusable_nodata[0]
    if not usable:
        held, other = other, held
    assert other is None
    np.testing.assert_equal(held, nodata)


def test_missing():
    with pytest.raises(SourceError, match=r"^sources\.dem: /nowhere/a\.tif does not exist"):
        read_header("/nowhere/a.tif", "sources.dem")


def test_not_a_raster(tmp_path):
    path = tmp_path / "a.tif"
    path.write_text("nothing of the kind")
    with pytest.raises(SourceError, match=r"a\.tif is not a raster that GDAL reads; "):
        read_header(str(path))


def test_complex_types(write):
    path = write("a.tif", np.zeros((4, 4), np.complex64))
    with pytest.raises(SourceError, match="band 1 is of type complex64; complex numbers are not taken"):
        read_header(path)


def test_no_crs(write, noise):
    path = write("a.tif", noise(4, 4), crs=None)
    with pytest.raises(SourceError, match=r"a\.tif has no CRS; .*crs: .*gdal_edit"):
        read_header(path)
    assert read_header(path, crs="EPSG:32601").grid.crs == "EPSG:32601"
    with pytest.raises(SourceError, match=r"^sources\.a\.crs: 'EPSG:nothing' is not a CRS"):
        read_header(path, "sources.a", crs="EPSG:nothing")


@pytest.mark.parametrize("crs", [None, "EPSG:32633"])
def test_no_geotransform(write, noise, crs):
    path = write("a.tif", noise(4, 4), crs=None, transform=None)
    with pytest.raises(SourceError, match=r"geotransform"):
        read_header(path, crs=crs)


def test_only_ground_control_points(write, noise):
    def finish(dataset):
        points = [GroundControlPoint(r, c, c * 10.0, r * -10.0) for r in (0, 4) for c in (0, 4)]
        dataset.gcps = points, rasterio.CRS.from_epsg(32633)

    path = write("a.tif", noise(4, 4), crs=None, transform=None, finish=finish)
    with pytest.raises(SourceError, match=r"has no geotransform, only 4 ground control points; gdalwarp"):
        read_header(path, crs="EPSG:32633")


def test_flat_geotransform(write, noise):
    path = write("a.tif", noise(4, 4), transform=Affine(10, 10, 0, 10, 10, 0))
    with pytest.raises(SourceError, match="cannot be inverted"):
        read_header(path)


def test_part_of_a_vrt_is_missing_or_cut(tmp_path, write, noise):
    part = Path(write("part.tif", noise(64, 64)))
    path = tmp_path / "a.vrt"
    path.write_text(
        "<VRTDataset rasterXSize='64' rasterYSize='64'><SRS>EPSG:32633</SRS>"
        "<GeoTransform>0,10,0,0,0,-10</GeoTransform><VRTRasterBand dataType='UInt16' band='1'><SimpleSource>"
        "<SourceFilename relativeToVRT='1'>part.tif</SourceFilename><SourceBand>1</SourceBand></SimpleSource>"
        "</VRTRasterBand></VRTDataset>".replace("'", '"')
    )
    read_header(str(path))
    part.write_bytes(part.read_bytes()[:5000])
    with pytest.raises(SourceError, match=r"a\.vrt: .*part\.tif is cut short"):
        read_header(str(path))
    part.unlink()
    with pytest.raises(SourceError, match=r"a\.vrt is made of .*part\.tif, which does not exist"):
        read_header(str(path))


def test_source_options_are_checked(write, noise):
    header = read_header(write("a.tif", noise(4, 4)))
    with pytest.raises(
        SourceError, match=r"sources\.a\.compose: 'frist' is not known \(did you mean 'first'\?\)"
    ):
        Source(name="a", files=(header,), compose="frist")
    with pytest.raises(SourceError, match=r"sources\.a\.resampling: 'bilinaer' .*'bilinear'"):
        Source(name="a", files=(header,), resampling="bilinaer")
    with pytest.raises(SourceError, match=r"sources\.a: no files"):
        Source(name="a", files=())


def test_palette_alpha_is_not_taken_for_a_band(write, noise):
    def finish(dataset):
        dataset.colorinterp = [ColorInterp.gray, ColorInterp.undefined]

    assert read_header(write("a.tif", noise(2, 4, 4), finish=finish)).alpha is None
