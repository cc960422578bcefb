"""What an import does with the numbers of the records, checked as it is made."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from patchbeam.errors import JobError

Overlap = Literal["discard", "mean", "hann"]
Compress = Literal["deflate", "zstd", "none"]
TILE_SIZE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MapClass:
    """One class of a class map.

    Attributes:
        value: pixel value.
        name: what it is called.
        color: red, green, blue, and optionally alpha, 0 to 255.
    """

    value: int
    name: str | None = None
    color: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 255:
            raise JobError(f"classes: {self.value} is not between 0 and 255, where colour tables end")
        if self.color is not None and (
            len(self.color) not in (3, 4) or any(not 0 <= part <= 255 for part in self.color)
        ):
            raise JobError(
                f"classes: colour {list(self.color)} of {self.value}; give [red, green, blue], each 0 to 255"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How records become the pixels of the map.

    Attributes:
        bands: names and order of the bands; ``None``: all of them.
        depths: feature → number of channels of features ``[D, H, W]``.
        type: named type of the map; ``None``: as the manifest or the records have it.
        nodata: value of pixels without data; ``None``: as the manifest has it, NaN for float maps.
        argmax: ``()`` for none, ``None`` for all bands, else the bands among which the largest is found.
        scale: values are multiplied by it.
        offset: then added.
        clip: then values are limited to this range.
        saturate: whether values outside the type take its limit instead of being an error.
        overlap: what becomes of margins.
        mask: ``sources``, the name of a mask band in the records, or ``None``.
        tile_size: pixels of a tile's side.
        compress: of the tiles.
        classes: of a class map.
        datetime: ISO 8601 time of the map for its STAC items; ``None``: when it is made.
    """

    bands: tuple[str, ...] | None = None
    depths: Mapping[str, int] = field(default_factory=dict)
    type: str | None = None
    nodata: float | None = None
    argmax: tuple[str, ...] | None = ()
    scale: float = 1.0
    offset: float = 0.0
    clip: tuple[float, float] | None = None
    saturate: bool = False
    overlap: Overlap = "discard"
    mask: str | None = None
    tile_size: int = TILE_SIZE
    compress: Compress = "deflate"
    classes: tuple[MapClass, ...] = ()
    datetime: str | None = None

    def __post_init__(self) -> None:
        if self.tile_size <= 0 or self.tile_size % 256:
            raise JobError(f"tileSize: {self.tile_size} is not a positive multiple of 256")
        for key, number in (("scale", self.scale), ("offset", self.offset)):
            if not math.isfinite(number):
                raise JobError(f"{key}: {number} is not finite; give a number, or leave {key} out")
        if self.clip is not None and not self.clip[0] <= self.clip[1]:
            raise JobError(
                f"clip: {list(self.clip)}: the first number must not be above the second; give [least, most]"
            )
        for key, names in (("bands", self.bands), ("argmax", self.argmax)):
            twice = [name for name, count in Counter(names or ()).items() if count > 1]
            if twice:
                raise JobError(f"{key}: {twice[0]!r} stands twice; name each band once")
        if self.datetime is not None and not _is_time(self.datetime):
            raise JobError(
                f"datetime: {self.datetime!r} is no ISO 8601 time; give one such as 2024-05-06T10:30:00Z"
            )
        if self.argmax is not None and len(self.argmax) == 1:
            raise JobError(
                f"argmax: {list(self.argmax)} is one band; give two or more, or true for all bands"
            )
        values = [c.value for c in self.classes]
        if len(set(values)) != len(values):
            raise JobError(f"classes: a value stands twice: {sorted(values)}; give each once")
        for name, depth in self.depths.items():
            if depth <= 0:
                raise JobError(f"depths.{name}: {depth} is not a number of channels greater than 0")
        if self.type is not None:
            check_nodata(self.nodata, self.type)

    @property
    def takes_argmax(self) -> bool:
        """Whether the map is one band of indexes of the largest band."""
        return self.argmax != ()

    @property
    def calculates(self) -> bool:
        """Whether scale or offset makes other numbers of those in the records."""
        return self.scale != 1 or self.offset != 0


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def check_nodata(nodata: float | None, type_name: str) -> None:
    """Refuses a nodata value that the type cannot hold.

    Raises:
        JobError: naming both.
    """
    dtype = np.dtype(type_name)
    if nodata is None or dtype.kind == "f":
        return
    limits = np.iinfo(dtype)
    if nodata != nodata or nodata != int(nodata) or not limits.min <= nodata <= limits.max:
        raise JobError(
            f"nodata: {nodata:g} is no value of {type_name} ({limits.min} to {limits.max}); "
            "give one that is, or another type"
        )
