"""How several files of one source become one image, band by band and pixel by pixel.

Each class takes the pixels of file after file, in the order of their claim, and holds no more than its
name says: ``first`` the result, ``mean`` a sum and a count, ``median`` every file's pixels of a tile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from patchbeam.elements import Array, Mask
from patchbeam.rasters.convert import convert
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.layers import Layers
from patchbeam.rasters.pieces import Rect


class Composite(ABC):
    """Base: the pixels of one rectangle of the grid.

    Attributes:
        layers: where the result goes; they cover ``rect``.
        rect: pixels of the grid.
        work: type in which values are compared.
    """

    bytes_per_pixel: ClassVar[int] = 0
    """What is held of a pixel of a band beside the result; 0: nothing, so that no tiles are needed."""

    def __init__(self, layers: Layers, rect: Rect, work: np.dtype[Any]) -> None:
        self.layers, self.rect, self.work = layers, rect, work
        self.met = 0

    @property
    def full(self) -> bool:
        """Whether no further file can change the result."""
        return False

    def begin(self) -> None:
        """Says that the next file begins."""
        self.met += 1

    @abstractmethod
    def add(self, file: RasterFile, at: Rect, values: Array, valid: Mask | None) -> None:
        """Takes some pixels of the file; ``valid`` is ``None`` when all are valid."""

    def finish(self) -> None:  # noqa: B027  # one that has written as it went has nothing left to do
        """Writes the result into the layers."""

    def put(self, band: int, values: Array, valid: Mask) -> None:
        """Writes one band of the result, converted to the output's type."""

        def place(row: int, col: int) -> str:
            return (
                f"band {self.layers.names[band]!r}, {self.layers.compose} of {self.met} files of source"
                f" {self.layers.source.name!r}, pixel at column {self.rect.left + col}, row"
                f" {self.rect.top + row} of the grid"
            )

        self.layers.values[band] = convert(values, valid, self.layers.values.dtype, place)
        self.layers.valid[band] = valid


class First(Composite):
    """The first valid pixel; ``last`` is the same with the files in the other order."""

    @property
    def full(self) -> bool:
        """Whether every pixel has been found."""
        return bool(self.layers.valid.all())

    def add(self, file: RasterFile, at: Rect, values: Array, valid: Mask | None) -> None:
        """Takes the valid pixels where no file with a better claim has one."""
        layers, where = self.layers, at.slices(self.rect)
        for i, (name, index) in enumerate(zip(layers.names, layers.indexes, strict=True)):
            have = layers.valid[where][i]
            if have.any():
                take = ~have if valid is None else valid[i] & ~have
            else:  # as with one file
                take = np.ones(have.shape, np.bool_) if valid is None else valid[i]
            if not take.any():
                continue

            def place(row: int, col: int, name: str = name, index: int = index) -> str:
                return (
                    f"band {name!r}, {file.path} band {index}, pixel at column {at.left + col},"
                    f" row {at.top + row} of the grid"
                )

            whole = bool(take.all())
            converted = convert(values[i], None if whole else take, layers.values.dtype, place)
            if whole:
                layers.values[where][i] = converted
            else:
                np.copyto(layers.values[where][i], converted, where=take)
            have |= take


class _Extreme(Composite):
    bytes_per_pixel: ClassVar[int] = 9
    choose: ClassVar[np.ufunc]

    def __init__(self, layers: Layers, rect: Rect, work: np.dtype[Any]) -> None:
        super().__init__(layers, rect, work)
        self.best = np.zeros(layers.values.shape, work)
        self.have = np.zeros(layers.values.shape, np.bool_)

    def add(self, file: RasterFile, at: Rect, values: Array, valid: Mask | None) -> None:
        """Keeps the smaller, or the larger, of what was and what comes."""
        where = at.slices(self.rect)
        best, have = self.best[where], self.have[where]
        values = values.astype(self.work, copy=False)
        good = np.ones(values.shape, np.bool_) if valid is None else valid
        np.copyto(best, values, where=good & ~have)
        self.choose(best, values, out=best, where=good)
        have |= good

    def finish(self) -> None:
        """Writes the extremes."""
        for band, (values, valid) in enumerate(zip(self.best, self.have, strict=True)):
            self.put(band, values, valid)


