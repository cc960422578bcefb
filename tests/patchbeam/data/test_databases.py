"""Databases and their views: laziness, checks, transforms, errors that name item and modality."""

from __future__ import annotations

import pickle
import traceback

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_sets import Numbers

from patchbeam.data import Database, DataError, PadCollate, Random, Spec, collate, pad_collate
from patchbeam.data.randomness import composing
from patchbeam.errors import JobError


class Specified(Numbers):
    @property
    def specs(self) -> dict[str, Spec]:
        return {
            "image": Spec(shape=(2, None, 3), dtype="float32", layout="CHW"),
            "label": Spec(shape=(), dtype="int32"),
        }


def labels(database: Database) -> list[int]:
    return [int(item[1]) for item in database]


def test_nothing_is_loaded_before_an_item_is_asked_for() -> None:
    database = Numbers(1000)
    view = database.select([5, 7, 7]).with_transforms(image=lambda x: x + 1).cache()
    assert len(view) == 3 and view.modalities == ("image", "label") and list(view.keys) == [5, 7, 7]
    assert database.loaded == []
    image, label = view[-1]
    assert database.loaded == [7] and label == 7 and (image == 8).all()


@given(st.lists(st.integers(-20, 19), max_size=30), st.integers(0, 25))
def test_views_are_what_lists_are(chosen: list[int], count: int) -> None:
    database, numbers = Numbers(20), list(range(20))
    assert labels(database.select(chosen)) == [numbers[i] for i in chosen]
    assert labels(database.take(count)) == numbers[:count]
    assert labels(database[3:15:4]) == numbers[3:15:4]
    assert labels(database[::-1].select([0, 1])) == [19, 18]
    both = database.take(count).concat(database.select(chosen))
    assert labels(both) == numbers[:count] + [numbers[i] for i in chosen]
    assert [both.key(i) for i in range(len(both))] == labels(both)


def test_items_outside_are_refused() -> None:
    with pytest.raises(IndexError, match=r"item 20 of a database of 20"):
        Numbers(20)[20]
    with pytest.raises(IndexError, match=r"-21"):
        Numbers(20).select([-21])
    with pytest.raises(IndexError, match=r"float"):
        Numbers(20).select(np.array([0.5]))
    with pytest.raises(JobError, match=r"take"):
        Numbers(20).take(-1)


def test_zip_joins_modalities_and_refuses_clashes() -> None:
    left, right = Numbers(4), Numbers(4)
    with pytest.raises(DataError, match=r"'image'"):
        left.zip(right)
    with pytest.raises(DataError, match=r"database 1 has 3 items, the first has 4"):
        left.zip(Numbers(3))

    class Other(Numbers):
        @property
        def modalities(self) -> tuple[str, ...]:
            return ("again", "number")

    joined = left.zip(Other(4))
    assert joined.modalities == ("image", "label", "again", "number")
    assert [int(v.max()) if v.ndim else int(v) for v in joined[2]] == [2, 2, 2, 2]
    assert [v.shape for v in joined.load_batch([1, 2])] == [(2, 2, 3, 3), (2,), (2, 2, 3, 3), (2,)]
    with pytest.raises(DataError, match=r"again, number"):
        left.concat(Other(4))


