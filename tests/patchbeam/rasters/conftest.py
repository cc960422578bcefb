"""Small rasters of every kind, and one call that reads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from odc.geo.geobox import GeoBox

from patchbeam.elements import Array, BandPixels
from patchbeam.patches import Window
from patchbeam.rasters.bands import BandSpec, resolve_bands
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import open_source

NORTH_UP = Affine(10, 0, 500_000, 0, -10, 5_000_000)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes ``(band, row, col)`` or ``(row, col)`` values; returns the path."""

    def write_(
        name: str,
        values: Array,
        *,
        transform: Affine = NORTH_UP,
        crs: str | None = "EPSG:32633",
        mask: Array | None = None,
        msk: bool = False,
        finish: Callable[[Any], None] | None = None,
        **profile: Any,
    ) -> str:
        path = str(tmp_path / name)
        values = values[None] if values.ndim == 2 else values
        count, height, width = values.shape
        profile = {"driver": "GTiff", "photometric": "MINISBLACK", "alpha": "UNSPECIFIED", **profile}
        if profile.get("tiled"):
            profile = {"blockxsize": 16, "blockysize": 16, **profile}
        with (
            rasterio.Env(GDAL_TIFF_INTERNAL_MASK=not msk),
            rasterio.open(
                path, "w", width=width, height=height, count=count, dtype=values.dtype.name, crs=crs,
                transform=transform, **profile,
            ) as dataset,
        ):  # fmt: skip
            dataset.write(values)
            if mask is not None:
                dataset.write_mask(mask)
            if finish is not None:
                finish(dataset)
        return path

    return write_


def _read(
    paths: str | list[str],
    window: Window | None = None,
    *,
    grid: GeoBox | None = None,
    bands: list[BandSpec] | None = None,
    threads: int = 1,
    **options: Any,
) -> list[BandPixels]:
    source = open_source("s", [paths] if isinstance(paths, str) else paths, **options)
    grid = source.files[0].grid if grid is None else grid
    window = window or Window(0, 0, grid.width, grid.height)
    with ImageReader([source], resolve_bands([source], bands), grid, threads=threads) as reader:
        pixels = reader.read(window)
    for p in pixels:
        assert p.values.shape[-2:] == (window.height, window.width)
        assert p.valid is None or (p.valid.shape == p.values.shape and not p.valid.all())
    return pixels


@pytest.fixture
def read() -> Callable[..., list[BandPixels]]:
    """Reads a window (default: the whole) of a grid (default: the first file's own)."""
    return _read


def _valid(pixels: BandPixels) -> Array:
    return np.ones(pixels.values.shape, bool) if pixels.valid is None else pixels.valid


@pytest.fixture
def valid() -> Callable[[BandPixels], Array]:
    """The validity of a band as an array, whether it has one or not."""
    return _valid


@pytest.fixture
def noise() -> Callable[..., Array]:
    """Random values of any type and shape."""

    def noise_(*shape: int, dtype: str = "uint16", seed: int = 0, low: int = 1, high: int = 100) -> Array:
        return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)

    return noise_
