"""Numbers from one type to another, with what happens to those that do not fit said beforehand."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError
from patchbeam.errors import JobError, nearest

Mode = Literal["strict", "saturate", "wrap"]


def cast(
    values: ArrayLike, dtype: DType | str | np.dtype[Any], mode: Mode = "strict", *, where: str = ""
) -> NDArray[Any]:
    """Returns values in another type; fractions are rounded to whole numbers, halves to even.

    Args:
        values: numbers or booleans, any shape.
        dtype: the type, or its name.
        mode: ``strict`` refuses what does not fit, infinities and NaN. ``saturate`` takes the nearest
            value of the type; NaN becomes 0 in an integer type and stays in a float. ``wrap`` keeps
            the low bits of whole numbers, with 0 for infinities and NaN; floats go as IEEE 754 says.
        where: what the values are, to begin messages with.

    Returns:
        The type's NumPy container, same shape; never a view of ``values``.

    Raises:
        DataError: in ``strict`` mode; names the first value that does not fit and its index.
        JobError: there is no such type or mode.
    """
    kind = DType.of(dtype)
    if mode not in get_args(Mode):
        raise JobError(
            f"mode: {mode!r} is none of {', '.join(get_args(Mode))}{nearest(str(mode), get_args(Mode))}"
        )
    given = np.asarray(values)
    if given.dtype.kind == "b":
        given = given.view(np.uint8)
    if given.dtype.kind == "O":
        given = _whole_objects(given, where)
    if given.dtype.kind not in "iuf":
        raise DataError(f"{_place(where)}{given.dtype} is not a type of numbers")
    if given.dtype.itemsize > 8:
        given = given.astype(np.float64)
    return (
        _to_float(given, kind, mode, where) if kind.kind == "float" else _to_whole(given, kind, mode, where)
    )


def _to_float(given: NDArray[Any], kind: DType, mode: Mode, where: str) -> NDArray[Any]:
    with np.errstate(over="ignore", invalid="ignore"):
        made = given.astype(kind.container)
        if mode == "wrap" or not made.size:
            return made
        if np.isfinite(made.min()) and np.isfinite(made.max()):  # NaN would be both
            return made
        if mode == "strict":
            raise _misfit(given, ~np.isfinite(made), kind, where)
        clipped: NDArray[Any] = np.clip(made, kind.container.type(kind.low), kind.container.type(kind.high))
        return clipped


def _to_whole(given: NDArray[Any], kind: DType, mode: Mode, where: str) -> NDArray[Any]:
    if given.dtype.kind == "f":
        return _float_to_whole(given, kind, mode, where)
    if mode == "wrap":
        return _low_bits(given.astype(kind.container), kind)
    limits = np.iinfo(given.dtype)
    low, high = max(int(kind.low), int(limits.min)), min(int(kind.high), int(limits.max))
    if (low, high) != (limits.min, limits.max) and given.size:
        least, greatest = int(given.min()), int(given.max())
        if least < low or greatest > high:
            if mode == "strict":
                raise _misfit(given, (given < low) | (given > high), kind, where)
            given = np.clip(given, given.dtype.type(low), given.dtype.type(high))
    return given.astype(kind.container)


def _float_to_whole(given: NDArray[Any], kind: DType, mode: Mode, where: str) -> NDArray[Any]:
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.rint(given.astype(np.float64))
        # the largest value itself may not be a float64; one more is a power of two and always is
        low, end = float(kind.low), float(int(kind.high) + 1)
        fits = (whole >= low) & (whole < end)
        if fits.all():
            return _exact(whole, kind)
        if mode == "strict":
            raise _misfit(given, ~fits, kind, where)
        if mode == "saturate":
            made = _exact(np.where(fits, whole, 0), kind)
            made[whole >= end] = kind.high
            made[whole < low] = kind.low
            return made
        finite = np.where(np.isfinite(whole), whole, 0)
        # fmod and multiples of powers of two are exact, so the low 64 bits are those of the number
        rest = np.fmod(finite, 2.0**64)
        bits = _bits64(np.abs(rest))
        bits = np.where(rest < 0, ~bits + np.uint64(1), bits)
        return _low_bits(bits.astype(kind.container), kind)


def _exact(whole: NDArray[Any], kind: DType) -> NDArray[Any]:
    if kind.kind == "uint" and kind.bits == 64:
        return _bits64(whole)
    return whole.astype(np.int64).astype(kind.container)


def _bits64(whole: NDArray[Any]) -> NDArray[np.uint64]:
    """Whole numbers from 0 below 2**64; a conversion past int64 differs between processors."""
    upper = whole >= 2.0**63
    lower = np.where(upper, whole - 2.0**63, whole).astype(np.int64).astype(np.uint64)
    found: NDArray[np.uint64] = lower | (upper.astype(np.uint64) << np.uint64(63))
    return found


def _low_bits(made: NDArray[Any], kind: DType) -> NDArray[Any]:
    """Keeps the low bits of a byte, with the sign that they then have."""
    if kind.bits >= 8:
        return made
    bits = made.view(np.uint8) & np.uint8((1 << kind.bits) - 1)
    if kind.kind == "uint":
        return bits
    sign = np.uint8(1 << (kind.bits - 1))
    return ((bits ^ sign) - sign).view(np.int8)


def _whole_objects(given: NDArray[Any], where: str) -> NDArray[Any]:
    """Python's integers beyond 64 bits: taken as floats, which have the range and say "too large"."""
    try:
        return given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"{_place(where)}an array of Python objects; give numbers") from None


def _misfit(given: NDArray[Any], wrong: NDArray[np.bool_], kind: DType, where: str) -> DataError:
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if given.ndim else ()
    value = given[at].item()
    place = "" if not at else f" at index {at[0] if len(at) == 1 else at}"
    count = int(np.count_nonzero(wrong))
    more = "" if count == 1 else f", and {count - 1} more"
    return DataError(
        f"{_place(where)}{value!r}{place} is not a {kind} (from {kind.low} to {kind.high}){more}; choose a "
        "wider type, or mode saturate or wrap"
    )


def _place(where: str) -> str:
    return f"{where}: " if where else ""
