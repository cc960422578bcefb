"""Splits: disjoint, complete, of the sizes asked for; by blocks without a shared pixel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_sets import Numbers, flat, write_export

from patchbeam.data import DataError, EmptyDatabase, PatchDatabase, block_split, order, split
from patchbeam.errors import JobError
from patchbeam.splits import GUARDED, block_count, guard_patches, largest_remainder, split_blocks

FRACTIONS = st.sampled_from(
    [[0.8, 0.1, 0.1], [0.7, 0.3], [1.0], [0.34, 0.33, 0.33], [0.5, 0.25, 0.125, 0.125]]
)


def numbers(part: object) -> list[int]:
    return [int(key) for key in part.keys]  # type: ignore[attr-defined]


@given(st.integers(1, 200), FRACTIONS, st.integers(0, 2**64 - 1))
def test_parts_are_disjoint_complete_sized_and_in_order(
    count: int, fractions: list[float], seed: int
) -> None:
    database = Numbers(count)
    parts = [numbers(part) for part in split(database, fractions, seed)]
    assert sorted(flat(parts)) == list(range(count)) and database.loaded == []
    assert all(part == sorted(part) for part in parts)
    assert [len(part) for part in parts] == largest_remainder(count, fractions)
    assert all(abs(len(part) - f * count) < 1 for part, f in zip(parts, fractions, strict=True))
    assert [numbers(part) for part in split(database, fractions, seed)] == parts


def test_another_seed_gives_other_parts_and_names_stay() -> None:
    one = split(Numbers(100), {"train": 0.5, "test": 0.5}, 1)
    other = split(Numbers(100), {"train": 0.5, "test": 0.5}, 2)
    assert list(one) == ["train", "test"] and numbers(one["train"]) != numbers(other["train"])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=150), FRACTIONS, st.integers(0, 1000))
def test_strata_are_shared_to_one_item(classes: list[int], fractions: list[float], seed: int) -> None:
    parts = [numbers(p) for p in split(Numbers(len(classes)), fractions, seed, stratify=classes)]
    assert sorted(flat(parts)) == list(range(len(classes)))
    for stratum in set(classes):
        size = classes.count(stratum)
        for part, fraction in zip(parts, fractions, strict=True):
            assert abs(sum(classes[i] == stratum for i in part) - fraction * size) <= 1
    assert [len(part) for part in parts] == largest_remainder(len(classes), fractions)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=150), FRACTIONS, st.integers(0, 1000))
def test_groups_stay_together(groups: list[int], fractions: list[float], seed: int) -> None:
    parts = [numbers(p) for p in split(Numbers(len(groups)), fractions, seed, groups=lambda i: groups[i])]
    assert sorted(flat(parts)) == list(range(len(groups)))
    names = [{groups[i] for i in part} for part in parts]
    assert sum(map(len, names)) == len(set(groups))


def test_groups_come_near_their_fractions() -> None:
    groups = (np.arange(1000) // 10).tolist()
    sizes = [len(part) for part in split(Numbers(1000), [0.8, 0.1, 0.1], 3, groups=groups)]
    assert sizes == [800, 100, 100]


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(JobError, match=r"sum to 0.9"):
        split(Numbers(5), [0.8, 0.1], 1)
    with pytest.raises(JobError, match=r"fractions.test: -0.5"):
        split(Numbers(5), {"test": -0.5}, 1)
    with pytest.raises(EmptyDatabase):
        split(Numbers(0), [1.0], 1)
    with pytest.raises(DataError, match=r"2 labels for 5 items"):
        split(Numbers(5), [1.0], 1, groups=[1, 2])
    with pytest.raises(JobError, match=r"together"):
        split(Numbers(5), [1.0], 1, groups=[1] * 5, stratify=[1] * 5)
    with pytest.raises(JobError, match=r"seed"):
        split(Numbers(5), [1.0], -1)


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([(1, 1), (2, 3), (4, 2)]),
    st.sampled_from([(8, 8), (8, 3)]),
    st.sampled_from([(1, 1), (3, 3), (9, 5), (20, 1), (1, 33), (40, 20)]),
    st.integers(0, 100),
)
def test_no_pixel_is_in_two_splits(
    columns: int,
    rows: int,
    block: tuple[int, int],
    patch: tuple[int, int],
    kernel: tuple[int, int],
    seed: int,
) -> None:
    across, down = block_count((columns, rows), block)
    margins = kernel[0] // 2, kernel[1] // 2
    found = split_blocks(
        (columns, rows),
        [0.6, 0.4],
        order(across * down, seed, 0),
        block_columns_rows=block,
        guard_columns_rows=(guard_patches(margins[0], patch[0]), guard_patches(margins[1], patch[1])),
    )
    owner = np.full((rows * patch[1] + 2 * margins[1], columns * patch[0] + 2 * margins[0]), -1)
    for index, part in enumerate(found.tolist()):
        if part == GUARDED:
            continue
        row, col = divmod(index, columns)
        window = owner[
            row * patch[1] : (row + 1) * patch[1] + 2 * margins[1],
            col * patch[0] : (col + 1) * patch[0] + 2 * margins[0],
        ]
        assert set(np.unique(window).tolist()) <= {-1, part}
        window[...] = part
    if kernel == (1, 1):
        assert GUARDED not in found


def test_the_guard_stands_on_one_side_of_a_border() -> None:
    # two blocks side by side: one column of the right one is given up, and nothing else
    found = split_blocks(
        (8, 4), [0.5, 0.5], np.array([0, 1]), block_columns_rows=(4, 4), guard_columns_rows=(1, 1)
    )
    assert found.reshape(4, 8).tolist() == [[0, 0, 0, 0, -1, 1, 1, 1]] * 4
    assert [guard_patches(k // 2, 64) for k in (1, 2, 3, 65, 66, 129, 130)] == [0, 1, 1, 1, 2, 2, 3]


def test_block_split_of_an_export_and_of_views_of_it(tmp_path: Path) -> None:
    written = write_export(tmp_path, columns_rows=(16, 8), kernel=(3, 3), per_shard=50, dropped=[0, 17])
    database = PatchDatabase(written.prefix)
    parts = block_split(database, {"train": 0.75, "test": 0.25}, 4, block=(4, 4))
    train, test = (set(part.keys) for part in parts.values())
    assert not train & test and 17 not in train | test
    kept = len(train | test)
    assert kept < 126
    near = [
        (a, b)
        for a in train
        for b in test
        if max(abs(x - y) for x, y in zip(divmod(a, 16), divmod(b, 16), strict=True)) <= 1
    ]
    assert near == []
    view = database.select(range(0, 126, 2)).with_transforms(image=np.abs)
    again = block_split(view, {"train": 0.75, "test": 0.25}, 4, block=(4, 4))
    assert set(again["train"].keys) == train & {database.key(i) for i in range(0, 126, 2)}
    loose = block_split(database, {"train": 0.75, "test": 0.25}, 4, block=(4, 4), guard=0)
    assert sum(map(len, loose.values())) == 126


def test_block_split_says_what_the_guard_drops(tmp_path: Path) -> None:
    database = PatchDatabase(write_export(tmp_path, columns_rows=(8, 8)).prefix)
    parts = block_split(database, {"train": 0.75, "test": 0.25}, 1, block=(2, 2), guard=1)
    assert isinstance(parts, dict) and list(parts) == ["train", "test"]
    train, test = len(parts["train"]), len(parts["test"])
    assert parts.dropped == 64 - train - test > 0
    assert repr(parts) == f"BlockParts(train: {train}, test: {test}; {parts.dropped} dropped by the guard)"
    assert block_split(database, {"train": 0.75, "test": 0.25}, 1, block=(2, 2), guard=0).dropped == 0


def test_a_database_says_what_it_is(tmp_path: Path) -> None:
    database = PatchDatabase(write_export(tmp_path, columns_rows=(2, 2)).prefix)
    shape = database.specs["image"].shape
    assert repr(database) == f"PatchDatabase(4 items of image: float32 CHW {shape})"
    assert repr(database[:1]) == f"SelectedView(1 item of image: float32 CHW {shape})"


def test_block_split_refuses(tmp_path: Path) -> None:
    database = PatchDatabase(write_export(tmp_path).prefix)
    with pytest.raises(DataError, match=r"Numbers lies on no patch grid"):
        block_split(Numbers(5), {"a": 1.0}, 1)
    with pytest.raises(JobError, match=r"too few for 2 parts"):
        block_split(database, {"a": 0.5, "b": 0.5}, 1)
    with pytest.raises(JobError, match=r"block"):
        block_split(database, {"a": 1.0}, 1, block=(0, 1))
    with pytest.raises(JobError, match=r"guard"):
        block_split(database, {"a": 1.0}, 1, guard=-1)
