"""Rasters: directories of TIFFs, headers of NetCDF, what GDAL makes of damaged files."""

from __future__ import annotations

import io
import random
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from eager import write_tif
from fuzzing import Target, damaged

from fuzz_targets.places import folder, put
from patchbeam.errors import SourceError
from patchbeam.rasters.header import read_header
from patchbeam.rasters.netcdf3 import end_of_data
from patchbeam.rasters.tiff import check_tiff


@cache
def tiffs() -> tuple[bytes, ...]:
    """Small files of every kind of TIFF."""
    place, made = folder("tiffs"), []
    values = np.arange(2 * 24 * 40, dtype=np.uint16).reshape(2, 24, 40)
    kinds: list[dict[str, Any]] = [
        {},
        {"tiled": True, "blockxsize": 16, "blockysize": 16, "nodata": 7},
        {"compress": "deflate", "interleave": "pixel"},
        {"bigtiff": "yes", "tiled": True, "blockxsize": 16, "blockysize": 16},
        {"endianness": "big", "blockysize": 5},
    ]
    for number, options in enumerate(kinds):
        made.append(Path(write_tif(place / f"{number}.tif", values, **options)).read_bytes())
    return tuple(made)


_TAGS = (256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 322, 323, 324, 325, 339, 42113, 330, 34665)
_NUMBERS = (0, 1, 2, 16, 255, 4096, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1)


def tiff(chance: random.Random) -> bytes:
    """A damaged file, or a directory of entries by chance."""
    if chance.random() < 0.7:
        good = chance.choice(tiffs())
        # most of what can go wrong stands where the directory is
        at = int.from_bytes(good[4:8], "little") if good[:4] == b"II*\0" else 0
        if chance.random() < 0.5 and at < len(good):
            return good[:at] + damaged(chance, good[at : at + 300]) + good[at + 300 :]
        return damaged(chance, good, tiffs())
    entries = []
    for _ in range(chance.randrange(20)):
        tag, kind = chance.choice(_TAGS), chance.choice((1, 2, 3, 4, 4, 4, 5, 7, 12, 13, 16, 99))
        entries.append(
            struct.pack("<HHII", tag, kind, chance.choice((1, 1, 1, *_NUMBERS)), chance.choice(_NUMBERS))
        )
    after = chance.choice((0, 8, 9, 2**31, chance.randrange(300)))
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + struct.pack("<I", after)
    return b"II*\0" + struct.pack("<I", 8) + directory + chance.randbytes(chance.randrange(100))


def read_tiff(data: bytes) -> None:
    check_tiff(put("tiff", "some.tif", data), "sources.s2")


def read_by_gdal(data: bytes) -> None:
    header = read_header(put("gdal", "some.tif", data), "sources.s2")
    assert header.count == len(header.nodata)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


NETCDF = b"".join(
    [
        b"CDF\x01",
        struct.pack(">I", 3),
        struct.pack(">II", 10, 2),
        _text("time") + struct.pack(">I", 0),
        _text("x") + struct.pack(">I", 4),
        struct.pack(">II", 12, 1),
        _text("title") + struct.pack(">I", 2) + _text("some"),
        struct.pack(">II", 11, 2),
        _text("t")
        + struct.pack(">II", 2, 0)
        + struct.pack(">I", 1)
        + bytes(8)
        + struct.pack(">III", 5, 16, 200),
        _text("f") + struct.pack(">II", 1, 1) + bytes(8) + struct.pack(">III", 6, 32, 300),
        bytes(200),
    ]
)


def netcdf(chance: random.Random) -> bytes:
    data = bytearray(damaged(chance, NETCDF))
    data[3:4] = bytes([chance.choice((1, 1, 2, 5))])
    return bytes(data)


def read_netcdf(data: bytes) -> None:
    end = end_of_data(io.BytesIO(data), len(data))
    if end > len(data):
        raise SourceError("cut short")


TARGETS = [
    Target(name="tiff-directories", make=tiff, read=read_tiff, short=1500, long=60_000),
    Target(name="tiffs-by-gdal", make=tiff, read=read_by_gdal, short=200, long=5_000),
    Target(name="netcdf-headers", make=netcdf, read=read_netcdf, short=1500, long=60_000),
]
