"""PNG, JPEG and whatever else Pillow reads."""

from __future__ import annotations

from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from patchbeam.data.errors import DataError
from patchbeam.data.loaders import as_gray_or_rgb

_SIXTEEN = ("I;16", "I;16B", "I;16L", "I")


def load_image(
    file: BinaryIO,
    *,
    mode: str | None = None,
    size: tuple[int, int] | None = None,
    resample: Literal["bilinear", "nearest"] = "bilinear",
) -> NDArray[Any]:
    """Returns the pixels ``(channel, row, col)``; ``(row, col)`` of images with one channel.

    Args:
        file: the image.
        mode: what to convert to: ``RGB``, ``L``. Default: palettes become their indices, else as stored.
        size: ``(height, width)`` to resize to.
        resample: how to resize.

    Raises:
        DataError: it is damaged or no image.
    """
    try:
        with Image.open(file) as opened:
            image: Image.Image = opened
            if mode is not None and image.mode != mode:
                image = image.convert(mode)
            if size is not None and image.size != (size[1], size[0]):
                image = image.resize((size[1], size[0]), Image.Resampling[resample.upper()])
            pixels = np.array(image)
            if image.mode in _SIXTEEN and pixels.dtype.kind in "iu" and pixels.size and pixels.min() >= 0:
                pixels = pixels.astype(np.uint16) if pixels.max() < 1 << 16 else pixels
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"no image that Pillow reads: {error}") from None
    return pixels if pixels.ndim == 2 else as_gray_or_rgb(pixels)
