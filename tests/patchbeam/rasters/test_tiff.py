"""A TIFF that was cut short is found out from its directory, wherever the cut is."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import rasterio

from patchbeam.errors import SourceError
from patchbeam.rasters.source import read_header
from patchbeam.rasters.tiff import check_tiff

LAYOUTS = [
    {"tiled": True, "compress": "deflate"},
    {"tiled": True, "interleave": "band"},
    {"compress": "lzw"},
    {"BIGTIFF": "YES", "tiled": True},
    {"ENDIANNESS": "BIG"},
    {"BIGTIFF": "YES", "ENDIANNESS": "BIG", "compress": "deflate"},
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: "-".join(layout))
@pytest.mark.parametrize("kept", [0.03, 0.3, 0.7, 0.99])
def test_cut_short(write, noise, layout, kept):
    path = write("a.tif", noise(2, 64, 48), **layout)
    read_header(path)
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(SourceError, match=r"^sources\.s2: .*a\.tif is cut short or damaged: .* bytes \d+"):
        read_header(path, "sources.s2")


def test_last_byte_missing(write, noise):
    path = write("a.tif", noise(1, 64, 48), compress="deflate")
    whole = Path(path).read_bytes()
    with rasterio.open(path) as dataset:
        ends = [
            int(dataset.tags(1, ns="TIFF").get(f"BLOCK_OFFSET_0_{i}", 0))
            + int(dataset.tags(1, ns="TIFF").get(f"BLOCK_SIZE_0_{i}", 0))
            for i in range(64)
        ]
    assert max(ends) in (0, len(whole))
    Path(path).write_bytes(whole[:-1])
    with pytest.raises(SourceError, match="cut short"):
        read_header(path)


def test_sparse_blocks_are_fine(tmp_path):
    path = str(tmp_path / "sparse.tif")
    with rasterio.open(
        path, "w", driver="GTiff", width=100_000, height=100_000, count=1, dtype="uint8", crs="EPSG:32633",
        transform=rasterio.Affine(10, 0, 0, 0, -10, 0), tiled=True, SPARSE_OK=True, compress="deflate",
    ):  # fmt: skip
        pass
    assert Path(path).stat().st_size < 10_000_000
    assert read_header(path).width == 100_000


def test_blocks_beyond_any_memory(tmp_path):
    # a directory of one tile, 2^20 x 2^20 pixels, in a few hundred bytes
    side = 1 << 20
    tags = [(256, side), (257, side), (258, 8), (259, 8), (262, 1), (277, 1), (322, side), (323, side)]
    tags += [(324, 8), (325, 100)]
    directory = struct.pack("<H", len(tags))
    directory += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags) + bytes(4)
    path = tmp_path / "huge.tif"
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 108) + bytes(100) + directory)
    with pytest.raises(SourceError, match=r"one tile of 1048576 x 1048576 pixels takes 1099511627776 bytes"):
        check_tiff(str(path), "sources.a")


def test_directories_in_a_circle(tmp_path):
    path = tmp_path / "circle.tif"
    path.write_bytes(struct.pack("<2sHI", b"II", 42, 8) + struct.pack("<HI", 0, 8))
    assert check_tiff(str(path), "sources") is not None


def test_not_a_tiff(tmp_path):
    path = tmp_path / "text"
    path.write_text("nothing of the kind")
    assert check_tiff(str(path), "sources") is None


def test_nodata_out_of_range_is_seen(write):
    path = write("a.tif", np.zeros((4, 4), np.float32), nodata=7)
    facts = check_tiff(path, "sources")
    assert facts is not None and facts.nodata_text == "7"
