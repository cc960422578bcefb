"""Tiles as files: valid COGs of every type, and what GDAL reads from them and from the VRT."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
from affine import Affine
from odc.geo.geobox import GeoBox
from rasterio.enums import Resampling
from rio_cogeo import cog_validate
from storage_faults import files_end_at

from patchbeam.errors import WriteFailed
from patchbeam.lattice import padded
from patchbeam.mosaic.geotiff import TileProfile, write_cog
from patchbeam.mosaic.index import footprint, stac_collection, stac_items, vrt_text
from patchbeam.mosaic.options import MapClass
from patchbeam.mosaic.tiles import TileGrid, existing_maps

GRID = GeoBox((1100, 700), Affine(10, 0, 500_000, 0, -10, 5_300_000), "EPSG:32633")
TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64")


@pytest.mark.parametrize("compress", ["deflate", "zstd", "none"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type_is_a_valid_cog(tmp_path: Path, dtype: str, compress: str) -> None:
    random = np.random.default_rng(0)
    if dtype.startswith("float"):
        pixels = random.normal(size=(2, 1100, 700)).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        pixels = random.integers(limits.min, limits.max, (2, 1100, 700), dtype, endpoint=True)
    path = str(tmp_path / "t.tif")
    profile = TileProfile(nodata=7, names=("a", "b"), compress=compress)
    assert write_cog(path, pixels, GRID, profile, threads=2) == Path(path).stat().st_size
    valid, errors, warnings = cog_validate(path, strict=True, quiet=True)
    assert valid and not errors and not warnings, (errors, warnings)
    with rasterio.open(path) as made:
        assert made.dtypes == (dtype, dtype) and made.nodata == 7 and made.descriptions == ("a", "b")
        assert made.crs.to_epsg() == 32633 and made.transform == GRID.affine
        assert made.overviews(1) == [2, 4] and made.block_shapes == [(512, 512)] * 2
        structure = made.tags(ns="IMAGE_STRUCTURE")
        assert structure.get("COMPRESSION", "NONE") == compress.upper()
        predictor = None if compress == "none" else "3" if dtype.startswith("float") else "2"
        assert structure.get("PREDICTOR") == predictor
        np.testing.assert_array_equal(made.read(), pixels)
    assert [p.name for p in tmp_path.iterdir()] == ["t.tif"]


def test_overviews_of_classes_hold_classes_and_of_numbers_their_mean(tmp_path: Path) -> None:
    pixels = np.tile(np.array([[0, 9], [9, 9]], np.uint8), (600, 600))[None]
    grid = GeoBox((1200, 1200), GRID.affine, GRID.crs)
    for categorical, want in ((True, {0, 9}), (False, {7})):
        path = tmp_path / f"{categorical}.tif"
        profile = TileProfile(nodata=None, names=("c",), categorical=categorical)
        write_cog(str(path), pixels, grid, profile, threads=2)
        with rasterio.open(path) as made:
            small = made.read(1, out_shape=(600, 600), resampling=Resampling.nearest)
        assert set(np.unique(small).tolist()) <= want


def test_averages_leave_out_what_has_no_data(tmp_path: Path) -> None:
    pixels = np.tile(np.array([[np.nan, 4], [8, 6]], np.float32), (600, 600))[None]
    grid = GeoBox((1200, 1200), GRID.affine, GRID.crs)
    write_cog(str(tmp_path / "t.tif"), pixels, grid, TileProfile(nodata=np.nan, names=("c",)), threads=2)
    with rasterio.open(tmp_path / "t.tif") as made:
        assert (made.read(1, out_shape=(600, 600)) == 6).all()


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    pixels = np.zeros((1, 1100, 700), np.uint8)
    with pytest.raises(WriteFailed, match="cannot write this tile"):
        write_cog(
            str(tmp_path / "file" / "t.tif"), pixels, GRID, TileProfile(nodata=0, names=("a",)), threads=1
        )
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("side", [200, 700])
def test_a_tile_that_does_not_fit_on_the_disk_is_an_error(tmp_path: Path, side: int) -> None:
    """GDAL alone reports success for most of these sizes."""
    pixels = np.random.default_rng(0).integers(0, 60_000, (1, side, side)).astype(np.uint16)
    grid = GeoBox((side, side), GRID.affine, GRID.crs)
    path = tmp_path / "t.tif"
    profile = TileProfile(nodata=None, names=("a",))
    whole = write_cog(str(path), pixels, grid, profile, threads=2)
    path.unlink()
    for share in (0.001, 0.1, 0.5, 0.9, 0.99):
        with files_end_at(int(whole * share)), pytest.raises(WriteFailed, match="make room there, or write"):
            write_cog(str(path), pixels, grid, profile, threads=2)
        assert not list(tmp_path.iterdir())
    assert write_cog(str(path), pixels, grid, profile, threads=2) == whole


def test_what_is_not_the_fault_of_the_disk_is_not_put_down_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks larger than those of sources may be are whole; a look that fails can be tried again."""
    pixels = np.ones((3, 600, 600), "f4")
    profile = TileProfile(nodata=None, names=("a", "b", "c"))
    with monkeypatch.context() as patch:
        patch.setattr("patchbeam.rasters.tiff.MAX_BLOCK_BYTES", 1000)
        assert write_cog(str(tmp_path / "t.tif"), pixels, GRID, profile, threads=1)

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("patchbeam.rasters.written.check_tiff", fails)
    with pytest.raises(WriteFailed, match="Input/output error") as caught:
        write_cog(str(tmp_path / "u.tif"), pixels, GRID, profile, threads=1)
    assert caught.value.errno == errno.EIO
    assert [path.name for path in tmp_path.iterdir()] == ["t.tif"]


