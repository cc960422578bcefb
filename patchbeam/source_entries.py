"""Sources as the manifest holds them, and back, so that pixels can be read again as they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odc.geo.geobox import GeoBox

from patchbeam.errors import JobError, SourceError
from patchbeam.manifest import (
    Manifest,
    ManifestBand,
    ManifestFile,
    ManifestQuality,
    ManifestSource,
    ManifestVector,
)
from patchbeam.rasters.bands import Band
from patchbeam.rasters.burn import Burn, stand_in
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.header import read_header
from patchbeam.rasters.quality import Quality
from patchbeam.rasters.source import Source
from patchbeam.redact import HIDDEN, without_secrets

Windows = tuple[tuple[int, int, int, int], ...]


def source_entry(source: Source, missing: Mapping[str, Windows]) -> ManifestSource:
    """Returns a source as the manifest holds it, but for masked observations.

    Args:
        source: the source.
        missing: path → where the file could not be read and was masked.
    """
    return ManifestSource(
        name=source.name,
        files=tuple(_file(file, source.catalogue, missing.get(file.path)) for file in source.files),
        compose=source.compose,
        nodata=source.nodata,
        unscale=source.unscale,
        crs_wkt=source.files[0].crs_wkt if source.files[0].crs_given else None,
        group=source.group,
        quality=None if source.quality is None else _quality(source.quality, source, missing),
        vector=None if source.vector is None else _vector(source.vector),
    )


def read_sources(manifest: Manifest, grid: GeoBox) -> tuple[Source, ...]:
    """Returns the sources of an export; the headers of their files are read again.

    Raises:
        SourceError: a file cannot be used.
    """
    times = {band.source: band.times for band in manifest.bands if band.times is not None}
    return tuple(read_source(entry, grid, times.get(entry.name)) for entry in manifest.sources)


def read_band(entry: ManifestBand, *, sequence: bool) -> Band:
    """Returns the band of an entry.

    Args:
        entry: as the manifest holds it; not the mask band.
        sequence: whether there is one record a pixel.

    Raises:
        JobError: the entry does not tell from which bands of which source it was read.
    """
    array = len(entry.shape) > (0 if sequence else 2)
    if (
        entry.source is None
        or entry.source_band is None
        or (array and entry.times is None and entry.source_bands is None)
    ):
        raise JobError(f"band {entry.name!r}: the manifest does not say which bands of which source it is")
    return Band(
        name=entry.name,
        source=entry.source,
        index=entry.source_band,
        type=entry.type,
        resampling=entry.resampling or "nearest",
        indexes=entry.source_bands,
        series=entry.times is not None,
    )


def read_source(entry: ManifestSource, grid: GeoBox, times: tuple[str, ...] | None) -> Source:
    """Returns the source of an entry; the headers of its files are read again.

    Args:
        entry: as the manifest holds it.
        grid: the export grid.
        times: of each file, of a series.

    Raises:
        SourceError: a file cannot be used.
    """
    key = f"sources.{entry.name}"
    if entry.vector is not None:
        burn = _burn(entry.vector, entry.files[0].path)
        return Source(name=entry.name, files=(stand_in(burn, entry.group or entry.name, grid),), vector=burn)
    crs = entry.crs_wkt
    files = tuple(_header(file, key, crs) for file in entry.files)
    quality = entry.quality
    return Source(
        name=entry.name,
        files=files,
        compose=entry.compose or "first",
        nodata=entry.nodata,
        unscale=bool(entry.unscale),
        series=times is not None,
        times=times,
        group=entry.group,
        quality=None
        if quality is None
        else Quality(
            band=quality.band,
            index=quality.index,
            files=files
            if quality.files is None
            else tuple(_header(file, key, crs) for file in quality.files),
            keep=quality.keep,
            drop=quality.drop,
            bits=quality.bits,
        ),
    )


def every_file(entry: ManifestSource) -> Iterator[ManifestFile]:
    """Yields the files of a source, then those of its quality band where they are others."""
    yield from entry.files
    if entry.quality is not None:
        yield from entry.quality.files or ()


def _file(file: RasterFile, told: bool, masked: Windows | None) -> ManifestFile:
    nodata = tuple(value for value in file.nodata if value is not None)
    return ManifestFile(
        path=without_secrets(file.path),
        size_bytes=file.size_bytes,
        modified=file.modified,
        masked_windows=masked,
        nodata=nodata if told and len(nodata) == file.count else None,
        scales=file.scales if file.scaled else None,
        offsets=file.offsets if file.scaled else None,
    )


def _header(entry: ManifestFile, key: str, crs: str | None) -> RasterFile:
    if HIDDEN in entry.path:
        raise SourceError(
            f"{key}: {entry.path}: the manifest does not hold what the job gave to reach this file, as it may"
            " be a secret; it cannot be read again from the manifest"
        )
    file = read_header(entry.path, key, crs=crs)
    if entry.nodata is not None:
        file = replace(file, nodata=entry.nodata)
    if entry.scales is not None and entry.offsets is not None:
        file = replace(file, scales=entry.scales, offsets=entry.offsets, scaled=True)
    return file


def _quality(quality: Quality, source: Source, missing: Mapping[str, Windows]) -> ManifestQuality:
    own = [file.path for file in quality.files] == [file.path for file in source.files]
    return ManifestQuality(
        band=quality.band,
        index=quality.index,
        files=None if own else _plain_files(quality.files, missing),
        keep=quality.keep,
        drop=quality.drop,
        bits=quality.bits,
    )


def _plain_files(files: Sequence[RasterFile], missing: Mapping[str, Windows]) -> tuple[ManifestFile, ...]:
    return tuple(
        ManifestFile(
            path=without_secrets(file.path),
            size_bytes=file.size_bytes,
            modified=file.modified,
            masked_windows=missing.get(file.path),
        )
        for file in files
    )


def _vector(burn: Burn) -> ManifestVector:
    return ManifestVector(
        layer=burn.layer,
        attribute=burn.attribute,
        value=burn.value,
        background=burn.background,
        all_touched=burn.all_touched,
        order_by=burn.order_by,
        crs_wkt=burn.crs_wkt,
        type=burn.type,
        indexed=burn.indexed,
    )


def _burn(entry: ManifestVector, path: str) -> Burn:
    return Burn(
        path=path,
        layer=entry.layer,
        attribute=entry.attribute,
        value=entry.value,
        background=entry.background,
        all_touched=entry.all_touched,
        order_by=entry.order_by,
        crs_wkt=entry.crs_wkt,
        type=entry.type,
        indexed=entry.indexed,
    )
