"""The masked CRC-32C that TFRecord puts after every length and every payload."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from crc32c import crc32c as crc_of
from numpy.typing import NDArray

Buffer = bytes | bytearray | memoryview | NDArray[Any]
"""What holds bytes: anything with the buffer protocol that is contiguous."""

_MASK_DELTA = 0xA282EAD8


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def masked_crc(data: Buffer) -> int:
    """Returns the masked CRC-32C of ``data``: ``(crc >> 15 | crc << 17) + 0xa282ead8`` modulo 2**32.

    The mask is TFRecord's: a CRC of bytes that hold their own CRC would else be a constant.
    """
    return _mask(crc_of(data))


def masked_crc_of_parts(parts: Iterable[bytes | NDArray[Any]]) -> int:
    """Returns the masked CRC-32C of ``parts`` one after the other, without joining them."""
    crc = 0
    for part in parts:
        crc = crc_of(part, crc)
    return _mask(crc)


def masked_crcs(payloads: Iterable[bytes], count: int) -> NDArray[np.uint32]:
    """Returns the masked CRC-32C of each of ``count`` payloads, uint32 ``(count,)``.

    One call a payload and no arithmetic in Python: what many small records need.
    """
    crc = np.fromiter(map(crc_of, payloads), np.uint32, count)
    # The sum wraps at 2**32, as it should.
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(_MASK_DELTA)