@pytest.mark.parametrize("crs", ["EPSG:32633", "EPSG:4326", "+proj=laea +lat_0=5 +lon_0=9 +units=m"])
def test_the_vrt_joins_tiles_without_gap(tmp_path: Path, crs: str) -> None:
    size = 0.001 if crs == "EPSG:4326" else 10.0
    grid = GeoBox((1100, 700), Affine(size, 0, 9.5, 0, -size, 5.25), crs)
    image = np.random.default_rng(0).integers(1, 4, (1, 1100, 700)).astype(np.uint8)
    tiles = TileGrid(width=700, height=1100, tile_size=512)
    classes = (MapClass(value=1, name="a & b", color=(1, 2, 3)), MapClass(value=3))
    profile = TileProfile(nodata=0, names=("class <1>",), categorical=True, classes=classes)
    prefix = str(tmp_path / "m")
    sizes = []
    for tile in range(tiles.count):
        w = tiles.window(tile)
        part = np.ascontiguousarray(image[:, w.row_off : w.row_stop, w.col_off : w.col_stop])
        sizes.append(write_cog(tiles.name(prefix, tile), part, padded(grid, w), profile, threads=1))
    (tmp_path / "m.vrt").write_text(vrt_text(prefix, tiles, grid, profile, "uint8"))
    with rasterio.open(tmp_path / "m.vrt") as made:
        assert made.bounds == pytest.approx(grid.extent.boundingbox.bbox)
        assert made.crs == rasterio.crs.CRS.from_user_input(crs)
        assert made.transform == grid.affine and made.descriptions == ("class <1>",)
        assert made.colormap(1)[1] == (1, 2, 3, 255)
        np.testing.assert_array_equal(made.read(), image)
    items = stac_items(prefix, tiles, grid, profile, "uint8", datetime="2024-05-06T00:00:00Z", sizes=sizes)
    collection = stac_collection(prefix, tiles, grid, datetime="2024-05-06T00:00:00Z")
    assert len(items) == tiles.count == len([one for one in collection["links"] if one["rel"] == "item"])
    west, south, east, north = collection["extent"]["spatial"]["bbox"][0]
    assert west < east and south < north
    json.dumps([items, collection], allow_nan=False)
    if shutil.which("gdalinfo"):
        said = subprocess.run(["gdalinfo", "-json", f"{prefix}.vrt"], capture_output=True, check=True)
        assert json.loads(said.stdout)["size"] == [700, 1100]


def test_stac_says_what_the_tile_is(tmp_path: Path) -> None:
    tiles = TileGrid(width=700, height=1100, tile_size=4096)
    profile = TileProfile(nodata=float("nan"), names=("p",))
    when = "2024-05-06T00:00:00Z"
    (item,) = stac_items("x/m", tiles, GRID, profile, "float32", datetime=when, sizes=[12])
    assert item["id"] == "m" and item["assets"]["map"]["href"] == "./m.tif"
    properties = item["properties"]
    assert properties["proj:epsg"] == 32633 and properties["proj:shape"] == [1100, 700]
    assert properties["proj:transform"] == [10, 0, 500_000, 0, -10, 5_300_000]
    assert item["assets"]["map"]["raster:bands"] == [{"name": "p", "data_type": "float32", "nodata": "nan"}]
    west, south, east, north = item["bbox"]
    assert 14.9 < west < east < 15.2 and 47.7 < south < north < 47.9


@pytest.mark.parametrize(
    ("crs", "west"), [("EPSG:4326", 179.0), ("EPSG:4326", -181.0), ("EPSG:4326", 539.0), ("EPSG:32601", None)]
)
def test_a_map_across_the_antimeridian_is_cut_there(crs: str, west: float | None) -> None:
    affine = (
        Affine(0.1, 0, west, 0, -0.1, 2) if west is not None else Affine(10_000, 0, 100_000, 0, -10_000, 2e5)
    )
    grid = GeoBox((20, 30), affine, crs)
    geometry, bbox = footprint(grid)
    assert geometry is not None and geometry["type"] == "MultiPolygon"
    assert -180 < bbox[2] < 0 < bbox[0] < 180
    parts = shapely.geometry.shape(geometry)
    assert parts.bounds[0] == -180 and parts.bounds[2] == 180
    turns = bbox[2] + 360 - bbox[0]
    assert sum(part.bounds[2] - part.bounds[0] for part in parts.geoms) == pytest.approx(turns)
    tiles = TileGrid(width=30, height=20, tile_size=256)
    assert stac_collection("x/m", tiles, grid, datetime="2024-05-06T00:00:00Z")["extent"]["spatial"] == {
        "bbox": [bbox]
    }


def test_only_own_files_count_as_earlier_maps() -> None:
    own = [
        "m.tif",
        "m-0000000000-0000004096.tif",
        "m.vrt",
        "m-import.json",
        "m-collection.json",
        "m.stac.json",
    ]
    others = ["m2.tif", "m-a.tif", "m-00000.tfrecord.gz", "m-mixer.json", "m-manifest.json", "m.json"]
    assert existing_maps(own + others, "m") == sorted(own)
