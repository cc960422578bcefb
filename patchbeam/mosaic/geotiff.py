"""Cloud-optimised GeoTIFF tiles, straight from an array."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import rasterio
import rasterio.shutil
from numpy.typing import NDArray
from odc.geo.crs import CRS
from odc.geo.geobox import GeoBox
from rasterio.enums import ColorInterp, Resampling

from patchbeam.class_colours import class_colours
from patchbeam.errors import WriteFailed
from patchbeam.mosaic.options import Compress, MapClass
from patchbeam.rasters.written import GDAL_FAILURES, check_written
from patchbeam.storage.base import MAKE_ROOM

BLOCK_SIZE = 512
_CACHE_BYTES = 64 << 20
# Fast levels: 97 % of what level 6 saves, at a third of the time.
_LEVELS: dict[Compress, int] = {"deflate": 1, "zstd": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class TileProfile:
    """What all tiles of a map share.

    Attributes:
        nodata: value of pixels without data, or ``None``.
        names: band names.
        compress: how blocks are compressed, then always with a predictor.
        categorical: whether overviews take the nearest pixel; else they average.
        classes: of a class map; names and colours.
    """

    nodata: float | None
    names: tuple[str, ...]
    compress: Compress = "deflate"
    categorical: bool = False
    classes: tuple[MapClass, ...] = ()

    @property
    def colors(self) -> dict[int, tuple[int, ...]] | None:
        """Colour of each class, one of a palette where a class has none; ``None`` without classes."""
        if not self.classes:
            return None
        rising = sorted(self.classes, key=lambda c: c.value)
        shown = class_colours([c.color for c in rising])
        return {c.value: (*(c.color or colour), 255)[:4] for c, colour in zip(rising, shown, strict=True)}

    @property
    def class_names(self) -> list[str] | None:
        """Name of every value from 0 to the largest class; ``None`` where no class has one."""
        if not any(c.name for c in self.classes):
            return None
        named = {c.value: c.name or "" for c in self.classes}
        return [named.get(value, "") for value in range(max(named) + 1)]


def write_cog(path: str, pixels: NDArray[Any], grid: GeoBox, profile: TileProfile, *, threads: int) -> int:
    """Writes a cloud-optimised GeoTIFF; it appears whole or not at all.

    Args:
        path: a local file, which is replaced.
        pixels: ``(band, row, col)``, C order.
        grid: of these pixels.
        profile: of the map.
        threads: to compress with.

    Returns:
        The size of the file in bytes.

    Raises:
        WriteFailed: it cannot be written.
    """
    temporary = f"{path}.{uuid4().hex[:8]}.part"
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with (
            rasterio.Env(
                GDAL_MEM_ENABLE_OPEN="YES",
                GDAL_NUM_THREADS=str(threads),
                GDAL_PAM_ENABLED="NO",
                GDAL_CACHEMAX=_CACHE_BYTES,
            ),
            _opened(pixels, grid, profile) as dataset,
        ):
            factors = _overview_factors(*pixels.shape[1:])
            if factors:
                # In memory and by all threads; the driver would write them to a file first.
                dataset.build_overviews(factors, _resampling(profile))
            rasterio.shutil.copy(dataset, temporary, **_creation_options(profile, threads))
        check_written(temporary, path)
        os.replace(temporary, path)
        return os.stat(path).st_size
    except WriteFailed:
        raise
    except GDAL_FAILURES as error:
        raise _failed(path, error) from error
    finally:
        for left in (temporary, f"{temporary}.ovr.tmp", f"{temporary}.msk.ovr.tmp"):
            with suppress(OSError):
                os.unlink(left)


def _failed(path: str, error: BaseException) -> WriteFailed:
    failure = WriteFailed(f"{path}: cannot write this tile: {' '.join(str(error).split())}; {MAKE_ROOM}")
    failure.errno = error.errno if isinstance(error, OSError) else None
    return failure


@contextmanager
def _opened(pixels: NDArray[Any], grid: GeoBox, profile: TileProfile) -> Iterator[Any]:
    """Opens the array as a dataset that knows all that the file is to say."""
    name = str(pixels.dtype)
    if profile.nodata is None or name not in ("int64", "uint64"):
        # The array itself is the dataset: nothing is copied before it is compressed.
        with rasterio.open(_dataset_name(pixels, grid), "r+") as dataset:
            _describe(dataset, grid, profile, name)
            yield dataset
        return
    # GDAL's dataset in memory forgets the nodata value of 64-bit integers; a file in memory does not.
    bands, height, width = pixels.shape
    shape = {"count": bands, "height": height, "width": width, "dtype": name}
    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", transform=grid.affine, **shape) as dataset:
            _describe(dataset, grid, profile, name)
            dataset.write(pixels)
        with rasterio.open(memory.name, "r+") as dataset:
            yield dataset


def _dataset_name(pixels: NDArray[Any], grid: GeoBox) -> str:
    bands, height, width = pixels.shape
    if not pixels.flags.c_contiguous:
        raise ValueError("pixels are not in C order")
    kind = gdal_type(str(pixels.dtype))
    a, b, c, d, e, f = tuple(grid.affine)[:6]
    geotransform = "/".join(repr(float(v)) for v in (c, a, b, f, d, e))
    return (
        f"MEM:::DATAPOINTER={pixels.ctypes.data},PIXELS={width},LINES={height},BANDS={bands},DATATYPE={kind},"
        f"GEOTRANSFORM={geotransform}"
    )


def gdal_type(name: str) -> str:
    """Returns GDAL's name of a named type."""
    if name == "uint8":
        return "Byte"
    head, digits = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    return {"uint": "UInt", "int": "Int", "float": "Float"}[head] + digits


