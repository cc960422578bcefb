"""The order of a shuffled epoch, and seeds in the forms that people give them; see :mod:`patchbeam.order`."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np

from patchbeam.order import MASK, Ints, check_seed, hash_of, hashes, mix, order

__all__ = [
    "FileOrder",
    "Ints",
    "Seed",
    "ShuffledOrder",
    "check_seed",
    "hash_of",
    "hashes",
    "mix",
    "order",
    "resolve_seed",
]

Seed = int | np.random.Generator | None


def resolve_seed(seed: Seed) -> int:
    """Returns a seed: the number itself, one drawn from a generator, or 64 bits of the system's."""
    if seed is None:
        return secrets.randbits(64)
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(0, MASK, dtype=np.uint64, endpoint=True))
    return check_seed(seed)


@dataclass(frozen=True, slots=True)
class FileOrder:
    """The items as they are.

    Attributes:
        count: number of items.
    """

    count: int

    def __call__(self) -> Ints:
        """Returns ``0 … count - 1``."""
        return np.arange(self.count, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class ShuffledOrder:
    """The items of one epoch, shuffled; cheap to make and to pickle, computed when called.

    Attributes:
        count: number of items.
        seed: of the run.
        epoch: from 0.
    """

    count: int
    seed: int
    epoch: int

    def __call__(self) -> Ints:
        """Returns :func:`order` of the attributes."""
        return order(self.count, self.seed, self.epoch)
