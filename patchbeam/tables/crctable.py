"""CRCs of many records that differ in a few numbers alone, from tables instead of one pass a record.

A CRC is linear: the CRC of two strings combined by XOR is the XOR of theirs and of that of zeros. So a
record's CRC is that of its template (all numbers 0), and for each 16 bits of its numbers an entry of a
table that depends on where they stand. Records of ten numbers take a third of the time that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from crc32c import crc32c as crc_of
from numpy.typing import NDArray

from patchbeam.records.wire import Bytes

_CHUNK = 1 << 14
_MASK_DELTA = np.uint32(0xA282EAD8)


class TemplateCrcs:
    """Masked CRC-32Cs of records made of a template and float32 numbers.

    Attributes:
        template: uint8, the data of a record whose numbers are all 0.
        places: first byte of each number in it.
    """

    def __init__(self, template: Bytes, places: Sequence[int]) -> None:
        self.template = template
        self.places = tuple(places)
        self._base = np.uint32(crc_of(template.tobytes()))
        zeros = bytearray(template.size)
        nothing = crc_of(bytes(zeros))
        self._tables: list[NDArray[np.uint32]] = []
        for place in self.places:
            for at in (place, place + 2):
                bits = []
                for bit in range(16):
                    zeros[at + bit // 8] = 1 << bit % 8
                    bits.append(crc_of(bytes(zeros)) ^ nothing)
                    zeros[at + bit // 8] = 0
                self._tables.append(_table(bits))

    def of(self, columns: Sequence[NDArray[np.float32]]) -> NDArray[np.uint32]:
        """Returns the masked CRC of each record.

        Args:
            columns: the numbers of each place, float32 ``(record,)``.
        """
        count = len(columns[0]) if columns else 0
        crcs = np.full(count, self._base, np.uint32)
        halves: list[NDArray[Any]] = [
            np.ascontiguousarray(column, "<f4").view("<u2").reshape(-1, 2) for column in columns
        ]
        for start in range(0, count, _CHUNK):
            part = slice(start, start + _CHUNK)
            for i, column in enumerate(halves):
                crcs[part] ^= self._tables[2 * i][column[part, 0]]
                crcs[part] ^= self._tables[2 * i + 1][column[part, 1]]
        # the mask of TFRecord; the sum wraps at 2**32, as it should
        return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + _MASK_DELTA


def _table(bits: Sequence[int]) -> NDArray[np.uint32]:
    """Returns the XOR of those of 16 values whose bit is set, for every number of 16 bits."""
    table = np.zeros(1, np.uint32)
    for bit in bits:
        table = np.concatenate([table, table ^ np.uint32(bit)])
    return table
