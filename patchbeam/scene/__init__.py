"""A sample scene: what a satellite might see, of any size, out of a seed.

Fields and meadows in parcels, woods, lakes and rivers, towns, clouds with their shadows, and the edge
of the swath without data; as bands that hang together as real ones do, on one date or several of one
year, with the map of what is really there. For trying things out, for tests and for benchmarks.
"""

from __future__ import annotations

import os
from pathlib import Path

from patchbeam.scene.options import SceneOptions
from patchbeam.scene.spectra import BANDS, CLASS_COLOURS, CLASSES
from patchbeam.scene.write import write_files

__all__ = ["BANDS", "CLASSES", "CLASS_COLOURS", "SceneOptions", "write_scene"]


def write_scene(
    path: str | os.PathLike[str],
    *,
    width: int,
    height: int,
    bands: int = 4,
    seed: int = 0,
    dates: int = 1,
    crs: str = "EPSG:32633",
    origin: tuple[float, float] | None = None,
    scale_m: float = 10.0,
    dtype: str = "uint16",
    layout: str = "tiled",
    block_size: int = 256,
    interleave: str = "pixel",
    compress: str = "deflate",
    level: int | None = None,
    cloud_fraction: float = 0.1,
    nodata_fraction: float = 0.03,
    class_map: bool = True,
    overwrite: bool = False,
    threads: int | None = None,
) -> list[Path]:
    """Writes a sample scene as GeoTIFF.

    The same width, height and seed give the same pixels, whatever the blocks, threads and processor.
    Memory does not grow with the scene; striped, with its width alone. Files appear under their names
    only when all are complete.

    Args:
        path: ``OUT.tif``, the one date; with several dates each is ``OUT-YYYYMMDD.tif``. Missing
            folders are made.
        width, height: size in pixels.
        bands: how many of :data:`BANDS` (B2, B3, B4, B8, B11, …), named in the file: 1 to 13, all of
            Sentinel-2. More bands do not change those before them.
        seed: what to draw, from 0.
        dates: how many dates of one year; crops grow and are harvested, and each has its own clouds.
        crs: a code or text that PROJ knows, projected or geographic.
        origin: x and y of the upper-left corner in ``crs``.
        scale_m: pixel size in metres; in a geographic CRS degrees as long on the equator.
        dtype: ``uint16``, reflectance times 10,000 with nodata 0, or ``float32``, reflectance with
            nodata NaN.
        layout: ``tiled``, or ``striped`` with 16 rows a strip.
        block_size: side of a tile in pixels, a multiple of 16.
        interleave: ``pixel`` or ``band``.
        compress: ``none``, ``deflate``, ``zstd`` or ``lzw``.
        level: effort of ``deflate`` (1 to 12) or ``zstd`` (1 to 22); 1 unless given.
        cloud_fraction: share of each date under clouds, about; 0 to 0.9.
        nodata_fraction: share of the scene beyond the swath's edge, in its lower-right corner; 0 to 0.5.
        class_map: also write ``OUT-classes.tif``: uint8, an index into :data:`CLASSES` (0 beyond the
            swath), with colours, and the names in the band's tags ``CLASS_0``, ``CLASS_1``, …
        overwrite: replace files of these names.
        threads: threads to draw and to compress with; as many as the process may use unless given.

    Returns:
        The files written: the dates in order, then the class map.

    Raises:
        JobError: if an option or the path cannot be used.
        OutputExists: if a file of that name exists and ``overwrite`` is false.
        WriteFailed: if writing failed on the way; nothing is left behind.
    """
    options = SceneOptions(
        width=width,
        height=height,
        bands=bands,
        seed=seed,
        dates=dates,
        crs=crs,
        origin=origin,
        scale_m=scale_m,
        dtype=dtype,
        layout=layout,
        block_size=block_size,
        interleave=interleave,
        compress=compress,
        level=level,
        cloud_fraction=cloud_fraction,
        nodata_fraction=nodata_fraction,
        class_map=class_map,
        overwrite=overwrite,
        threads=threads,
    )
    return write_files(path, options)
