"""Sources that cannot be used: refused from their headers, before any pixel is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from eager import write_tif
from refusals import Place, changed


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    here = Place(tmp_path_factory.mktemp("rasters"))
    values = np.random.default_rng(0).integers(0, 255, (2, 600, 500)).astype(np.uint8)
    write_tif(here.folder / "tiled.tif", values, tiled=True, blockxsize=128, blockysize=128)
    write_tif(here.folder / "striped.tif", values, compress="deflate")
    write_tif(here.folder / "big.tif", values, tiled=True, BIGTIFF="YES", compress="lzw")
    write_tif(here.folder / "overviews.tif", values, tiled=True, compress="deflate")
    with rasterio.open(here.folder / "overviews.tif", "r+") as file:
        file.build_overviews([2, 4])
    return here


@pytest.mark.parametrize("name", ["tiled.tif", "striped.tif", "big.tif", "overviews.tif"])
@pytest.mark.parametrize("share", [0.0001, 0.001, 0.01, 0.3, 0.6, 0.9, 0.99, 0.9999])
def test_truncated_tiff(place: Place, name: str, share: float) -> None:
    whole = (place.folder / name).read_bytes()
    size = max(9, int(len(whole) * share))
    (place.folder / "short.tif").write_bytes(whole[:size])
    message = place.refused(changed({"sources": "short.tif"}), "sources.image: ", "short.tif")
    assert "cut short or damaged" in message and f"{size}" in message and "write the file again" in message


def test_truncated_within_the_signature(place: Place) -> None:
    for size in (0, 1, 3, 4, 7, 8):
        (place.folder / "short.tif").write_bytes((place.folder / "tiled.tif").read_bytes()[:size])
        place.refused(changed({"sources": "short.tif"}), "sources.image: ", "short.tif")


def test_only_one_of_many_files_is_bad(place: Place) -> None:
    (place.folder / "short.tif").write_bytes((place.folder / "tiled.tif").read_bytes()[:-100])
    job = changed({"sources": {"s": {"path": ["tiled.tif", "short.tif"]}}})
    place.refused(job, "sources.s: ", "short.tif is cut short")


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_type(place: Place, dtype: str) -> None:
    write_tif(place.folder / "c.tif", np.ones((1, 64, 64), dtype))
    place.refused(changed({"sources": "c.tif"}), "c.tif: band 1 is of type", dtype, "as bands of their own")


def test_no_crs_and_how_to_give_one(place: Place) -> None:
    write_tif(place.folder / "n.tif", np.ones((1, 64, 64), np.uint8), crs=None)
    place.refused(changed({"sources": "n.tif"}), "n.tif has no CRS", "crs: under the source")
    given = {"sources": {"s": {"path": "n.tif", "crs": "EPSG:32633"}}, "output": "out/with-crs"}
    assert place.export(changed(given)).status == 0


def test_no_geotransform(place: Place) -> None:
    with pytest.warns(rasterio.errors.NotGeoreferencedWarning):
        write_tif(place.folder / "t.tif", np.ones((1, 64, 64), np.uint8), transform=None)
    place.refused(changed({"sources": "t.tif"}), "t.tif has no geotransform", "gdal_edit.py")


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.tif", b""), ("text.tif", b"hello"), ("zeros.tif", b"\0" * 5000), ("page.tif", b"<html></html>")],
)
def test_not_a_raster(place: Place, name: str, content: bytes) -> None:
    (place.folder / name).write_bytes(content)
    place.refused(changed({"sources": name}), "sources.image: ", f"{name} is not a raster", "convert it")


def test_a_vrt_whose_part_is_missing(place: Place) -> None:
    (place.folder / "a.vrt").write_text(
        "<VRTDataset rasterXSize='64' rasterYSize='64'><SRS>EPSG:32633</SRS>"
        "<GeoTransform>0,10,0,0,0,-10</GeoTransform><VRTRasterBand dataType='Byte' band='1'><SimpleSource>"
        "<SourceFilename relativeToVRT='1'>gone.tif</SourceFilename><SourceBand>1</SourceBand>"
        "</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    place.refused(changed({"sources": "a.vrt"}), "a.vrt is made of ", "gone.tif, which does not exist")


def test_absurd_sizes_take_no_memory(place: Place) -> None:
    path = place.folder / "huge.tif"
    profile = {"width": 1_000_000, "height": 1_000_000, "blockysize": 1_000_000, "SPARSE_OK": "TRUE"}
    write_huge(path, profile)
    assert path.stat().st_size < 10_000_000
    place.refused(changed({"sources": "huge.tif"}), "huge.tif: one ", "bytes", "TILED=YES")


def write_huge(path: Path, profile: dict[str, object]) -> None:
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=1,
        dtype="uint8",
        crs="EPSG:32633",
        transform=rasterio.Affine(10, 0, 0, 0, -10, 0),
        compress="deflate",
        BIGTIFF="YES",
        **profile,
    ):
        pass


def test_patch_larger_than_the_grid(place: Place) -> None:
    job = changed({"formatOptions.patchDimensions": [32, 128]})
    place.refused(job, "formatOptions.patchDimensions: ", "120 × 100", "32 × 128", "give edge: pad")


def test_record_larger_than_a_file(place: Place) -> None:
    job = changed({"formatOptions.maxFileSize": 1000})
    place.refused(job, "formatOptions.maxFileSize: 1000 bytes", "(12360 bytes)", "give at least 12360")


def test_record_larger_than_protobuf(place: Place) -> None:
    options = {"patchDimensions": 30_000, "maxFileSize": 1 << 40}
    job = changed({"formatOptions": options, "edge": "pad"})
    place.refused(job, "formatOptions.patchDimensions: 30000 × 30000", "protobuf", "use smaller patches")
