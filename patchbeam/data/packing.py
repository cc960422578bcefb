"""Numbers packed to their bits, and back.

Dense: a little-endian bit stream in C order, value i at the bits [i·b, (i+1)·b), the tail filled with
zeros. Slots, for 1 to 4 bits: 8 // b values a byte, each in a slot of equal width, the first value in the
high bits.

No value is moved by itself. A byte's worth of values of 1, 2 or 4 bits is moved as one number. Of other
widths, eight values are b bytes: they are moved together by halves, three shifts in place of eight, and
eight such groups are shifted into b words of 64 bits.
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
_SLOTS = (1, 2, 4)


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
    out = np.empty(packed_nbytes(flat.size, kind, packing), np.uint8)
    masked = flat.view(np.uint8)
    step = _CHUNK // 8 * width
    for number, start in enumerate(range(0, flat.size, _CHUNK)):
        chunk = masked[start : start + _CHUNK]
        if kind.kind == "int":
            chunk = chunk & np.uint8((1 << kind.bits) - 1)  # the sign's bits go
        packed = _packed_slots(chunk, width, packing) if width in _SLOTS else _packed_bits(chunk, width)
        place = out[number * step : (number + 1) * step]
        place[...] = packed[: place.size]
    return out


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
    out = np.empty(total, np.uint8)
    step = _CHUNK // 8 * width
    for number, start in enumerate(range(0, total, _CHUNK)):
        chunk = out[start : start + _CHUNK]
        part = raw[number * step : (number + 1) * step]
        spread = _spread_slots(part, width, packing) if width in _SLOTS else _spread_bits(part, width)
        if width != kind.bits:
            spread &= np.uint8((1 << kind.bits) - 1)
        if kind.kind == "int":
            sign = np.uint8(1 << (kind.bits - 1))
            spread ^= sign
            spread -= sign
        chunk[...] = spread[: chunk.size]
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


def _padded(chunk: Bytes, multiple: int) -> Bytes:
    """The same bytes with zeros up to a multiple; a view where there is nothing to add."""
    missing = -chunk.size % multiple
    return np.concatenate([chunk, np.zeros(missing, np.uint8)]) if missing else chunk


def _shifts(width: int, packing: str) -> list[int]:
    """How far each value of a byte moves down from a byte of its own to its place."""
    count = 8 // width
    places = [(i if packing == "dense" else count - 1 - i) * width for i in range(count)]
    return [8 * i - place for i, place in enumerate(places)]


def _packed_slots(chunk: Bytes, width: int, packing: str) -> Bytes:
    if width == 1:
        return np.packbits(chunk, bitorder="little" if packing == "dense" else "big")
    count = 8 // width
    words = _padded(chunk, count).view(f"<u{count}")
    out = np.zeros_like(words)
    # of each shifted word only what falls into the lowest byte stays, and that is one value
    for shift in _shifts(width, packing):
        out |= words >> words.dtype.type(shift) if shift >= 0 else words << words.dtype.type(-shift)
    return out.astype(np.uint8)


def _spread_slots(raw: Bytes, width: int, packing: str) -> Bytes:
    if width == 1:
        return np.unpackbits(raw, bitorder="little" if packing == "dense" else "big")
    count = 8 // width
    words = raw.astype(f"<u{count}")
    out = np.zeros_like(words)
    for shift in _shifts(width, packing):
        out |= words << words.dtype.type(shift) if shift >= 0 else words >> words.dtype.type(-shift)
    spread = out.view(np.uint8)
    spread &= np.uint8((1 << width) - 1)
    return spread


def _packed_bits(chunk: Bytes, width: int) -> Bytes:
    words = _padded(chunk, 64).view("<u8").copy()
    spare = np.empty_like(words)
    # lanes of one value become lanes of two, of four, of eight
    for values, lane in ((1, 8), (2, 16), (4, 32)):
        held = values * width
        low = _lanes(held, 2 * lane)
        np.right_shift(words, np.uint64(lane - held), out=spare)
        spare &= low << np.uint64(held)
        words &= low
        words |= spare
    groups = words.reshape(-1, 8)
    out = np.zeros((len(groups), width), "<u8")
    for i in range(8):
        word, shift = divmod(i * 8 * width, 64)
        out[:, word] |= groups[:, i] << np.uint64(shift)
        if shift + 8 * width > 64:
            out[:, word + 1] |= groups[:, i] >> np.uint64(64 - shift)
    return out.reshape(-1).view(np.uint8)


def _spread_bits(raw: Bytes, width: int) -> Bytes:
    given = _padded(raw, 8 * width).view("<u8").reshape(-1, width)
    words = np.empty((len(given), 8), "<u8")
    for i in range(8):
        word, shift = divmod(i * 8 * width, 64)
        words[:, i] = given[:, word] >> np.uint64(shift)
        if shift + 8 * width > 64:
            words[:, i] |= given[:, word + 1] << np.uint64(64 - shift)
    words &= np.uint64((1 << 8 * width) - 1)
    spare = np.empty_like(words)
    for values, lane in ((4, 32), (2, 16), (1, 8)):
        held = values * width
        low = _lanes(held, 2 * lane)
        np.left_shift(words, np.uint64(lane - held), out=spare)
        spare &= low << np.uint64(lane)
        words &= low
        words |= spare
    return words.reshape(-1).view(np.uint8)


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
