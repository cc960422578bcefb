"""The gzip profile ``zlib6``: one member, byte for byte as stock zlib writes it at level 6."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Protocol

import numpy as np
from isal import isal_zlib

from patchbeam.errors import PatchbeamError
from patchbeam.records.crc import Buffer
from patchbeam.records.parse import as_view

_HEADER = b"\x1f\x8b\x08" + bytes(6) + b"\xff"


class Target(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Takes bytes."""


class Zlib6Writer:
    """Writes one gzip member as the service does: no name, no time, OS 255, zlib level 6.

    What is written depends on the whole content alone, not on how it is cut into writes.
    """

    def __init__(self, target: Target) -> None:
        """Writes to ``target``, which is left open.

        Raises:
            PatchbeamError: this Python's zlib writes other bytes than stock zlib.
        """
        self_test()
        self._target = target
        self._deflate = zlib.compressobj(6, zlib.DEFLATED, -15, 8, zlib.Z_DEFAULT_STRATEGY)
        self._crc = 0
        self._size = 0
        target.write(_HEADER)

    def write(self, data: Buffer) -> None:
        """Adds ``data``."""
        view = as_view(data)
        self._crc = isal_zlib.crc32(view, self._crc)
        self._size += len(view)
        self._target.write(self._deflate.compress(view))

    def close(self) -> None:
        """Writes the end of the member."""
        self._target.write(self._deflate.flush())
        self._target.write(struct.pack("<II", self._crc, self._size & 0xFFFFFFFF))


_TESTED: list[bool] = []


def self_test(deflate: Any = zlib) -> None:
    """Refuses a zlib that deflates otherwise than stock zlib at level 6 (zlib-ng, hardware deflate).

    Args:
        deflate: the module to test, with zlib's ``compressobj``.

    Raises:
        PatchbeamError: a known input does not give the known bytes.
    """
    if deflate is zlib and _TESTED:
        return
    stream = deflate.compressobj(6, 8, -15, 8, 0)
    body = stream.compress(_test_input()) + stream.flush()
    found = (len(body), zlib.crc32(body))
    if found != _TEST_OUTPUT:
        raise PatchbeamError(
            f"this Python's zlib ({getattr(deflate, 'ZLIB_RUNTIME_VERSION', 'of unknown version')}) does not "
            f"write what stock zlib writes at level 6 (size and CRC {found}, expected {_TEST_OUTPUT}); use a "
            "Python built with stock zlib, or gzip: indexed"
        )
    if deflate is zlib:
        _TESTED.append(True)


def _test_input() -> bytes:
    # A smooth float32 image with texture, from integers alone: short and long matches, lazy ones,
    # literals, and more than two windows of it.
    at = np.arange(40_000, dtype=np.uint32)
    texture = (at * np.uint32(2654435761) >> np.uint32(27)) & np.uint32(7)
    image = (at // 200) * 3 + (at % 200) * 2 + texture
    return (image % 700).astype("<f4").tobytes()


# Size and CRC-32 of what stock zlib 1.2.13 makes of it; files of the service agree with that zlib.
_TEST_OUTPUT = (21_078, 716_371_644)
