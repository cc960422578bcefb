"""Writes a scene's files side by side, window after window, in memory that its size does not change."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.windows import Window as RasterWindow

from patchbeam.errors import OutputExists, WriteFailed
from patchbeam.rasters.written import GDAL_FAILURES, check_written
from patchbeam.scene import spectra
from patchbeam.scene.options import SceneOptions, check_path
from patchbeam.scene.render import REFLECTANCE_SCALE, Renderer, Window
from patchbeam.storage.base import MAKE_ROOM

_CACHE_BYTES = 16 << 20
_WINDOW_PIXELS = 1 << 18  # what a window is drawn in: small enough for its arrays to stay in the cache
_STRIP_ROWS = 16
_STRIPS_WINDOW = (64, 2048)  # rows and columns; strips are whole when the last of their windows is written

Place = tuple[int, int, int, int]  # row, col, rows, cols


def write_files(path: str | os.PathLike[str], options: SceneOptions) -> list[Path]:
    """Writes the files of a scene; see :func:`patchbeam.scene.write_scene`."""
    scene = check_path(os.fspath(path))
    days = options.dates_of_year()
    finals = [scene if len(days) == 1 else scene.with_stem(f"{scene.stem}-{day:%Y%m%d}") for day in days]
    if options.class_map:
        finals.append(scene.with_stem(f"{scene.stem}-classes"))
    for final in finals:
        if final.is_dir() or (final.exists() and not options.overwrite):
            raise OutputExists(
                f"{final} is there already; give --overwrite (in Python overwrite=True) to replace it, or "
                "another name"
            )
    parts = [final.with_name(f".{final.name}.{os.getpid()}.part") for final in finals]
    try:
        _fill(parts, options)
        for part, final in zip(parts, finals, strict=True):
            check_written(os.fspath(part), os.fspath(final), reads=True)
        for part, final in zip(parts, finals, strict=True):
            os.replace(part, final)
    except WriteFailed:
        raise
    except GDAL_FAILURES as error:
        text = " ".join(str(error).split())
        raise WriteFailed(f"{scene}: writing the scene failed: {text}; {MAKE_ROOM}") from error
    finally:
        for part in parts:
            with suppress(OSError):  # a read-only disk refuses this too, and the first error is to be told
                part.unlink()
    return finals


def _fill(parts: list[Path], options: SceneOptions) -> None:
    days = options.dates_of_year()
    threads = options.threads or _usable_cores()
    with ExitStack() as stack:
        stack.enter_context(rasterio.Env(GDAL_CACHEMAX=_cache_bytes(options)))
        files = [
            stack.enter_context(rasterio.open(part, "w", **profile))
            for part, profile in zip(parts, _profiles(options, threads), strict=True)
        ]
        for file, day in zip(files, days, strict=False):
            file.descriptions = spectra.BANDS[: options.bands]
            file.update_tags(TIFFTAG_DATETIME=f"{day:%Y:%m:%d} 10:10:31")
            if options.dtype == "uint16":
                file.scales = [1 / REFLECTANCE_SCALE] * options.bands
        if options.class_map:
            _describe_classes(files[-1])
        renderer = Renderer(
            width=options.width,
            height=options.height,
            bands=options.bands,
            days=tuple(day.timetuple().tm_yday for day in days),
            seed=options.seed,
            dtype=options.dtype,
            cloud_fraction=options.cloud_fraction,
            nodata_fraction=options.nodata_fraction,
            widest=max(place[3] for place in _first_row(options)),
        )
        pool = stack.enter_context(ThreadPoolExecutor(threads))
        for (row, col, rows, cols), window in _drawn(pool, renderer, options, threads):
            where = RasterWindow(col, row, cols, rows)
            for file, pixels in zip(files, window.dates, strict=False):
                file.write(pixels, window=where)
            if options.class_map:
                files[-1].write(window.classes, 1, window=where)


def _cache_bytes(options: SceneOptions) -> int:
    """Room for two rows of windows of strips, which windows are only parts of: none must be written twice."""
    if options.layout == "tiled":
        return _CACHE_BYTES
    pixel = np.dtype(options.dtype).itemsize * options.bands * options.dates + 1
    return max(_CACHE_BYTES, 2 * _STRIPS_WINDOW[0] * options.width * pixel)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _drawn(
    pool: ThreadPoolExecutor, renderer: Renderer, options: SceneOptions, threads: int
) -> Iterator[tuple[Place, Window]]:
    """Windows in file order, a few drawn ahead."""
    ahead: deque[tuple[Place, Future[Window]]] = deque()
    try:
        for place in _places(options):
            ahead.append((place, pool.submit(renderer.window, *place)))
            if len(ahead) > 2 * threads:
                done, future = ahead.popleft()
                yield done, future.result()
        while ahead:
            done, future = ahead.popleft()
            yield done, future.result()
    finally:
        for _, future in ahead:
            future.cancel()


def _window_size(options: SceneOptions) -> tuple[int, int]:
    """Rows and columns of a window: whole blocks, so that each block is complete when it is written."""
    if options.layout == "striped":
        # A strip spans the scene. Where that is wide, GDAL's cache joins the parts of each strip.
        return _STRIPS_WINDOW[0], min(options.width, _STRIPS_WINDOW[1])
    block = options.block_size
    return block, max(1, _WINDOW_PIXELS // block // block) * block


def _places(options: SceneOptions) -> Iterator[Place]:
    rows, _ = _window_size(options)
    for row in range(0, options.height, rows):
        for _, col, _, cols in _first_row(options):
            yield row, col, min(rows, options.height - row), cols


def _first_row(options: SceneOptions) -> Iterator[Place]:
    rows, cols = _window_size(options)
    for col in range(0, options.width, cols):
        yield 0, col, rows, min(cols, options.width - col)


def _profiles(options: SceneOptions, threads: int) -> list[dict[str, Any]]:
    """Creation options of each file: the dates, then the class map."""
    common: dict[str, Any] = {
        "driver": "GTiff",
        "width": options.width,
        "height": options.height,
        "crs": options.parsed_crs(),
        "transform": options.transform(),
        "BIGTIFF": "IF_SAFER",
        "NUM_THREADS": str(threads),
        "tiled": options.layout == "tiled",
        "compress": options.compress.upper(),
    }
    if options.layout == "tiled":
        common |= {"blockxsize": options.block_size, "blockysize": options.block_size}
    else:
        common |= {"blockysize": min(_STRIP_ROWS, options.height)}
    if options.compress == "deflate":
        common["ZLEVEL"] = options.level or 1
    elif options.compress == "zstd":
        common["ZSTD_LEVEL"] = options.level or 1
    dates = common | {
        "count": options.bands,
        "dtype": options.dtype,
        "nodata": 0 if options.dtype == "uint16" else float("nan"),
        "interleave": options.interleave,
        "photometric": "MINISBLACK",
    }
    if options.compress != "none":
        dates["PREDICTOR"] = 2 if options.dtype == "uint16" else 3
    profiles = [dates] * options.dates
    if options.class_map:
        profiles.append(common | {"count": 1, "dtype": "uint8", "nodata": 0, "photometric": "PALETTE"})
    return profiles


def _describe_classes(file: Any) -> None:
    file.descriptions = ("landcover",)
    file.write_colormap(1, dict(enumerate(spectra.CLASS_COLOURS)))
    file.update_tags(1, **{f"CLASS_{i}": name for i, name in enumerate(spectra.CLASSES)})
