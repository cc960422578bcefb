"""What items and batches of labelled sets are, and how raw pixels become numbers to train on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchbeam.data.collate import collate
from patchbeam.data.errors import DataError
from patchbeam.data.memory import MEMORY
from patchbeam.data.provider import Layout
from patchbeam.errors import JobError

Normalization = tuple[tuple[float, ...], tuple[float, ...]]
"""A mean and a standard deviation for each channel, of values from 0 to 1."""


@runtime_checkable
class Collatable(Protocol):
    """A type of values that knows how several of them become a batch."""

    @classmethod
    def collate(cls, values: list[Self]) -> Any:
        """Returns the batch."""


class _Pair(NamedTuple):
    data: Any
    label: Any


class LabeledData(_Pair):
    """A datum and its label, or a batch of both; unpacks as a pair.

    Attributes:
        data: the datum.
        label: what it is.
    """

    __slots__ = ()

    @classmethod
    def collate(cls, values: Sequence[tuple[Any, Any]]) -> Self:
        """Stacks data and labels.

        Raises:
            DataError: they differ in shape or type.
        """
        return cls(*collate([tuple(value) for value in values], names=cls.names))

    names: ClassVar[tuple[str, str]] = ("data", "label")


class LabeledImage(LabeledData):
    """An image, or a batch of images, and the class of each (int32)."""

    __slots__ = ()
    names = ("image", "label")

    @property
    def image(self) -> Any:
        """The image: ``data``."""
        return self.data


class SegmentedImage(LabeledData):
    """An image, or a batch of images, and the class of every pixel (int32)."""

    __slots__ = ()
    names = ("image", "mask")

    @property
    def image(self) -> Any:
        """The image: ``data``."""
        return self.data

    @property
    def mask(self) -> Any:
        """The class of every pixel: ``label``."""
        return self.label


@lru_cache(maxsize=64)
def _columns(
    mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if len(mean) != len(std) or not mean or not all(deviation > 0 for deviation in std):
        raise JobError(
            f"normalize: {list(mean)} and {list(std)}; give as many means as standard deviations, these "
            f"above 0"
        )
    columns = tuple(np.array(values, np.float32).reshape(-1, 1, 1) for values in (mean, std))
    for column in columns:
        column.setflags(write=False)
    return columns[0], columns[1]


def scaled_images(
    images: NDArray[Any],
    normalization: Normalization | None = None,
    *,
    layout: Layout = "NHWC",
    divisor: float = 255,
) -> NDArray[np.float32]:
    """Returns ``(x / divisor − mean) / deviation`` as float32, every step in float32.

    Args:
        images: ``(image, channel, row, col)`` of any number type.
        normalization: means and deviations, one a channel or one for all; ``None`` divides only.
        layout: of the result.
        divisor: 255 for uint8; 1 leaves values as they are.

    Raises:
        DataError: the images have not four axes, or other channels than the normalisation.
    """
    if images.ndim != 4:
        raise DataError(f"images of shape {images.shape}; (image, channel, row, col) is due")
    found: NDArray[np.float32] = MEMORY.empty(images.shape, np.float32)
    if divisor == 1:
        found[...] = images
    else:
        np.divide(images, np.float32(divisor), out=found, dtype=np.float32, casting="same_kind")
    if normalization is not None:
        mean, std = _columns(*normalization)
        if len(mean) not in (1, images.shape[1]):
            raise DataError(f"{images.shape[1]} channels, and {len(mean)} means to normalise them with")
        np.subtract(found, mean, out=found)
        np.divide(found, std, out=found)
    if layout == "NCHW":
        return found
    moved = MEMORY.empty((images.shape[0], *images.shape[2:], images.shape[1]), np.float32)
    np.copyto(moved, np.moveaxis(found, 1, 3))
    return moved


def make_batch(
    images: NDArray[Any],
    labels: ArrayLike,
    normalization: Normalization | None = None,
    *,
    layout: Layout = "NHWC",
) -> LabeledImage:
    """Returns a batch to train on.

    Args:
        images: uint8 ``(image, channel, row, col)``.
        labels: a class an image.
        normalization: means and deviations a channel, of values from 0 to 1.
        layout: of the images in the batch.

    Returns:
        float32 images, ``(x / 255 − mean) / deviation``, and int32 labels.

    Raises:
        DataError: there are not as many labels as images, or channels and normalisation differ.
    """
    found = np.asarray(labels).astype(np.int32)
    if found.shape[:1] != images.shape[:1]:
        raise DataError(f"{found.shape[:1]} labels for {images.shape[:1]} images")
    return LabeledImage(scaled_images(images, normalization, layout=layout), found)