def crs_of(grid: GeoBox) -> CRS:
    """Returns the CRS of a grid, which maps always have."""
    assert grid.crs is not None
    return grid.crs


def _describe(dataset: Any, grid: GeoBox, profile: TileProfile, type_name: str) -> None:
    dataset.crs = rasterio.crs.CRS.from_wkt(crs_of(grid).to_wkt())
    dataset.transform = grid.affine
    if profile.nodata is not None:
        dataset.nodata = profile.nodata
    for i, name in enumerate(profile.names, 1):
        dataset.set_band_description(i, name)
    colors = profile.colors
    if colors is not None and type_name == "uint8" and len(profile.names) == 1:
        dataset.write_colormap(1, colors)
        dataset.colorinterp = [ColorInterp.palette]
    else:
        dataset.colorinterp = [ColorInterp.gray, *[ColorInterp.undefined] * (len(profile.names) - 1)]
    for c in profile.classes:
        if c.name:
            dataset.update_tags(1, **{f"CLASS_{c.value}": c.name})


def _overview_factors(height: int, width: int) -> list[int]:
    """Halvings until a block holds the whole tile, as the COG driver makes them."""
    factors: list[int] = []
    while max(height, width) > BLOCK_SIZE << len(factors):
        factors.append(2 << len(factors))
    return factors


def _resampling(profile: TileProfile) -> Resampling:
    return Resampling.nearest if profile.categorical else Resampling.average


def _creation_options(profile: TileProfile, threads: int) -> dict[str, str | int]:
    level = _LEVELS.get(profile.compress)
    return {
        "driver": "COG",
        "BLOCKSIZE": BLOCK_SIZE,
        "COMPRESS": profile.compress.upper(),
        **({} if level is None else {"LEVEL": level, "PREDICTOR": "YES"}),
        "OVERVIEWS": "AUTO",
        "OVERVIEW_RESAMPLING": _resampling(profile).name.upper(),
        "NUM_THREADS": threads,
        "BIGTIFF": "IF_SAFER",
    }


def color_table(profile: TileProfile) -> Sequence[tuple[int, ...]] | None:
    """Returns the colour of every value from 0 to the largest class, for a VRT."""
    colors = profile.colors
    if colors is None:
        return None
    return [colors.get(value, (0, 0, 0, 255)) for value in range(max(colors) + 1)]
