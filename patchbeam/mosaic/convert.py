"""Numbers of records to pixels of the map: argmax, then scale and offset, clip, cast; in that order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import EncodeError
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.schema import RecordSchema

Array = NDArray[Any]
Mask = NDArray[np.bool_]
PatchAt = Callable[[int, int], int]
"""(row, col) in the arrays → index of the patch, for errors."""


class Converter:
    """Casts the bands of some pixels into the map's array. Threads may share one.

    NaN counts as no data: it becomes ``nodata``, and in an argmax a NaN band never wins.

    Args:
        schema: what the records hold and the map is to hold.
        options: of the import.
    """

    def __init__(self, schema: RecordSchema, options: ImportOptions) -> None:
        self._schema = schema
        self._options = options
        self.dtype = np.dtype(schema.type)
        self.nodata = schema.nodata
        self._plain = not options.calculates and options.clip is None
        most = max(abs(n) for n in (options.scale, options.offset, *(options.clip or ())) if np.isfinite(n))
        self._narrow = self.dtype != np.float64 and most <= float(np.finfo(np.float32).max)

    def convert(self, bands: Sequence[Array], valid: Mask | None, out: Array, patch_at: PatchAt) -> None:
        """Fills ``out``.

        Args:
            bands: one ``(row, col)`` an input band.
            valid: ``(row, col)``, false where there is no data; what bands hold there is passed over.
            out: ``(band, row, col)`` of the map's type, changed in place.
            patch_at: which patch a pixel belongs to.

        Raises:
            EncodeError: a value outside the type, or NaN without a nodata value in an integer map;
                names band, value and patch.
        """
        if valid is not None and valid.all():
            valid = None
        if self._options.takes_argmax:
            largest, valid = self._argmax(bands, valid, patch_at)
            bands = [largest]
        for name, values, target in zip(self._schema.names, bands, out, strict=True):
            self._band(name, values, valid, target, patch_at)

    def fill_value(self) -> float:
        """Returns the number of pixels without data; 0 where there is no nodata value and none is needed."""
        return 0 if self.nodata is None else self.nodata

    def _argmax(
        self, bands: Sequence[Array], valid: Mask | None, patch_at: PatchAt
    ) -> tuple[Array, Mask | None]:
        index, highest = largest(bands)
        # the maximum of numbers is NaN when one of them is
        if highest.dtype.kind == "f" and highest.size and np.isnan(highest.min()):
            missing = [np.isnan(band) for band in bands]
            index, _ = largest([np.where(no, -np.inf, b) for no, b in zip(missing, bands, strict=True)])
            nothing = np.logical_and.reduce(missing)
            if nothing.any():
                some = ~nothing
                if valid is not None:
                    nothing &= valid
                if self.nodata is None and nothing.any():
                    row, col = (int(n) for n in np.argwhere(nothing)[0])
                    raise EncodeError(
                        f"argmax, patch {patch_at(row, col)}: every band is NaN at one pixel or more, "
                        "which is no class; give nodata"
                    )
                valid = some if valid is None else valid & some
        return index, valid

    def _band(self, name: str, values: Array, valid: Mask | None, target: Array, patch_at: PatchAt) -> None:
        if valid is not None:
            if self.nodata is None:
                row, col = (int(n) for n in np.argwhere(~valid)[0])
                raise EncodeError(
                    f"band {name}, patch {patch_at(row, col)}: pixels are masked and the map has no nodata "
                    "value; give nodata"
                )
            values = np.where(valid, values, values.dtype.type(0))
        if not self._plain:
            values = self._scaled(values)
        missing: Mask | None = None
        if values.dtype.kind == "f":
            values, missing = self._without_nan(name, values, patch_at)
        if self.dtype.kind == "f":
            self._to_float(name, values, target, patch_at)
        else:
            self._to_integer(name, values, target, patch_at)
        if missing is not None and self.nodata is not None:
            target[missing] = self.nodata
        if valid is not None:
            target[~valid] = self.nodata

    def _scaled(self, values: Array) -> Array:
        if self._narrow and values.dtype == np.float32:
            with np.errstate(over="ignore"):
                scaled = self._calculated(values)
            if not (np.isinf(scaled) & np.isfinite(values)).any():
                return scaled
        # in double what float32 cannot hold is still a number, which is refused or saturated by name
        return self._calculated(values.astype(np.float64))

    def _calculated(self, values: Array) -> Array:
        options, kind = self._options, values.dtype.type
        if options.scale != 1:
            values = values * kind(options.scale)
        if options.offset != 0:
            values = values + kind(options.offset)
        if options.clip is not None:
            values = np.clip(values, kind(options.clip[0]), kind(options.clip[1]))
        return values

    def _without_nan(self, name: str, values: Array, patch_at: PatchAt) -> tuple[Array, Mask | None]:
        keeps_nan = self.dtype.kind == "f" and (self.nodata is None or self.nodata != self.nodata)
        # the minimum is NaN when any number is, and costs no array
        if keeps_nan or not values.size or not np.isnan(values.min()):
            return values, None
        missing = np.isnan(values)
        if self.nodata is None:
            row, col = (int(n) for n in np.argwhere(missing)[0])
            raise EncodeError(
                f"band {name}, patch {patch_at(row, col)}: NaN cannot be held by {self.dtype}; give nodata "
                "or a float type"
            )
        return np.where(missing, values.dtype.type(0), values), missing

    def _to_float(self, name: str, values: Array, target: Array, patch_at: PatchAt) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            target[...] = values
        if values.dtype == np.float64 and self.dtype == np.float32:
            beyond = np.isinf(target) & np.isfinite(values)
            if beyond.any():
                if self._options.saturate:
                    limit = np.finfo(np.float32).max
                    target[beyond] = np.where(values[beyond] > 0, limit, -limit)
                else:
                    self._refuse(name, values, beyond, patch_at)

    def _to_integer(self, name: str, values: Array, target: Array, patch_at: PatchAt) -> None:
        if not values.size or values.dtype == self.dtype:
            target[...] = values  # whatever they are, they fit
            return
        if values.dtype.kind == "f":
            values = np.rint(values)  # half to even
        limits = np.iinfo(self.dtype)
        low, high = values.min(), values.max()
        if values.dtype.kind == "f":
            # 2**63 - 1 is no float: compare with the power of two above it
            fits = float(low) >= limits.min and float(high) < float(limits.max) + 1
        else:
            fits = int(low) >= limits.min and int(high) <= limits.max
        if not fits:
            outside = _outside(values, limits)
            if not self._options.saturate:
                self._refuse(name, values, outside, patch_at)
            above = outside & (values > 0)
            inside = np.where(outside, values.dtype.type(0), values).astype(self.dtype)
            inside[above] = limits.max
            inside[outside & ~above] = limits.min
            values = inside
        target[...] = values

    def _refuse(self, name: str, values: Array, outside: Mask, patch_at: PatchAt) -> None:
        row, col = (int(n) for n in np.argwhere(outside)[0])
        limits = f"{self.dtype}"
        if self.dtype.kind != "f":
            info = np.iinfo(self.dtype)
            limits += f" ({info.min} to {info.max})"
        raise EncodeError(
            f"band {name}, patch {patch_at(row, col)}: {values[row, col]} is outside of {limits}; choose a "
            "larger type, scale or clip, or set saturate: true"
        )


def largest(bands: Sequence[Array]) -> tuple[Array, Array]:
    """Finds the largest of several bands at each pixel; of equal ones the first.

    Band after band, each in the order in which it lies: an argmax across arrays hops between them.

    Args:
        bands: two or more ``(row, col)``, without NaN.

    Returns:
        Its place among the bands, uint8 (int64 of more than 256 bands), and its value; where a band is
        NaN, the value is NaN and the place means nothing.
    """
    common = np.result_type(*bands)
    first, second, *more = (band.astype(common, copy=False) for band in bands)
    kind = np.uint8 if len(bands) <= 256 else np.int64
    above = np.greater(second, first)
    index, highest = above.astype(kind), np.maximum(first, second)
    for i, band in enumerate(more, 2):
        np.greater(band, highest, out=above)
        # a later band has the larger number
        np.maximum(index, np.multiply(above, kind(i), dtype=kind), out=index)
        np.maximum(highest, band, out=highest)
    return index, highest


def _outside(values: Array, limits: Any) -> Mask:
    if values.dtype.kind == "f":
        return np.asarray((values < float(limits.min)) | (values >= float(limits.max) + 1))
    wide = values.astype(object) if values.dtype == np.uint64 else values
    return np.asarray((wide < limits.min) | (wide > limits.max), np.bool_)
