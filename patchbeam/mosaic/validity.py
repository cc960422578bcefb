"""``mask: sources``: what was masked in the exported rasters, read again from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox

from patchbeam.errors import JobError
from patchbeam.manifest import Manifest, ManifestSource
from patchbeam.patches import Window
from patchbeam.rasters.bands import Band
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import Source
from patchbeam.source_entries import every_file, read_band, read_sources

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
        lost = [f.path for entry in manifest.sources for f in every_file(entry) if f.masked_windows]
        if lost:
            raise JobError(
                f"mask: sources: {lost[0]} could not be read by the export and was masked (onMissing: mask), "
                "which the sources do not show; export with maskBand and give its name as mask"
            )
        try:
            bands = [
                read_band(band, sequence=manifest.format_options.sequence_data)
                for band in manifest.bands
                if band.name != manifest.mask_band
            ]
        except JobError as error:
            raise JobError(
                f"mask: sources: {error}; export with maskBand and give its name as mask"
            ) from error
        sources = read_sources(manifest, grid)
        for entry, source in zip(manifest.sources, sources, strict=True):
            _check_unchanged(entry, source)
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


def _check_unchanged(entry: ManifestSource, source: Source) -> None:
    found = {file.path: file for file in (*source.files, *(source.quality.files if source.quality else ()))}
    for known in every_file(entry):
        file = found[known.path]
        now = (file.size_bytes, file.modified)
        if known.size_bytes is not None and now != (known.size_bytes, known.modified):
            raise JobError(
                f"mask: sources: {entry.name}: {known.path} is not the file that was exported "
                f"({known.size_bytes} bytes of {known.modified}; now {now[0]} of {now[1]}); export again, or "
                "leave mask out"
            )
