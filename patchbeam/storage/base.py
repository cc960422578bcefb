"""What the local and the remote side of storage share: values, checksums, messages."""

from __future__ import annotations

import base64
import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from crc32c import crc32c as crc_of
from numpy.typing import NDArray

from patchbeam.errors import JobError, ReadFailed, WriteFailed

Buffer = bytes | bytearray | memoryview | NDArray[Any]
"""Contiguous bytes; arrays count as the bytes that they hold."""

CHUNK_BYTES = 8 << 20
TEMPORARY = ".patchbeam-"
"""How the names of half-written files begin; listings leave them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStat:
    """What is known of a file without reading it.

    Attributes:
        size_bytes: its length.
        modified: for a local file the time of its last change, ISO 8601 in UTC; in Cloud Storage the etag.
        crc32c: CRC-32C of the content in base64, as Cloud Storage reports it; ``None`` where it is not
            known without reading.
    """

    size_bytes: int
    modified: str
    crc32c: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRange:
    """Some consecutive bytes of a file.

    Attributes:
        path: the file.
        start: offset of the first byte.
        length: number of bytes.
    """

    path: str
    start: int
    length: int


Part = str | FileRange | tuple[str, int, int] | Buffer
"""A piece of a new file: a whole file, a range of one (path, start, length), or bytes at hand."""


_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_remote(path: str) -> bool:
    """Whether ``path`` is in Cloud Storage.

    Raises:
        JobError: the path has another scheme than ``gs://``.
    """
    scheme = _SCHEME.match(path)
    if scheme is None:
        return False
    if scheme[1].lower() != "gs":
        raise JobError(
            f"{path}: {scheme[0]} is not a place for files here; give a local path or gs://bucket/name"
        )
    return True


class Checksum:
    """CRC-32C and size of bytes as they pass."""

    __slots__ = ("crc", "size_bytes")

    def __init__(self) -> None:
        self.crc = 0
        self.size_bytes = 0

    def add(self, data: NDArray[np.uint8]) -> None:
        """Takes the next bytes."""
        self.crc = crc_of(data, self.crc)
        self.size_bytes += data.size

    def add_sum(self, crc: int, size_bytes: int) -> None:
        """Takes the next bytes, of which the checksum is known."""
        self.crc = crc32c_combine(self.crc, crc, size_bytes)
        self.size_bytes += size_bytes

    @property
    def text(self) -> str:
        """The checksum in base64."""
        return crc32c_text(self.crc)


def crc32c_text(crc: int) -> str:
    """Returns a CRC-32C as Cloud Storage writes it: base64 of its four bytes, the highest first."""
    return base64.b64encode(crc.to_bytes(4, "big")).decode("ascii")


def crc32c_number(text: str) -> int:
    """Returns the CRC-32C that :func:`crc32c_text` wrote.

    Raises:
        ValueError: ``text`` is not base64 of four bytes.
    """
    data = base64.b64decode(text, validate=True)
    if len(data) != 4:
        raise ValueError(f"{text!r} is not a CRC-32C: base64 of {len(data)} bytes, not of 4")
    return int.from_bytes(data, "big")


def as_bytes(data: Buffer) -> NDArray[np.uint8]:
    """Returns the bytes of a buffer as a flat uint8 view, without a copy."""
    if isinstance(data, np.ndarray):
        return data.reshape(-1).view(np.uint8)
    return np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)


Piece = str | FileRange | NDArray[np.uint8]
"""A :data:`Part` that has been looked at: a path, a range or bytes."""

ReadChunks = Callable[[str, int, int | None], Iterator[bytes]]
"""(path, start, length or ``None`` for the rest) to bytes: how parts from the other side are fetched."""


def checked(part: Part) -> Piece:
    """Returns a part as a path, a range or bytes.

    Raises:
        JobError: a path with a scheme that is not known.
        ValueError: a range that starts before the file or has less than no bytes.
    """
    if isinstance(part, str):
        is_remote(part)
        return part
    if isinstance(part, tuple):
        path, start, length = part
        part = FileRange(path=path, start=int(start), length=int(length))
    if not isinstance(part, FileRange):
        return as_bytes(part)
    if part.start < 0 or part.length < 0:
        raise ValueError(f"{part.path}: no range of {part.length} bytes from byte {part.start}")
    is_remote(part.path)
    return part


def reason(error: BaseException) -> str:
    """Returns what went wrong, with the name of the error number where there is one."""
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, str(error.errno))
        return f"{error.strerror or 'error'} ({name})"
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 400 else f"{text[:397]}..."


def read_failed(path: str, what: str, error: BaseException, number: int | None = None) -> ReadFailed:
    """Returns the error for a read; its ``errno`` is that of ``error``, or ``number``."""
    failure = ReadFailed(f"{path}: cannot {what}: {reason(error)}")
    failure.errno = error.errno if number is None and isinstance(error, OSError) else number
    return failure


MAKE_ROOM = "make room there, or write elsewhere, and run again"
"""What to do when the disk is full."""


def write_failed(path: str, what: str, error: BaseException, number: int | None = None) -> WriteFailed:
    """Returns the error for a write; its ``errno`` is that of ``error``, or ``number``."""
    number = error.errno if number is None and isinstance(error, OSError) else number
    full = number in (errno.ENOSPC, errno.EDQUOT)
    hint = f"; {MAKE_ROOM}" if full else ""
    failure = WriteFailed(f"{path}: cannot {what}: {reason(error)}{hint}")
    failure.errno = number
    return failure


def ended_early(part: FileRange, got: int) -> ReadFailed:
    """Returns the error for a range that reaches past the end of its file."""
    return ReadFailed(
        f"{part.path}: {part.length} bytes are wanted from byte {part.start}, but the file ends at byte "
        f"{part.start + got}; it was cut short or replaced"
    )


def slices(start: int, length: int, most: int = CHUNK_BYTES) -> Iterator[tuple[int, int]]:
    """Cuts a range into (start, length) of at most ``most`` bytes."""
    for offset in range(0, length, most):
        yield start + offset, min(most, length - offset)


# --- CRC-32C of two strings of bytes, one after the other, from the CRC of each -----------------------
# Appending a zero byte is a linear map of the 32 bits of the register; appending n zero bytes is its nth
# power. (The method of zlib's crc32_combine, with the Castagnoli polynomial.)
_POLYNOMIAL = 0x82F63B78


def _apply(matrix: list[int], bits: int) -> int:
    total = 0
    for row in matrix:
        if not bits:
            break
        if bits & 1:
            total ^= row
        bits >>= 1
    return total


def _zero_bytes() -> list[list[int]]:
    one_bit = [_POLYNOMIAL] + [1 << i for i in range(31)]
    powers = [one_bit]
    while len(powers) < 67:  # lengths of up to 2**64 bytes
        last = powers[-1]
        powers.append([_apply(last, row) for row in last])
    return powers[3:]  # from one byte on


_ZERO_BYTES = _zero_bytes()


def crc32c_combine(first: int, second: int, second_length: int) -> int:
    """Returns the CRC-32C of two strings of bytes joined, from each one's CRC and the second's length."""
    for matrix in _ZERO_BYTES:
        if not second_length:
            break
        if second_length & 1:
            first = _apply(matrix, first)
        second_length >>= 1
    return first ^ second
