"""The binary versions of CIFAR-10 and CIFAR-100: records of labels and three planes of 32 × 32 pixels."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.errors import DataError

IMAGE_SHAPE = (3, 32, 32)
IMAGE_BYTES = 3 * 32 * 32


def records_of(data: bytes | NDArray[np.uint8], labels: int) -> NDArray[np.uint8]:
    """Returns the records, ``(record, labels + 3072)``.

    Args:
        data: a whole file.
        labels: bytes of labels before each image: 1 in CIFAR-10, 2 in CIFAR-100 (coarse, fine).

    Raises:
        DataError: the file is no whole number of records.
    """
    raw = np.frombuffer(data, np.uint8)
    size = labels + IMAGE_BYTES
    if not raw.size or raw.size % size:
        raise DataError(f"{raw.size} bytes are no whole number of records of {size} bytes")
    return raw.reshape(-1, size)


def load_cifar10(file: BinaryIO, *, part: str = "image") -> NDArray[np.uint8]:
    """Returns the images ``(record, channel, row, col)`` or with ``part="label"`` the labels of a file."""
    return _part(records_of(file.read(), 1), 1, part, ("label",))


def load_cifar100(file: BinaryIO, *, part: str = "image") -> NDArray[np.uint8]:
    """Returns the images, or with ``part`` ``coarse`` or ``fine`` the labels of a file."""
    return _part(records_of(file.read(), 2), 2, part, ("coarse", "fine"))


def _part(records: NDArray[np.uint8], labels: int, part: str, names: tuple[str, ...]) -> NDArray[np.uint8]:
    if part == "image":
        return records[:, labels:].reshape(-1, *IMAGE_SHAPE)
    if part not in names:
        raise DataError(f"part: {part!r} is none of image, {', '.join(names)}")
    return records[:, names.index(part)].copy()