class Min(_Extreme):
    """The smallest valid value; NaN where a valid value is NaN."""

    choose = np.minimum


class Max(_Extreme):
    """The largest valid value; NaN where a valid value is NaN."""

    choose = np.maximum


class Count(Composite):
    """How many files have a valid pixel: valid everywhere, 0 where there is none."""

    bytes_per_pixel: ClassVar[int] = 4

    def __init__(self, layers: Layers, rect: Rect, work: np.dtype[Any]) -> None:
        super().__init__(layers, rect, work)
        self.count = np.zeros(layers.values.shape, np.uint32)

    def add(self, file: RasterFile, at: Rect, values: Array, valid: Mask | None) -> None:
        """Counts the valid pixels."""
        self.count[at.slices(self.rect)] += np.uint32(1) if valid is None else valid

    def finish(self) -> None:
        """Writes the counts."""
        for band, count in enumerate(self.count):
            self.put(band, count, np.ones(count.shape, np.bool_))


class Mean(Count):
    """The mean of the valid values, summed in float64 in the order of the files."""

    bytes_per_pixel: ClassVar[int] = 12

    def __init__(self, layers: Layers, rect: Rect, work: np.dtype[Any]) -> None:
        super().__init__(layers, rect, work)
        self.sum = np.zeros(layers.values.shape, np.float64)

    def add(self, file: RasterFile, at: Rect, values: Array, valid: Mask | None) -> None:
        """Adds the valid values."""
        super().add(file, at, values, valid)
        total = self.sum[at.slices(self.rect)]
        np.add(total, values, out=total, where=True if valid is None else valid)

    def finish(self) -> None:
        """Writes the means."""
        for band, (total, count) in enumerate(zip(self.sum, self.count, strict=True)):
            self.put(band, total / np.maximum(count, 1), count > 0)


class Median(Composite):
    """The median of the valid values; of an even number, the mean of the two in the middle."""

    def __init__(self, layers: Layers, rect: Rect, work: np.dtype[Any]) -> None:
        super().__init__(layers, rect, work)
        self.values: list[Array] = []
        self.valid: list[Mask] = []

    def begin(self) -> None:
        """Makes room for the next file."""
        super().begin()
        if not self.valid or self.valid[-1].any():
            self.values.append(np.empty(self.layers.values.shape, self.work))
            self.valid.append(np.zeros(self.layers.values.shape, np.bool_))

    def add(self, file: RasterFile, at: Rect, values: Array, valid: Mask | None) -> None:
        """Keeps the pixels."""
        where = at.slices(self.rect)
        self.values[-1][where] = values
        self.valid[-1][where] = True if valid is None else valid

    def finish(self) -> None:
        """Writes the medians."""
        if not self.values:
            return
        for band in range(len(self.layers.names)):
            # files last, so that each pixel's values lie side by side and are sorted in place
            stack = np.stack([values[band] for values in self.values], axis=-1)
            valid = np.stack([valid[band] for valid in self.valid], axis=-1)
            self.put(band, *median(stack, valid))


def median(values: Array, valid: Mask) -> tuple[Array, Mask]:
    """Returns the median of the valid values along the last axis, float64, and where there is one.

    Args:
        values: ``(…, file)``; masked ones are overwritten.
        valid: the same shape.
    """
    count = valid.sum(axis=-1, dtype=np.intp)
    floating = values.dtype.kind == "f"
    lost = (np.isnan(values) & valid).any(axis=-1) if floating else None
    # masked values are sorted behind all others
    np.copyto(values, np.nan if floating else np.iinfo(values.dtype).max, where=~valid)
    values.sort(axis=-1)
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    high = np.minimum(high, values.shape[-1] - 1)
    lower = np.take_along_axis(values, low[..., None], axis=-1)[..., 0].astype(np.float64)
    upper = np.take_along_axis(values, high[..., None], axis=-1)[..., 0].astype(np.float64)
    with np.errstate(invalid="ignore"):
        middle = np.where(low == high, lower, lower + (upper - lower) / 2)
    if lost is not None:
        middle[lost] = np.nan
    return middle, count > 0


COMPOSITES: dict[str, type[Composite]] = {
    "first": First,
    "last": First,
    "min": Min,
    "max": Max,
    "mean": Mean,
    "median": Median,
    "count": Count,
}
"""By the name that a job gives them."""
