"""The order of an epoch: a permutation, frozen, uniform, without aliases."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.data import order
from patchbeam.data.order import hash_of, hashes, mix, resolve_seed
from patchbeam.errors import JobError
from patchbeam.order import first_in_order

GOLDEN = json.loads(Path(__file__).with_name("golden_order.json").read_text())
SEEDS = st.integers(0, 2**64 - 1)


def plain_mix(value: int) -> int:
    mask = (1 << 64) - 1
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


def plain_order(n: int, seed: int, epoch: int) -> list[int]:
    """The same, number by number, as the documentation says it."""
    golden, mask = 0x9E3779B97F4A7C15, (1 << 64) - 1
    key = 0
    for number in (seed, epoch):
        key = plain_mix((key + golden + number) & mask)
    return sorted(range(n), key=lambda i: plain_mix(plain_mix(((i + 1) * golden) & mask) ^ key))


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['n']}-{c['seed']}-{c['epoch']}")
def test_golden_vectors_never_change(case: dict) -> None:
    found = order(case["n"], case["seed"], case["epoch"])
    assert found.dtype == np.int64
    assert found[: len(case["order"])].tolist() == case["order"]


@given(st.integers(0, 300), SEEDS, st.integers(0, 10**9))
def test_is_a_permutation_and_a_pure_function(n: int, seed: int, epoch: int) -> None:
    found = order(n, seed, epoch)
    assert sorted(found.tolist()) == list(range(n))
    assert found.tolist() == order(n, seed, epoch).tolist() == plain_order(n, seed, epoch)


@given(st.integers(0, 300), SEEDS, st.integers(0, 10**9), st.integers(0, 310), st.data())
def test_the_first_are_those_of_the_order(
    n: int, seed: int, epoch: int, wanted: int, data: st.DataObject
) -> None:
    free = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    whole = order(n, seed, epoch)
    assert first_in_order(n, seed, epoch, wanted).tolist() == sorted(whole[:wanted].tolist())
    assert first_in_order(n, seed, epoch, wanted, free).tolist() == sorted(
        whole[free[whole]][:wanted].tolist()
    )


@given(SEEDS, st.integers(0, 1000), SEEDS, st.integers(0, 1000))
def test_seed_and_epoch_do_not_alias(seed: int, epoch: int, other: int, later: int) -> None:
    if (seed, epoch) != (other, later):
        assert order(50, seed, epoch).tolist() != order(50, other, later).tolist()


def test_the_case_that_sums_would_alias() -> None:
    assert order(10, 1, 1).tolist() != order(10, 2, 0).tolist()
    assert order(10, 1, 2).tolist() != order(10, 2, 1).tolist()
    assert hash_of(1, 1) != hash_of(2, 0)


def test_hashes_of_an_epoch_all_differ() -> None:
    assert len(np.unique(hashes(200_000, hash_of(3, 4)))) == 200_000


def test_mix_is_splitmix64() -> None:
    # first outputs of SplitMix64 from state 0, published with the generator
    golden = 0x9E3779B97F4A7C15
    assert [mix(golden * k) for k in (1, 2, 3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def chi_square(counts: np.ndarray) -> float:
    """How many standard deviations the statistic lies off its mean."""
    expected = counts.sum() / counts.size
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom))


def test_every_permutation_of_four_is_as_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(8):
        for epoch in range(1200):
            key = tuple(order(4, seed, epoch).tolist())
            counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 24
    assert abs(chi_square(np.array(list(counts.values())))) < 4


def test_every_item_is_as_likely_in_every_place() -> None:
    counts = np.zeros((20, 20))
    for epoch in range(4000):
        counts[np.arange(20), order(20, 7, epoch)] += 1
    # rows and columns have fixed sums: 19 × 19 degrees of freedom
    statistic = ((counts - 200) ** 2 / 200).sum()
    assert abs(statistic - 361) / np.sqrt(2 * 361) < 4


def test_consecutive_epochs_share_no_more_than_chance() -> None:
    fixed = [int((order(1000, 5, k) == order(1000, 5, k + 1)).sum()) for k in range(200)]
    assert 0.7 < np.mean(fixed) < 1.3  # as of two independent permutations: one on average


def test_seeds() -> None:
    assert resolve_seed(5) == 5
    assert resolve_seed(np.random.default_rng(1)) == resolve_seed(np.random.default_rng(1))
    assert resolve_seed(None) != resolve_seed(None)
    for bad in (-1, 2**64, 1.5, True, "1"):
        with pytest.raises(JobError, match=r"seed"):
            resolve_seed(bad)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"negative"):
        order(-1, 0, 0)
