"""Random transforms whose draws are a pure function of seed, epoch and item.

So an augmented run resumes exactly, whatever the number of threads or ranks. The epoch that is being
composed is kept in a context variable: an item asked for by itself belongs to epoch 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchbeam.data.order import hash_of

_EPOCH: ContextVar[tuple[int, int]] = ContextVar("patchbeam_epoch", default=(0, 0))


@contextmanager
def composing(seed: int, epoch: int) -> Iterator[None]:
    """Marks what runs inside as belonging to an epoch of the run with this seed."""
    token = _EPOCH.set((seed, epoch))
    try:
        yield
    finally:
        _EPOCH.reset(token)


def generator(item: int, number: int) -> np.random.Generator:
    """Returns the generator of one transform for one item in the epoch being composed."""
    seed, epoch = _EPOCH.get()
    return np.random.Generator(np.random.PCG64(hash_of(seed, epoch, item, number)))


@dataclass(frozen=True, slots=True)
class Random:
    """Marks a transform that draws: it is called with a generator before the values.

    Attributes:
        function: ``function(generator, value)``, or of a joint transform
            ``function(generator, value, value, …)``.
    """

    function: Callable[..., Any]

    def __call__(self, generator: np.random.Generator, *values: Any) -> Any:
        """Returns what the transform makes of the values."""
        return self.function(generator, *values)
