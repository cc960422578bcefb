"""Where the data of a classic NetCDF file end, from its header alone.

Source: *NetCDF Classic Format Specification* (CDF-1, CDF-2 and CDF-5), Unidata.
"""

from __future__ import annotations

from typing import BinaryIO

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}
_STREAMING = (1 << 32) - 1


def end_of_data(file: BinaryIO, size: int) -> int:
    """Returns the byte after the last value; 0 for other files and unknown header contents.

    Args:
        file: at its beginning.
        size: of the file; a header that reaches beyond it gives ``size + 1``.
    """
    file.seek(0)
    magic = file.read(4)
    if magic[:3] != b"CDF" or magic[3:] not in (b"\1", b"\2", b"\5"):
        return 0
    try:
        return _Header(file, magic[3], size).end()
    except EOFError:
        return size + 1
    except KeyError:
        return 0


class _Header:
    def __init__(self, file: BinaryIO, version: int, size: int) -> None:
        self.file = file
        self.size = size
        self.count_bytes = 8 if version == 5 else 4
        self.offset_bytes = 4 if version == 1 else 8

    def take(self, size: int) -> bytes:
        data = self.file.read(size)
        if len(data) != size:
            raise EOFError
        return data

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def count(self) -> int:
        return self.integer(self.count_bytes)

    def skip(self, size: int) -> None:
        if size > self.size:
            raise EOFError
        self.file.seek(-(-size // 4) * 4, 1)

    def entries(self) -> int:
        """Reads the tag and the number of a list; an absent list has neither."""
        self.integer(4)
        return self.count()

    def attributes(self) -> None:
        for _ in range(self.entries()):
            self.skip(self.count())
            kind = self.integer(4)
            self.skip(self.count() * _SIZES[kind])

    def end(self) -> int:
        records = self.count()
        lengths = []
        for _ in range(self.entries()):
            self.skip(self.count())
            lengths.append(self.count())
        self.attributes()
        fixed, whole, begins = 0, [], []
        for _ in range(self.entries()):
            self.skip(self.count())
            dims = [self.count() for _ in range(self.count())]
            self.attributes()
            kind = self.integer(4)
            self.count()  # its size, which large variables overflow
            begin = self.integer(self.offset_bytes)
            shape = [lengths[d] if d < len(lengths) else 1 for d in dims]
            record = bool(shape) and shape[0] == 0
            values = _SIZES[kind]
            for length in shape[1:] if record else shape:
                values *= length
            if record:
                whole.append(values)
                begins.append(begin)
            else:
                fixed = max(fixed, begin + values)
        if not begins or records in (0, _STREAMING, (1 << 64) - 1):
            return fixed
        # one record variable alone is not padded; of several each record is, to 4 bytes
        padded = whole if len(whole) == 1 else [-(-size // 4) * 4 for size in whole]
        step = sum(padded)
        ends = [b + (records - 1) * step + size for b, size in zip(begins, whole, strict=True)]
        return max(fixed, *ends)
