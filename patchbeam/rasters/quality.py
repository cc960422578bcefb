"""Pixels that a quality band calls bad: a class map such as SCL, or bits such as Landsat's QA_PIXEL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from patchbeam.elements import Array, Mask
from patchbeam.errors import SourceError
from patchbeam.rasters.files import RasterFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The quality band of a source.

    The band is compared as it is stored: its own nodata value, mask and scale do not count, so that a
    class that a file also calls nodata can be kept. Where it has no pixel, the data are masked.

    Attributes:
        band: its name, for messages and for the manifest.
        files: one a file of the source, in the same order; the same files when the band is one of theirs.
        index: its number in them, from 1.
        keep: values of good pixels; or
        drop: values of bad ones; or
        bits: numbers of the bits, from 0, any of which marks a bad pixel.
    """

    band: str
    files: Sequence[RasterFile]
    index: int
    keep: tuple[int, ...] | None = None
    drop: tuple[int, ...] | None = None
    bits: tuple[int, ...] | None = None

    def good(self, values: Array) -> Mask:
        """Returns which values of the quality band are those of good pixels."""
        if self.keep is not None:
            return np.isin(values, self.keep)
        if self.drop is not None:
            return np.isin(values, self.drop, invert=True)
        assert self.bits is not None
        flags = sum(1 << bit for bit in self.bits)
        unsigned = values.view(f"u{values.dtype.itemsize}")
        return np.asarray(unsigned & unsigned.dtype.type(flags) == 0)


def plain(file: RasterFile) -> RasterFile:
    """Returns the header of a quality file without what would mask its pixels."""
    nothing = (None,) * file.count
    return replace(file, nodata=nothing, has_mask=(False,) * file.count, alpha=None)


def check_quality(quality: Quality, key: str) -> None:
    """Refuses a quality band that cannot be compared as the job asks.

    Raises:
        SourceError: not exactly one of keep, drop and bits; a band of floats; a bit that the type lacks.
    """
    given = [name for name in ("keep", "drop", "bits") if getattr(quality, name) is not None]
    if len(given) != 1 or not getattr(quality, given[0]):
        raise SourceError(
            f"{key}.mask: give one of keep: [values], drop: [values] and bits: [numbers];"
            f" there {'are ' + ', '.join(given) if given else 'is none'}"
        )
    for file in quality.files:
        if not 1 <= quality.index <= file.count:
            raise SourceError(
                f"{key}.mask.band: {quality.index} asked for, and {file.path} has bands 1 to {file.count}"
            )
        dtype = np.dtype(file.dtypes[quality.index - 1])
        if dtype.kind == "f":
            raise SourceError(
                f"{key}.mask.band: {quality.band!r} of {file.path} is {dtype.name}, and a quality band holds"
                " whole numbers; name one that does"
            )
        if quality.bits and max(quality.bits) >= 8 * dtype.itemsize:
            raise SourceError(
                f"{key}.mask.bits: {max(quality.bits)} is beyond the {8 * dtype.itemsize} bits of"
                f" {quality.band!r} in {file.path}; bits count from 0"
            )
