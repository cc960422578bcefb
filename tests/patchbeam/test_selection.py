"""Splits that share no pixel, draws that are exact, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from patchbeam.blocks import BlockGrid
from patchbeam.errors import JobError
from patchbeam.order import order
from patchbeam.patches import PatchGrid
from patchbeam.selection import SampleRule, SplitRule, balanced_draw, only, select_parts, split_parts
from patchbeam.splits import largest_remainder

SHARES = ((0.8, 0.1, 0.1), (0.5, 0.5), (0.34, 0.33, 0.33), (1.0,), (0.7, 0.2, 0.05, 0.05))
sizes = st.integers(1, 7)
pairs = st.tuples(sizes, sizes)
rules = st.builds(
    SplitRule,
    names=st.just(()),
    fractions=st.sampled_from(SHARES),
    block_columns_rows=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    seed=st.integers(0, 2**64 - 1),
).map(
    lambda rule: SplitRule(
        names=tuple(f"s{i}" for i in range(len(rule.fractions))),
        fractions=rule.fractions,
        block_columns_rows=rule.block_columns_rows,
        seed=rule.seed,
    )
)


@st.composite
def patch_grids(draw: st.DrawFn) -> PatchGrid:
    width, height = draw(pairs)
    columns, rows = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    return PatchGrid(
        width=columns * width,
        height=rows * height,
        patch_width_height=(width, height),
        kernel_width_height=draw(st.tuples(st.integers(1, 20), st.integers(1, 20))),
    )


def parts_of(rule: SplitRule, patches: PatchGrid) -> np.ndarray:
    columns, rows = rule.block_columns_rows
    assume(-(-patches.columns // columns) * -(-patches.rows // rows) >= len(rule.names))
    return split_parts(rule, patches)


@given(patch_grids(), rules)
def test_no_pixel_is_in_two_splits_margins_included(patches: PatchGrid, rule: SplitRule) -> None:
    parts = parts_of(rule, patches)
    x, y = patches.margin_width_height
    owner = np.full((patches.height + 2 * y, patches.width + 2 * x), -1)
    for index in np.flatnonzero(parts >= 0).tolist():
        w = patches.stored_window(index)
        seen = owner[w.row_off + y : w.row_stop + y, w.col_off + x : w.col_stop + x]
        assert np.isin(seen, (-1, parts[index])).all(), (index, rule)
        seen[...] = parts[index]


@given(patch_grids(), rules)
def test_fractions_are_those_of_blocks_before_the_guard(patches: PatchGrid, rule: SplitRule) -> None:
    parts = parts_of(rule, patches)
    across, down = rule.block_columns_rows
    row, column = np.divmod(np.arange(patches.count), patches.columns)
    in_row = -(-patches.columns // across)
    block = row // down * in_row + column // across
    x, y = rule.guard_columns_rows(patches)
    assert (x > 0, y > 0) == tuple(m > 0 for m in patches.margin_width_height)
    owners = {}
    for b, part in zip(block.tolist(), parts.tolist(), strict=True):
        if part >= 0:
            assert owners.setdefault(b, part) == part  # a block is of one split
    counts = largest_remainder(in_row * -(-patches.rows // down), list(rule.fractions))
    found = Counter(owners.values())
    assert all(found[part] <= count for part, count in enumerate(counts))
    if x == y == 0:
        assert (parts >= 0).all()
        assert [found[part] for part in range(len(counts))] == counts
    # the guard is at the left or upper border of a block only
    lost = parts < 0
    assert ((column % across < x) | (row % down < y))[lost].all() or x > across or y > down


@given(patch_grids(), rules, st.integers(1, 6), st.data())
def test_runs_hold_one_split_and_every_patch_once(
    patches: PatchGrid, rule: SplitRule, run_patches: int, data: Any
) -> None:
    parts_of(rule, patches)
    try:
        parts = select_parts(rule, None, patches)
    except JobError:
        assume(False)
    assert parts is not None
    shape = data.draw(st.integers(1, patches.columns)), data.draw(st.integers(1, patches.rows))
    blocks = BlockGrid(patches=patches, columns_rows=shape, run_patches=run_patches, split=rule)
    seen = []
    for block in range(blocks.count):
        for run in blocks.runs(block):
            own = parts[run.first : run.first + run.count]
            assert len(set(own[own >= 0].tolist())) <= 1
            assert run.count <= run_patches
            seen += range(run.first, run.first + run.count)
            assert blocks.chosen(run).tolist() == [
                i for i in range(run.first, run.first + run.count) if parts[i] >= 0
            ]
    assert sorted(seen) == list(range(patches.count))


@given(patch_grids(), st.integers(0, 99), st.data())
def test_a_draw_is_exact_and_grows_by_patches(patches: PatchGrid, seed: int, data: Any) -> None:
    count = data.draw(st.integers(1, patches.count))
    more = data.draw(st.integers(count, patches.count))

    def drawn(n: int) -> np.ndarray:
        parts = select_parts(None, SampleRule(patches=n, seed=seed), patches)
        assert parts is not None
        return np.flatnonzero(parts >= 0)

    assert len(drawn(count)) == count
    assert set(drawn(count).tolist()) <= set(drawn(more).tolist())
    with pytest.raises(JobError, match=r"sample\.patches"):
        drawn(patches.count + 1)


def test_a_draw_is_of_what_the_guard_leaves() -> None:
    patches = PatchGrid(width=200, height=200, patch_width_height=(10, 10), kernel_width_height=(4, 4))
    rule = SplitRule.from_mapping({"train": 0.5, "test": 0.5, "block": [5, 5], "seed": 3})
    parts = split_parts(rule, patches)
    free = int((parts >= 0).sum())
    assert free < patches.count
    drawn = select_parts(rule, SampleRule(patches=free - 7, seed=1), patches)
    assert drawn is not None and int((drawn >= 0).sum()) == free - 7
    assert (drawn[drawn >= 0] == parts[drawn >= 0]).all()
    with pytest.raises(JobError, match=f"more than the {free} patches there are beside the guard"):
        select_parts(rule, SampleRule(patches=free + 1), patches)


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**32))
def test_a_balanced_draw_is_that_of_the_slow_reference(
    count: int, classes: int, per_class: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    holds = generator.random((count, classes)) < generator.random(classes) ** 2
    parts = only(None, np.flatnonzero(generator.random(count) < 0.8), count)
    patch, value = (a.astype(np.int64) for a in np.nonzero(holds))
    found = balanced_draw(patch, value, per_class=per_class, seed=seed, count=count, parts=parts)
    mixed = generator.permutation(len(patch))
    again = balanced_draw(
        patch[mixed], value[mixed], per_class=per_class, seed=seed, count=count, parts=parts
    )
    assert found.tolist() == again.tolist() == sorted(set(found.tolist()))
    assert (parts[found] >= 0).all()
    rank = {int(p): i for i, p in enumerate(order(count, seed, 1))}
    free = holds & (parts >= 0)[:, None]
    chosen: set[int] = set()
    for c in sorted(range(classes), key=lambda c: (free[:, c].sum(), c)):
        holders = sorted(np.flatnonzero(free[:, c]).tolist(), key=rank.__getitem__)
        have = sum(p in chosen for p in holders)
        for p in holders:
            if have < per_class and p not in chosen:
                chosen.add(p)
                have += 1
    assert found.tolist() == sorted(chosen)
    for c in range(classes):
        assert free[found, c].sum() >= min(per_class, free[:, c].sum())


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"train": 0.8, "test": 0.1}, "sum to 0.9, not to 1"),
        ({"train": 0.8, "test": "0.2"}, r"split\.test: '0\.2' is not a fraction"),
        ({"block": [8, 8]}, "names no split"),
        ({"train": 1.0, "block": [8]}, r"split\.block: \[8\] is not \[columns, rows\]"),
        ({"train": 1.0, "block": 0}, r"split\.block: 0 is not"),
        ({"train": 1.0, "seed": -1}, r"split\.seed: -1 is not a whole number"),
        ({"train/x": 1.0}, r"split\.train/x: the name of a split stands in file names"),
        ({f"s{i}": 1 / 128 for i in range(128)}, "128 splits are more than the 100"),
    ],
)
def test_splits_that_are_none(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        SplitRule.from_mapping(given_)


def test_the_rule_survives_its_mapping() -> None:
    rule = SplitRule.from_mapping({"train": 0.75, "test": 0.25, "block": 4, "seed": 9})
    assert rule.block_columns_rows == (4, 4)
    assert SplitRule.from_mapping(rule.to_mapping()) == rule


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({}, "either patches, or perClass"),
        ({"patches": 3, "per_class": 3}, "either patches, or perClass"),
        ({"per_class": 3}, r"sample\.band"),
        ({"patches": 3, "band": "b"}, r"sample\.band"),
        ({"patches": 3, "classes": (1,)}, "to keep by classes use keep"),
    ],
)
def test_samples_that_are_none(words: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        SampleRule(**words)


def test_a_split_without_blocks_or_patches_is_refused() -> None:
    patches = PatchGrid(width=40, height=40, patch_width_height=(10, 10), kernel_width_height=(30, 30))
    with pytest.raises(JobError, match="too few for 2 splits; give smaller blocks"):
        select_parts(SplitRule.from_mapping({"a": 0.5, "b": 0.5}), None, patches)
    with pytest.raises(JobError, match=r"split\.\w: not one of 16 patches is left for it once the guard"):
        select_parts(SplitRule.from_mapping({"a": 0.5, "b": 0.5, "block": 1}), None, patches)