def test_transforms_run_in_order_and_joint_ones_see_all() -> None:
    seen = []

    def flip(image: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen.append((image.copy(), int(label)))
        return image[:, ::-1], label + 100

    view = Numbers(5).with_transforms(
        image=[lambda x: x + 1, lambda x: x * 10], label=np.float64, joint=[flip]
    )
    image, label = view[3]
    assert (image == 40).all() and label == 103.0 and seen[0][1] == 3
    with pytest.raises(JobError, match=r"modality 'imag': .*did you mean 'image'"):
        Numbers(5).with_transforms(imag=np.abs)
    with pytest.raises(DataError, match=r"joint transform .* gave 1 values, not the 2"):
        _ = Numbers(5).with_transforms(joint=lambda image, label: (image,))[0]


def test_an_error_in_a_transform_keeps_its_type_and_says_where() -> None:
    def bad(x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("my own")

    view = Numbers(9).select([4, 2]).with_transforms(image=bad)
    with pytest.raises(ZeroDivisionError, match=r"my own") as caught:
        _ = view[1]
    text = "".join(traceback.format_exception(caught.value))
    assert "item 1 (2), modality 'image', transform" in text and "bad" in text


def test_items_are_checked_against_the_specs() -> None:
    database = Specified(6)
    assert database[0][0].shape == (2, 3, 3)
    database.bad = {
        1: (np.zeros((2, 9, 3), np.float32), np.int32(1)),
        2: (np.zeros((2, 3, 4), np.float32), np.int32(1)),
        3: (np.zeros((2, 3, 3)), np.int32(1)),
        4: (np.zeros((2, 3, 3), np.float32),),
        5: (np.zeros((2, 3, 3), np.float32), 5),
    }
    assert database[1][0].shape == (2, 9, 3)
    with pytest.raises(
        DataError, match=r"item 2 \(2\), modality 'image': shape \(2, 3, 4\), but .* \(2, None, 3\)"
    ):
        _ = database[2]
    with pytest.raises(DataError, match=r"modality 'image': type float64"):
        _ = database[3]
    with pytest.raises(DataError, match=r"item 4 .* gave 1 values, but the modalities are image, label"):
        _ = database[4]
    with pytest.raises(DataError, match=r"modality 'label': type int"):
        _ = database[5]


def test_cached_items_are_loaded_once_and_read_only() -> None:
    database = Numbers(5)
    view = database.cache()
    first, again = view[2][0], view[2][0]
    assert database.loaded == [2] and first is again
    with pytest.raises(ValueError, match=r"read-only"):
        first[0] = 1
    copy = pickle.loads(pickle.dumps(view))
    assert copy[2][1] == 2 and len(copy) == 5


def test_random_transforms_are_a_function_of_seed_epoch_and_item() -> None:
    def noise(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        return x + rng.random()

    view = Numbers(5).with_transforms(image=[Random(noise), Random(noise)])
    with composing(3, 1):
        first = view[2][0]
    with composing(3, 1):
        assert (view[2][0] == first).all()
        assert (view[3][0] - 3 != first - 2).all()
    with composing(3, 2):
        assert (view[2][0] != first).all()
    with composing(4, 1):
        assert (view[2][0] != first).all()


def test_collate_stacks_and_names_what_does_not_fit() -> None:
    items = [(np.full((3, 64, 64), i, np.uint8), i, f"name{i}") for i in range(32)]
    images, numbers, names = collate(items)
    assert images.shape == (32, 3, 64, 64) and images.dtype == np.uint8
    assert numbers.tolist() == list(range(32)) and names[31] == "name31"
    with pytest.raises(
        DataError, match=r"item 9, modality 'image': shape \(3, 64, 65\), but item 4 has \(3, 64, 64\)"
    ):
        collate([items[0][:1], (np.zeros((3, 64, 65), np.uint8),)], names=["image"], indices=[4, 9])
    with pytest.raises(DataError, match=r"type float64, but item 0 of the batch has uint8"):
        collate([items[0][:1], (np.zeros((3, 64, 64)),)])
    with pytest.raises(DataError, match=r"has 2 modalities"):
        collate([items[0], items[1][:2]])
    with pytest.raises(DataError, match=r"no items"):
        collate([])
    with pytest.raises(DataError, match=r"dict cannot be stacked"):
        collate([({},)])


def test_types_with_a_collate_of_their_own_are_asked() -> None:
    class Boxes(list):
        @classmethod
        def collate(cls, values: list) -> str:
            return f"{len(values)} boxes"

    assert collate([(Boxes(),), (Boxes(),)]) == ("2 boxes",)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=6))
def test_padding_loses_nothing(shapes: list[tuple[int, int]]) -> None:
    items = [(np.arange(a * b, dtype=np.float32).reshape(a, b) + 1, i) for i, (a, b) in enumerate(shapes)]
    padded, numbers, lengths = PadCollate(value=-1, lengths=True)(items)
    assert padded.shape == (len(shapes), max(a for a, _ in shapes), max(b for _, b in shapes))
    assert numbers.tolist() == list(range(len(shapes)))
    for row, (array, _), (a, b) in zip(padded, items, lengths.tolist(), strict=True):
        assert (row[:a, :b] == array).all()
        assert (row == -1).sum() == row.size - array.size
    assert pad_collate(items)[0].sum() == sum(array.sum() for array, _ in items)


def test_padding_refuses_other_axes() -> None:
    with pytest.raises(DataError, match=r"item 1 of the batch, modality 0: float64 with 1 axes"):
        pad_collate([(np.zeros((2, 2)),), (np.zeros(2),)])
