"""Numbers packed to their bits, and back.

Dense: a little-endian bit stream in C order, value i at the bits [i·b, (i+1)·b), the tail filled with
zeros. Slots, for 1 to 4 bits: 8 // b values a byte, each in a slot of equal width, the first value in the
high bits.

Eight values of b bits are b bytes, whatever b is. So values are taken eight at a time as one 64-bit
number, whose bits are moved together by halves: three shifts in place of eight.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchbeam.data.cast import Mode, cast
from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError
from patchbeam.errors import JobError

Packing = Literal["dense", "slots"]
Bytes = NDArray[np.uint8]

# Values packed at once: small enough that every step stays in the processor's cache.
_CHUNK = 1 << 16


def packed_nbytes(count: int, dtype: DType | str, packing: Packing = "dense") -> int:
    """Returns the bytes that ``count`` values take.

    Raises:
        JobError: the type has no slots, or there is no such packing.
    """
    kind = DType.of(dtype)
    if packing == "dense":
        return kind.packed_nbytes(count)
    return -(-count // (8 // _slot_bits(kind, packing)))


def pack(
    values: ArrayLike, dtype: DType | str, packing: Packing = "dense", *, mode: Mode = "strict"
) -> Bytes:
    """Packs values, in C order.

    Args:
        values: any shape.
        dtype: their type, or its name.
        packing: ``dense`` or ``slots``.
        mode: of the cast to the type.

    Returns:
        uint8 ``(packed_nbytes(count, dtype, packing),)``.

    Raises:
        DataError: a value does not fit the type.
        JobError: the type has no slots, or there is no such packing.
    """
    kind = DType.of(dtype)
    width = kind.bits if packing == "dense" else _slot_bits(kind, packing)
    given = values if isinstance(values, np.ndarray) else np.asarray(values)
    if given.dtype.kind == "b":
        given = given.view(np.uint8)
    if given.dtype != kind.container or (kind.bits < 8 and not _within(given, kind)):
        given = cast(given, kind, mode)
    flat = np.ascontiguousarray(given).reshape(-1)
    if kind.bits >= 8:
        return flat.astype(kind.container.newbyteorder("<"), copy=False).view(np.uint8).copy()
    out = np.zeros(packed_nbytes(flat.size, kind, packing), np.uint8)
    masked = flat.view(np.uint8)
    step = _CHUNK // 8 * width
    for number, start in enumerate(range(0, flat.size, _CHUNK)):
        chunk = masked[start : start + _CHUNK]
        _pack_into(out[number * step : (number + 1) * step], chunk, kind, width)
    return _REVERSED[width][out] if packing == "slots" else out


def unpack(
    data: bytes | bytearray | memoryview | Bytes,
    dtype: DType | str,
    count: int | tuple[int, ...],
    packing: Packing = "dense",
) -> NDArray[Any]:
    """Returns packed values.

    Args:
        data: what :func:`pack` has made; exactly as many bytes as the values take.
        dtype: their type, or its name.
        count: how many values there are, or their shape.
        packing: ``dense`` or ``slots``.

    Returns:
        The type's NumPy container, new in memory.

    Raises:
        DataError: there are more or fewer bytes, or the bits after the last value are not 0.
        JobError: the type has no slots, or there is no such packing.
    """
    kind = DType.of(dtype)
    shape = (count,) if isinstance(count, int | np.integer) else tuple(count)
    total = math.prod(shape)
    size = packed_nbytes(total, kind, packing)
    raw = data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
    if raw.dtype != np.uint8 or raw.size != size:
        raise DataError(f"{raw.nbytes} bytes for {total} values of {kind} ({packing}), which take {size}")
    raw = np.ascontiguousarray(raw).reshape(-1)
    if kind.bits >= 8:
        return raw.view(kind.container.newbyteorder("<")).astype(kind.container).reshape(shape)
    width = kind.bits if packing == "dense" else _slot_bits(kind, packing)
    _check_tail(raw, total, width, packing, kind)
    if packing == "slots":
        raw = _REVERSED[width][raw]
    out = np.empty(total, np.uint8)
    step = _CHUNK // 8 * width
    for number, start in enumerate(range(0, total, _CHUNK)):
        chunk = out[start : start + _CHUNK]
        _unpack_into(chunk, raw[number * step : (number + 1) * step], kind, width)
    return out.view(kind.container).reshape(shape)


def _within(given: NDArray[Any], kind: DType) -> bool:
    return not given.size or (int(given.min()) >= kind.low and int(given.max()) <= kind.high)


def _slot_bits(kind: DType, packing: str) -> int:
    if packing != "slots":
        raise JobError(f"packing: {packing!r} is neither dense nor slots")
    if kind.bits > 4:
        raise JobError(f"slots hold types of 1 to 4 bits, not {kind}; pack it densely")
    return 8 // (8 // kind.bits)


def _lanes(bits: int, lane: int) -> np.uint64:
    """The low ``bits`` of every lane of ``lane`` bits, in 64."""
    return np.uint64(sum(((1 << bits) - 1) << at for at in range(0, 64, lane)))


def _pack_into(out: Bytes, chunk: Bytes, kind: DType, width: int) -> None:
    groups = -(-chunk.size // 8)
    words = np.empty(groups, "<u8")
    words[-1:] = 0
    words.view(np.uint8)[: chunk.size] = chunk
    if kind.kind == "int":
        words &= _lanes(kind.bits, 8)  # the sign's bits go
    spare = np.empty_like(words)
    # lanes of one value become lanes of two, of four, of eight
    for values, lane in ((1, 8), (2, 16), (4, 32)):
        held = values * width
        low = _lanes(held, 2 * lane)
        np.right_shift(words, np.uint64(lane - held), out=spare)
        spare &= np.uint64(int(low) << held & (1 << 64) - 1)
        words &= low
        words |= spare
    packed = words.view(np.uint8).reshape(groups, 8)[:, :width]
    if out.size == groups * width:
        out.reshape(groups, width)[...] = packed
    else:
        whole = out.size // width
        out[: whole * width].reshape(whole, width)[...] = packed[:whole]
        out[whole * width :] = packed[whole, : out.size - whole * width]


def _unpack_into(out: Bytes, raw: Bytes, kind: DType, width: int) -> None:
    groups = -(-out.size // 8)
    words = np.zeros(groups, "<u8")
    spread = words.view(np.uint8).reshape(groups, 8)
    whole = raw.size // width
    spread[:whole, :width] = raw[: whole * width].reshape(whole, width)
    if whole < groups:
        rest = raw[whole * width :]
        spread[whole, : rest.size] = rest
    spare = np.empty_like(words)
    for values, lane in ((4, 32), (2, 16), (1, 8)):
        held = values * width
        low = _lanes(held, 2 * lane)
        np.left_shift(words, np.uint64(lane - held), out=spare)
        spare &= np.uint64(int(low) << lane & (1 << 64) - 1)
        words &= low
        words |= spare
    if width != kind.bits:
        words &= _lanes(kind.bits, 8)
    unpacked = words.view(np.uint8)[: out.size]
    if kind.kind == "int":
        sign = np.uint8(1 << (kind.bits - 1))
        unpacked ^= sign
        unpacked -= sign
    out[...] = unpacked


def _check_tail(raw: Bytes, total: int, width: int, packing: str, kind: DType) -> None:
    """Bits after the last value are 0: what is not is damaged or of another type."""
    used = total * width - 8 * (raw.size - 1)
    if not raw.size or used == 8:
        return
    last = int(raw[-1])
    tail = last >> used if packing == "dense" else last & ((1 << (8 - used)) - 1)
    if tail:
        raise DataError(
            f"byte {raw.size - 1} is {last:#04x}: bits after the last of {total} values of {kind} are not 0; "
            "the data is damaged, or of another type or number"
        )


def _reversed(width: int) -> Bytes:
    """For every byte the one with its slots in the opposite order."""
    mask = (1 << width) - 1
    count = 8 // width
    return np.array(
        [sum(((byte >> (i * width)) & mask) << ((count - 1 - i) * width) for i in range(count)) for byte in range(256)],
        np.uint8,
    )


_REVERSED = {width: _reversed(width) for width in (1, 2, 4)}
