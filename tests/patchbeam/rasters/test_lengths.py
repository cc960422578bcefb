"""Formats whose missing end GDAL reads as zeros: cut files are refused, whole ones are not."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from eager import write_tif

from patchbeam.errors import SourceError
from patchbeam.rasters.header import read_header
from patchbeam.rasters.netcdf3 import end_of_data


def written(folder: Path, driver: str, name: str, bands: int = 1) -> Path:
    with rasterio.Env() as env:
        if driver not in env.drivers():
            pytest.skip(f"this GDAL has no {driver}")
    values = np.random.default_rng(0).integers(1, 255, (bands, 131, 123)).astype(np.uint8)
    write_tif(folder / "whole.tif", values)
    rasterio.shutil.copy(folder / "whole.tif", folder / name, driver=driver)
    return folder / name


@pytest.mark.parametrize(
    ("driver", "name", "bands"),
    [
        ("PNG", "a.png", 1),
        ("PNG", "a.png", 3),
        ("ENVI", "a.dat", 1),
        ("ENVI", "a.dat", 3),
        ("PCRaster", "a.map", 1),
        ("netCDF", "a.nc", 1),
    ],
)
def test_cut_files_are_refused(tmp_path: Path, driver: str, name: str, bands: int) -> None:
    path = written(tmp_path, driver, name, bands)
    whole = path.read_bytes()
    assert read_header(str(path)).count == bands
    # classic NetCDF pads its last value to four bytes
    for less in (4, 20, len(whole) // 2):
        path.write_bytes(whole[:-less])
        with pytest.raises(SourceError, match=rf"{name} is cut short or damaged.*{len(whole) - less}"):
            read_header(str(path), "sources.s")
    path.write_bytes(whole + b"more")
    read_header(str(path))


def test_part_of_a_netcdf_file(tmp_path: Path) -> None:
    path = written(tmp_path, "netCDF", "a.nc", 2)
    whole = path.read_bytes()
    name = f"netcdf:{path}:Band1"
    assert read_header(name).count == 1
    path.write_bytes(whole[:-40])
    with pytest.raises(SourceError, match=r"a.nc:Band1 is cut short"):
        read_header(name)


def classic(version: int, records: int) -> bytes:
    """A header with a dimension of records, one of 3, and two variables of bytes and doubles over both."""
    wide, far = (8 if version == 5 else 4), (4 if version == 1 else 8)

    def count(value: int) -> bytes:
        return value.to_bytes(wide, "big")

    def four(value: int) -> bytes:
        return value.to_bytes(4, "big")

    def name(text: str) -> bytes:
        return count(len(text)) + text.encode().ljust(4, b"\0")

    def variable(text: str, kind: int, begin: int) -> bytes:
        dims = count(2) + count(0) + count(1)
        return name(text) + dims + four(0) + count(0) + four(kind) + count(0) + begin.to_bytes(far, "big")

    dims = four(10) + count(2) + name("t") + count(0) + name("x") + count(3)
    return b"".join(
        [
            b"CDF" + bytes([version]),
            count(records),
            dims,
            four(12) + count(1) + name("note") + four(2) + count(5) + b"hello\0\0\0",
            four(11) + count(2) + variable("b", 1, 1000) + variable("d", 6, 1004),
        ]
    )


@pytest.mark.parametrize("version", [1, 2, 5])
def test_records_of_classic_netcdf(version: int) -> None:
    # a record is 3 bytes padded to 4, and 3 doubles
    for records in (1, 2, 7):
        header = classic(version, records)
        assert end_of_data(io.BytesIO(header), 10_000) == 1004 + (records - 1) * 28 + 24
    assert end_of_data(io.BytesIO(header[:40]), 40) == 41
    assert end_of_data(io.BytesIO(classic(version, 0)), 10_000) == 0


def test_other_content_is_left_to_gdal() -> None:
    assert end_of_data(io.BytesIO(b"\x89HDF\r\n\x1a\n"), 8) == 0
    assert end_of_data(io.BytesIO(b"CDF\3"), 4) == 0
