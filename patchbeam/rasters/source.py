"""A source: one or many rasters that the job file names together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.errors import SourceError, nearest
from patchbeam.pool import Pool
from patchbeam.rasters.burn import Burn
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.header import read_header
from patchbeam.rasters.masks import usable_nodata
from patchbeam.rasters.quality import Quality, check_quality
from patchbeam.rasters.times import observation_time

__all__ = ["COMPOSES", "RESAMPLINGS", "RasterFile", "Source", "check_choice", "open_source", "read_header"]

COMPOSES = ("first", "last", "min", "max", "mean", "median", "count")
"""How several files of one source become one image."""

RESAMPLINGS = (
    "nearest",
    "bilinear",
    "cubic",
    "cubic_spline",
    "lanczos",
    "average",
    "mode",
    "min",
    "max",
    "med",
    "q1",
    "q3",
    "sum",
    "rms",
)
"""How a source that is off the export grid is brought onto it (GDAL's names)."""

READERS = 16
"""Threads that read headers: they wait for the disk or the network more than they work."""

_MANY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One or many rasters that the job file names together.

    Attributes:
        name: key under ``sources``.
        files: in list order; for a series, in time order.
        compose: which file wins, or what comes out, where several have a valid pixel.
        nodata: takes the place of every file's own nodata; ``None`` leaves those.
        unscale: whether scale and offset tags are applied.
        resampling: for bands that don't say; see :data:`RESAMPLINGS`.
        series: whether each file is one observation of an array band.
        times: ISO 8601 time of each file of a series.
        quality: band that says which pixels are good; ``None``: all are.
        group: key under ``sources`` when this is one asset of several; else ``None``.
        vector: what is burnt on the grid when the source is a vector layer; its one file then stands for the
            grid.
        catalogue: whether its files are scenes of a catalogue, most of which may lie elsewhere.
    """

    name: str
    files: Sequence[RasterFile]
    compose: str = "first"
    nodata: float | None = None
    unscale: bool = False
    resampling: str = "nearest"
    series: bool = False
    times: tuple[str, ...] | None = None
    quality: Quality | None = None
    group: str | None = None
    catalogue: bool = False
    vector: Burn | None = None

    def __post_init__(self) -> None:
        key = f"sources.{self.name}"
        if not self.files:
            raise SourceError(f"{key}: no files; give a path, a list of paths or a pattern that matches some")
        check_choice(f"{key}.compose", self.compose, COMPOSES)
        check_choice(f"{key}.resampling", self.resampling, RESAMPLINGS)
        if self.series and self.compose not in ("first", "last"):
            raise SourceError(
                f"{key}.compose: {self.compose} makes one image of all files, and series: true an observation"
                " of each; keep one of them"
            )
        if self.quality is not None:
            check_quality(self.quality, key)
        if self.series and (self.times is None or len(self.times) != len(self.files)):
            raise SourceError(
                f"{key}: a series of {len(self.files)} files has {len(self.times or ())} times; give one each"
            )


def check_choice(key: str, value: str, known: Sequence[str]) -> None:
    """Refuses a value that is not among ``known``.

    Raises:
        SourceError: naming the key, the value and the nearest match.
    """
    if value not in known:
        raise SourceError(
            f"{key}: {value!r} is not known{nearest(str(value), known)}; use one of {', '.join(known)}"
        )


def open_source(
    name: str,
    paths: Sequence[str],
    *,
    compose: str = "first",
    nodata: float | None = None,
    unscale: bool = False,
    resampling: str = "nearest",
    crs: str | None = None,
    series: bool = False,
    time: str | None = None,
) -> Source:
    """Reads the headers of a source's files.

    Args:
        name: key under ``sources``.
        paths: in list order; those of a series are put in time order, equal times keeping path order.
        compose: see :class:`Source`.
        nodata: see :class:`Source`.
        unscale: see :class:`Source`.
        resampling: see :class:`Source`.
        crs: takes the place of every file's own CRS.
        series: see :class:`Source`.
        time: strftime pattern searched for in each path; without it the TIFF date tag is used.

    Raises:
        SourceError: a file cannot be used, or an observation has no time.
    """
    key = f"sources.{name}"
    with Pool(READERS if len(paths) > _MANY else 1) as pool:
        files = list(pool.map(lambda path: read_header(path, key, crs=crs), paths))
    types = sorted({dtype for file in files for dtype in file.dtypes})
    if nodata is not None and not any(usable_nodata(nodata, np.dtype(dtype)) for dtype in types):
        raise SourceError(
            f"{key}.nodata: {nodata:g} is no number that the files' type {' or '.join(types)} holds, so it "
            "would mask nothing; give the value that stands in the files, or leave nodata out"
        )
    times: tuple[str, ...] | None = None
    if series:
        dated = sorted(((observation_time(file, time, key), file.path, i) for i, file in enumerate(files)))
        files = [files[i] for _, _, i in dated]
        times = tuple(when for when, _, _ in dated)
    return Source(
        name=name,
        files=tuple(files),
        compose=compose,
        nodata=nodata,
        unscale=unscale,
        resampling=resampling,
        series=series,
        times=times,
    )
