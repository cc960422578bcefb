"""What a TIFF's own directory says, read without GDAL: whether its blocks lie inside the file.

GDAL opens a file that was cut short and fails only at the first block beyond its end, maybe hours
into a job. The directory lists where every block lies, so the cut is found by comparing integers; a
directory is read in pieces of bounded size, whatever it claims about itself (TIFF 6.0, section 2;
BigTIFF design note).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import SourceError

MAX_BLOCK_BYTES = 1 << 30
"""Most bytes that one block may take once decoded; GDAL holds whole blocks in memory."""

_MAX_DIRECTORIES = 4096
_LISTED = 4
_PIECE = 1 << 20
_TYPES = {3: "u2", 4: "u4", 13: "u4", 16: "u8", 18: "u8"}
_SIZES = {
    1: 1,
    2: 1,
    3: 2,
    4: 4,
    5: 8,
    6: 1,
    7: 1,
    8: 2,
    9: 4,
    10: 8,
    11: 4,
    12: 8,
    13: 4,
    16: 8,
    17: 8,
    18: 8,
}
_REWRITE = "fetch or write the file again"


@dataclass(frozen=True, slots=True)
class _Field:
    code: int
    count: int
    offset: int
    """Byte of the file where the values begin."""


@dataclass(frozen=True, slots=True)
class TiffFacts:
    """What the directories say beyond what GDAL reports.

    Attributes:
        nodata_text: text of the GDAL_NODATA tag (42113) of the first directory, even where the value
            is out of the type's range and GDAL's callers drop it.
    """

    nodata_text: str | None


class _Tiff:
    def __init__(self, file: BinaryIO, path: str, where: str, large: bool) -> None:
        self.file, self.path, self.where, self.large = file, path, where, large
        self.size = os.fstat(file.fileno()).st_size
        self.order: Literal["little", "big"] = "little"
        self.big = False
        # directories and lists of blocks lie side by side: together they have no more bytes than the file,
        # but where they have been laid over each other to make work without end
        self.left = _LISTED * self.size

    def short(self, what: str) -> SourceError:
        return SourceError(f"{self.where}: {self.path} is cut short or damaged: {what}; {_REWRITE}")

    def bytes_at(self, offset: int, count: int, what: str) -> bytes:
        if offset + count > self.size:
            raise self.short(f"{what} lies at bytes {offset} to {offset + count} of {self.size}")
        self.left -= count
        if self.left < 0:
            raise self.short("its directories lie over each other")
        self.file.seek(offset)
        return self.file.read(count)

    def integer(self, offset: int, size: int, what: str) -> int:
        return int.from_bytes(self.bytes_at(offset, size, what), self.order)

    def read_head(self) -> int | None:
        """Returns the offset of the first directory, ``None`` when this is not a TIFF."""
        head = self.file.read(8)
        if head[:4] not in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"):
            return None
        self.order = "little" if head[:2] == b"II" else "big"
        self.prefix = "<" if self.order == "little" else ">"
        self.big = head[2:4] in (b"+\0", b"\0+")
        return self.integer(8, 8, "its header") if self.big else self.integer(4, 4, "its header")

    def directory(self, at: int) -> tuple[dict[int, _Field], int]:
        """Returns the fields by tag and the offset of the next directory."""
        what = f"the directory at byte {at}"
        wide = 8 if self.big else 4
        entries = self.integer(at, 8 if self.big else 2, what)
        at += 8 if self.big else 2
        length = 20 if self.big else 12
        raw = self.bytes_at(at, entries * length, what)
        fields = {}
        for i in range(entries):
            entry = raw[i * length : (i + 1) * length]
            tag, code = (int.from_bytes(entry[k : k + 2], self.order) for k in (0, 2))
            count = int.from_bytes(entry[4 : 4 + wide], self.order)
            bytes_ = count * _SIZES.get(code, 1)
            start = at + i * length + 4 + wide
            inline = bytes_ <= wide
            offset = start if inline else int.from_bytes(entry[4 + wide : 4 + 2 * wide], self.order)
            fields[tag] = _Field(code, count, offset)
        end = at + entries * length
        # libtiff takes a last directory without its end marker, and so do we
        return fields, self.integer(end, wide, what) if end + wide <= self.size else 0

    def values(self, field: _Field, start: int, count: int, what: str) -> NDArray[np.uint64]:
        kind = _TYPES.get(field.code)
        if kind is None:
            raise self.short(f"{what} has field type {field.code}, not an unsigned integer")
        size = _SIZES[field.code]
        raw = self.bytes_at(field.offset + start * size, count * size, what)
        return np.frombuffer(raw, f"{self.prefix}{kind}").astype(np.uint64)

    def number(self, fields: dict[int, _Field], tag: int, default: int) -> int:
        field = fields.get(tag)
        return int(self.values(field, 0, 1, f"tag {tag}")[0]) if field and field.count else default

    def check_blocks(self, fields: dict[int, _Field], number: int) -> None:
        tiled = 324 in fields
        kind = "tile" if tiled else "strip"
        offsets = fields.get(324 if tiled else 273)
        counts = fields.get(325 if tiled else 279)
        if offsets is None:
            return
        self.check_block_size(fields, tiled, kind)
        for start in range(0, offsets.count, _PIECE // 8):
            n = min(_PIECE // 8, offsets.count - start)
            begin = self.values(offsets, start, n, f"the list of {kind} offsets")
            size = np.ones(n, np.uint64)
            if counts is not None:
                have = max(0, min(n, counts.count - start))
                size[:have] = self.values(counts, start, have, f"the list of {kind} sizes")
            # an offset or a size of 0 marks a block that was never written: it reads as nodata
            written = (begin > 0) & (size > 0)
            beyond = written & ((begin >= self.size) | (size > self.size - np.minimum(begin, self.size)))
            if beyond.any():
                i = int(np.argmax(beyond))
                raise self.short(
                    f"{kind} {start + i} of {offsets.count} of directory {number} lies at bytes"
                    f" {int(begin[i])} to {int(begin[i]) + int(size[i])}, and the file has {self.size}"
                )

    def check_block_size(self, fields: dict[int, _Field], tiled: bool, kind: str) -> None:
        width, height = self.number(fields, 256, 0), self.number(fields, 257, 0)
        block_width = self.number(fields, 322, width) if tiled else width
        block_height = (
            self.number(fields, 323, height) if tiled else min(height, self.number(fields, 278, height))
        )
        samples = self.number(fields, 277, 1) if self.number(fields, 284, 1) == 1 else 1
        # uncompressed strips are read line by line, so that only a line has to be held
        if not tiled and self.number(fields, 259, 1) == 1:
            block_height = 1
        size = block_width * block_height * samples * self.number(fields, 258, 1) // 8
        if size > MAX_BLOCK_BYTES and not self.large:
            raise SourceError(
                f"{self.where}: {self.path}: one {kind} of {block_width} x {block_height} pixels takes {size}"
                f" bytes once decoded, more than the {MAX_BLOCK_BYTES} that are allowed; write the file again"
                " in small tiles (gdal_translate -co TILED=YES)"
            )


def check_tiff(path: str, where: str, *, large: bool = False) -> TiffFacts | None:
    """Checks that every block of a local TIFF lies inside the file.

    Args:
        path: a local file.
        where: the key of the job file that names it, for the message.
        large: whether blocks may be of any size.

    Returns:
        What else the directories say; ``None`` when the file is not a TIFF.

    Raises:
        SourceError: a directory or a block lies beyond the end of the file, or a block would take more
            than :data:`MAX_BLOCK_BYTES` once decoded.
    """
    with open(path, "rb") as file:
        tiff = _Tiff(file, path, where, large)
        at = tiff.read_head()
        if at is None:
            return None
        nodata: str | None = None
        seen: set[int] = set()
        while at and at not in seen and len(seen) < _MAX_DIRECTORIES:
            seen.add(at)
            fields, at_next = tiff.directory(at)
            if len(seen) == 1 and (text := fields.get(42113)) and text.count < 1024:
                nodata = (
                    tiff.bytes_at(text.offset, text.count, "tag 42113")
                    .rstrip(b"\0 ")
                    .decode("ascii", "replace")
                )
            tiff.check_blocks(fields, len(seen))
            at = at_next
        return TiffFacts(nodata)
