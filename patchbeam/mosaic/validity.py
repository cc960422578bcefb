"""``mask: sources``: what was masked in the exported rasters, read again from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox

from patchbeam.errors import JobError
from patchbeam.manifest import Manifest, ManifestSource
from patchbeam.patches import Window
from patchbeam.rasters.bands import Band
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import RasterFile, Source, read_header

Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceMask:
    """The rasters of an export and their bands, headers only.

    Attributes:
        sources: of the export.
        bands: of the export, without the mask band.
        grid: the export grid.
    """

    sources: tuple[Source, ...]
    bands: tuple[Band, ...]
    grid: GeoBox

    @classmethod
    def from_manifest(cls, manifest: Manifest, grid: GeoBox) -> SourceMask:
        """Reads the headers of the export's sources.

        Raises:
            JobError: the manifest does not tell how a band was read or what was clipped, or a file has
                changed since.
            SourceError: a file cannot be read any more.
        """
        if manifest.clip:
            raise JobError(
                "mask: sources: the export masked what lies outside its region (grid.clip), which the "
                "sources do not show; export with maskBand and give its name as mask"
            )
        times = {band.source: band.times for band in manifest.bands if band.times is not None}
        bands = []
        for band in manifest.bands:
            if band.name == manifest.mask_band:
                continue
            spatial = 0 if manifest.format_options.sequence_data else 2
            series = len(band.shape) > spatial
            if band.source is None or band.source_band is None or (series and band.times is None):
                raise JobError(
                    f"mask: sources: the manifest does not say from which bands {band.name!r} was read; "
                    "export with "
                    "maskBand and give its name as mask"
                )
            bands.append(
                Band(
                    name=band.name,
                    source=band.source,
                    index=band.source_band,
                    type=band.type,
                    resampling=band.resampling or "nearest",
                    series=series,
                )
            )
        sources = tuple(_source(entry, times.get(entry.name)) for entry in manifest.sources)
        return cls(sources=sources, bands=tuple(bands), grid=grid)

    def reader(self, threads: int) -> MaskReader:
        """Returns a reader of the masks; it holds open files."""
        return MaskReader(self, threads)


class MaskReader:
    """Reads which pixels of a window were valid in every band of the export."""

    def __init__(self, mask: SourceMask, threads: int) -> None:
        self._bands = mask.bands
        self._reader = ImageReader(mask.sources, mask.bands, mask.grid, threads=threads)

    def __call__(self, window: Window) -> Mask | None:
        """Returns ``(row, col)``, or ``None`` when every pixel is valid."""
        total: Mask | None = None
        for pixels in self._reader.read(window):
            valid: Mask | None = pixels.valid
            if valid is None:
                continue
            if valid.ndim == 3:
                valid = np.asarray(valid.any(axis=0))  # an array is masked when it is empty
            total = valid if total is None else np.logical_and(total, valid, out=np.empty_like(valid))
        return total

    def close(self) -> None:
        """Closes the datasets."""
        self._reader.close()


def _source(entry: ManifestSource, times: Sequence[str] | None) -> Source:
    key = f"mask: sources: {entry.name}"
    files: list[RasterFile] = []
    for known in entry.files:
        file = read_header(known.path, key)
        if known.size_bytes is not None and (file.size_bytes, file.modified) != (
            known.size_bytes,
            known.modified,
        ):
            raise JobError(
                f"{key}: {known.path} is not the file that was exported ({known.size_bytes} bytes of "
                f"{known.modified}; "
                f"now {file.size_bytes} of {file.modified}); export again, or leave mask out"
            )
        files.append(file)
    return Source(
        name=entry.name,
        files=tuple(files),
        compose=entry.compose or "first",
        nodata=entry.nodata,
        unscale=bool(entry.unscale),
        series=times is not None,
        times=None if times is None else tuple(times),
    )
