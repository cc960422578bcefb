"""A set drawn from numbers: shapes on noisy ground, with class and mask; any size, nothing to download."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.dtypes import DTYPES, DType
from patchbeam.data.order import check_seed, hash_of
from patchbeam.errors import JobError

SHAPES = ("disc", "ring", "square", "cross")
"""Names of the classes; a label is the position in it."""


class GeneratedShapes(Database):
    """Pictures of one shape each: ``image`` uint8 ``(3, S, S)``, ``mask`` uint8 ``(S, S)`` in {0, 1},
    ``label`` int32. Every item is a pure function of seed and number.

    Attributes:
        dtypes: a mask takes one bit, a label two.
    """

    dtypes: ClassVar[Mapping[str, DType]] = {"mask": DTYPES["uint1"], "label": DTYPES["uint2"]}

    def __init__(self, count: int, *, size: int = 32, seed: int = 0) -> None:
        """Draws nothing yet.

        Args:
            count: number of items.
            size: rows and columns, at least 8.
            seed: from 0 to 2**64 - 1.
        """
        if count < 0 or size < 8:
            raise JobError(
                f"generated: count {count}, size {size}; give a count of at least 0 and a size of at least 8"
            )
        self._count = count
        self._size = size
        self._seed = check_seed(seed)

    @property
    def modalities(self) -> tuple[str, ...]:
        """``image``, ``mask`` and ``label``."""
        return ("image", "mask", "label")

    @property
    def specs(self) -> Mapping[str, Spec]:
        """What they are."""
        side = self._size
        return {
            "image": Spec(shape=(3, side, side), dtype="uint8", layout="CHW"),
            "mask": Spec(shape=(side, side), dtype="uint8", layout="HW"),
            "label": Spec(shape=(), dtype="int32"),
        }

    def __len__(self) -> int:
        return self._count

    def load(self, index: int) -> Item:
        """Draws an item."""
        rng = np.random.Generator(np.random.PCG64(hash_of(self._seed, index)))
        label = int(rng.integers(len(SHAPES)))
        side = self._size
        radius = rng.uniform(side / 6, side / 3)
        middle = rng.uniform(radius, side - radius, 2)
        rows, cols = np.ogrid[:side, :side]
        y, x = np.abs(rows + 0.5 - middle[0]), np.abs(cols + 0.5 - middle[1])
        away = np.hypot(y, x)
        mask = {
            "disc": away <= radius,
            "ring": (away <= radius) & (away >= radius / 2),
            "square": np.maximum(y, x) <= radius * 0.9,
            "cross": (np.maximum(y, x) <= radius) & (np.minimum(y, x) <= radius / 3),
        }[SHAPES[label]]
        colours = rng.integers(40, 216, (2, 3, 1, 1))
        image = np.where(mask, colours[0], colours[1]) + rng.integers(-30, 31, (3, side, side))
        return image.clip(0, 255).astype(np.uint8), mask.astype(np.uint8), np.int32(label)

    @property
    def fingerprint(self) -> str:
        """A digest of the arguments."""
        return digest("generated", self._count, self._size, self._seed)
