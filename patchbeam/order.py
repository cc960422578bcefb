"""A frozen permutation of numbered things: a pure function of size, seed and round.

Every index gets a 64-bit hash of (hash of seed and round, index), and the indices are sorted by it. The
hash is made of SplitMix64's finaliser, a bijection, so no two indices of a round share a hash and the
sort has no ties. The permutations never change: golden vectors hold them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import JobError

Ints = NDArray[np.int64]

MASK = (1 << 64) - 1
# The odd number next to 2**64 divided by the golden ratio, and the two multipliers of SplitMix64.
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def mix(value: int) -> int:
    """Returns the SplitMix64 finaliser of a 64-bit number."""
    value &= MASK
    value = ((value ^ (value >> 30)) * _FIRST) & MASK
    value = ((value ^ (value >> 27)) * _SECOND) & MASK
    return value ^ (value >> 31)


def hash_of(*numbers: int) -> int:
    """Returns a 64-bit hash of a row of numbers; their order counts, so (1, 1) is not (2, 0)."""
    state = 0
    for number in numbers:
        state = mix(state + _GOLDEN + (number & MASK))
    return state


def hashes(count: int, key: int) -> NDArray[np.uint64]:
    """Returns a 64-bit hash of (``key``, index) for each index below ``count``; all differ."""
    state = np.arange(1, count + 1, dtype=np.uint64)
    state *= np.uint64(_GOLDEN)
    _mix_in_place(state)
    state ^= np.uint64(key)
    _mix_in_place(state)
    return state


def order(n: int, seed: int, epoch: int) -> Ints:
    """Returns the order of the items of one round.

    Args:
        n: number of items.
        seed: from 0 to 2**64 - 1.
        epoch: number of the round, from 0.

    Returns:
        int64 ``(n,)``: a permutation of ``0 … n - 1``, the same for the same arguments for ever.
    """
    return np.argsort(_round_hashes(n, seed, epoch), kind="stable").astype(np.int64, copy=False)


def first_in_order(n: int, seed: int, epoch: int, wanted: int, free: NDArray[np.bool_] | None = None) -> Ints:
    """Returns the items that come first in the order of one round, without sorting them all.

    Args:
        n: number of items.
        seed: from 0 to 2**64 - 1.
        epoch: number of the round, from 0.
        wanted: how many; all that are free where there are fewer.
        free: bool ``(n,)``, the items that may be taken; ``None`` for all.

    Returns:
        int64, rising: the first ``wanted`` of ``order(n, seed, epoch)`` that are free.
    """
    of_item = _round_hashes(n, seed, epoch)
    of_free = of_item if free is None else of_item[free]
    if wanted < len(of_free):
        # no two hashes are alike, so that exactly so many lie below the next one
        taken = of_item < np.partition(of_free, wanted)[wanted]
        return np.flatnonzero(taken if free is None else taken & free).astype(np.int64, copy=False)
    return np.flatnonzero(np.ones(n, np.bool_) if free is None else free).astype(np.int64, copy=False)


def _round_hashes(n: int, seed: int, epoch: int) -> NDArray[np.uint64]:
    if n < 0 or epoch < 0:
        raise JobError(f"order({n}, {seed}, {epoch}): size and epoch must not be negative")
    return hashes(n, hash_of(check_seed(seed), epoch))


def check_seed(seed: int) -> int:
    """Returns ``seed`` as an int.

    Raises:
        JobError: it is no whole number from 0 to 2**64 - 1.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed <= MASK:
        raise JobError(f"seed: {seed!r} is not a whole number from 0 to 2**64 - 1")
    return int(seed)


def _mix_in_place(state: NDArray[np.uint64]) -> None:
    shifted = state >> np.uint64(30)
    state ^= shifted
    state *= np.uint64(_FIRST)
    np.right_shift(state, np.uint64(27), out=shifted)
    state ^= shifted
    state *= np.uint64(_SECOND)
    np.right_shift(state, np.uint64(31), out=shifted)
    state ^= shifted
