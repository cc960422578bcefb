"""Batches and epochs: sizes, laziness counted, order, fresh arrays."""

from __future__ import annotations

import pickle
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_sets import Numbers, flat

from patchbeam.data import DataError, DataProvider, EmptyDatabase, Epochs, NonuniformEpochs, Spec, order
from patchbeam.errors import JobError


def of(batch: tuple) -> list[int]:
    return batch[1].tolist()


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 2**64 - 1))
def test_an_unshuffled_provider_gives_file_order_and_keeps_the_rest(count: int, size: int, seed: int) -> None:
    provider = DataProvider(Numbers(count), size, seed=seed)
    batches = [of(batch) for batch in provider]
    assert flat(batches) == list(range(count))
    assert len(batches) == len(provider) == -(-count // size)
    assert all(len(batch) == size for batch in batches[:-1])
    assert [of(batch) for batch in provider] == batches


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 2**64 - 1), st.integers(0, 10**6))
def test_the_epoch_law(count: int, size: int, seed: int, epoch: int) -> None:
    size = min(size, count)
    batches = [of(batch) for batch in Epochs(Numbers(count), size, seed=seed)[epoch]]
    assert [len(batch) for batch in batches] == [size] * (count // size)
    assert flat(batches) == order(count, seed, epoch)[: count // size * size].tolist()


def test_ten_items_in_fours() -> None:
    assert [len(of(b)) for b in DataProvider(Numbers(10), 4)] == [4, 4, 2]
    assert [len(of(b)) for b in DataProvider(Numbers(10), 4, drop_last=True)] == [4, 4]
    epochs = Epochs(Numbers(10), 4, seed=1)
    left = [tuple(sorted(set(range(10)) - set(flat(map(of, batches))))) for batches in epochs.prefix(20)]
    assert all(len(rest) == 2 for rest in left) and len(set(left)) > 10


def test_layouts() -> None:
    database = Numbers(64, (3, 64, 64))
    assert DataProvider(database, 32)[0][0].shape == (32, 3, 64, 64)
    nhwc = DataProvider(database, 32, layout="NHWC")[0][0]
    assert nhwc.shape == (32, 64, 64, 3) and nhwc.flags.c_contiguous

    class Hwc(Numbers):
        @property
        def specs(self) -> dict[str, Spec]:
            return {"image": Spec(shape=(4, 5, 3), layout="HWC")}

    assert DataProvider(Hwc(4, (4, 5, 3)), 2)[0][0].shape == (2, 3, 4, 5)
    assert DataProvider(Hwc(4, (4, 5, 3)), 2, layout="NHWC")[0][0].shape == (2, 4, 5, 3)
    with pytest.raises(JobError, match=r"NCWH.*NCHW"):
        DataProvider(database, 2, layout="NCWH")  # type: ignore[arg-type]


def test_exactly_the_items_of_the_batch_are_read() -> None:
    database = Numbers(1000)
    provider = DataProvider(database, 10, shuffle=True, seed=4)
    epochs = Epochs(database, 10, seed=4).map(lambda batch: batch)
    late = epochs[1000]
    assert len(late) == 100 and len(provider) == 100 and database.loaded == []
    late.indices(3)
    assert database.loaded == []
    batch = late[3]
    assert database.loaded == of(batch) == late.indices(3).tolist()
    database.loaded.clear()
    assert of(provider[99]) == database.loaded
    assert of(provider.get_item(99)) == database.loaded[10:]


def test_epochs_are_endless_restartable_and_any_can_be_had() -> None:
    epochs = Epochs(Numbers(12), 5, seed=9)
    first = [[of(b) for b in batches] for batches in islice(epochs, 5)]
    assert [[of(b) for b in batches] for batches in islice(epochs, 5)] == first
    assert [of(b) for b in epochs[4]] == first[4]
    assert [[of(b) for b in batches] for batches in epochs[1:4]] == first[1:4]
    assert [[of(b) for b in batches] for batches in epochs.prefix(3)] == first[:3]
    assert len(epochs.prefix(100)) == 100 and len(epochs.prefix(0)) == 0
    assert [of(b) for b in epochs.prefix(5)[-1]] == first[4]
    assert len({str(epoch) for epoch in first}) == 5
    for bad in (-1, slice(0, None), slice(-3, 4)):
        with pytest.raises(IndexError):
            _ = epochs[bad]
    with pytest.raises(JobError):
        epochs.prefix(-1)


def test_the_loop_of_a_training_run() -> None:
    seen = []
    for epoch, batches in enumerate(Epochs(Numbers(8), 4, seed=0).prefix(3)):
        for batch in batches:
            images, numbers = batch
            seen.append((epoch, images.shape, numbers.shape))
    assert seen == [(e, (4, 2, 3, 3), (4,)) for e in (0, 0, 1, 1, 2, 2)]


def test_map_is_lazy_and_composes() -> None:
    called = []

    def double(batch: tuple) -> np.ndarray:
        called.append(1)
        return batch[1] * 2

    epochs = Epochs(Numbers(6), 3, seed=1).map(double).map(lambda numbers: numbers + 1)
    batches = epochs[2].map(lambda numbers: numbers.tolist())
    assert called == []
    assert batches[0] == (order(6, 1, 2)[:3] * 2 + 1).tolist() and called == [1]
    assert DataProvider(Numbers(6), 3).map(double)[1].tolist() == [6, 8, 10]


def test_a_shuffled_provider_moves_on_and_resumes_by_its_seed() -> None:
    provider = DataProvider(Numbers(20), 7, shuffle=True)
    loops = [[of(batch) for batch in provider] for _ in range(3)]
    assert [len(b) for b in loops[0]] == [7, 7, 6]
    assert len({str(loop) for loop in loops}) == 3
    again = DataProvider(Numbers(20), 7, shuffle=True, seed=provider.seed)
    assert [[of(batch) for batch in again] for _ in range(3)] == loops
    assert [of(batch) for batch in again.epoch(1)] == loops[1]


def test_a_generator_of_ones_own_gives_the_seed() -> None:
    first = Epochs(Numbers(9), 3, seed=np.random.default_rng(5))
    again = Epochs(Numbers(9), 3, seed=np.random.default_rng(5))
    assert first.seed == again.seed
    assert Epochs(Numbers(9), 3).seed != Epochs(Numbers(9), 3).seed


@pytest.mark.parametrize("shape", [(1, 2, 2), (8, 256, 128)])
def test_batches_are_fresh_arrays(shape: tuple[int, ...]) -> None:
    provider = DataProvider(Numbers(12, shape), 4)
    batches = [provider[0][0] for _ in range(5)]
    for at, batch in enumerate(batches):
        batch[...] = -at
    assert all((batch == -at).all() for at, batch in enumerate(batches))
    assert not any(np.shares_memory(a, b) for i, a in enumerate(batches) for b in batches[:i])
    view = batches[2][1, 0]
    del batches, batch
    for _ in range(8):
        provider[1]
    assert (view == -2).all()


def test_what_cannot_be_batched_is_refused_at_once() -> None:
    for size in (0, -1, 1.5, True):
        with pytest.raises(JobError, match=r"batch_size"):
            DataProvider(Numbers(5), size)  # type: ignore[arg-type]
    with pytest.raises(EmptyDatabase, match=r"empty"):
        DataProvider(Numbers(0), 1)
    with pytest.raises(EmptyDatabase):
        Epochs(Numbers(0), 1)
    with pytest.raises(JobError, match=r"6 is more than the 5 items .*drop_last"):
        Epochs(Numbers(5), 6)
    assert len(Epochs(Numbers(5), 6, drop_last=False)[0]) == 1
    with pytest.raises(IndexError, match=r"batch 2 of an epoch of 2"):
        _ = DataProvider(Numbers(10), 5)[2]


def test_a_wrong_item_is_an_error_at_its_batch() -> None:
    database = Numbers(12)
    database.bad = {5: (np.zeros((2, 3, 4), np.float32), np.int32(5))}
    provider = DataProvider(database, 4)
    assert of(provider[0]) == [0, 1, 2, 3] and of(provider[2]) == [8, 9, 10, 11]
    with pytest.raises(
        DataError, match=r"item 5, modality 'image': shape \(2, 3, 4\), but item 4 has \(2, 3, 3\)"
    ):
        _ = provider[1]


def test_batches_pickle() -> None:
    batches = Epochs(Numbers(12), 4, seed=3)[7]
    copy = pickle.loads(pickle.dumps(batches))
    assert [of(b) for b in copy] == [of(b) for b in batches] and copy.epoch == 7


@given(st.lists(st.integers(1, 50), min_size=8, max_size=80), st.integers(0, 100))
def test_nonuniform_epochs_sort_inside_mega_batches(sizes: list[int], epoch: int) -> None:
    database = Numbers(len(sizes))
    epochs = NonuniformEpochs(database, 2, sizes=sizes, seed=1, batches_per_sort=3, drop_last=False)
    got = [sizes[i] for b in range(len(epochs[epoch])) for i in epochs[epoch].indices(b)]
    assert sorted(got) == sorted(sizes) and got[0] == max(sizes) and database.loaded == []
    blocks = [got[at : at + 6] for at in range(0, len(got), 6)]
    # the block with the largest may be the short one and then shifts the others
    if len(sizes) % 6 == 0:
        assert all(block == sorted(block, reverse=True) for block in blocks)


def test_nonuniform_batches_are_padded() -> None:
    class Ragged(Numbers):
        def load(self, index: int) -> tuple:
            return np.full(index + 1, index, np.float32), np.int32(index)

    epochs = NonuniformEpochs(Ragged(10), 2, sizes=lambda i: i + 1, seed=1)
    batch = epochs[0][0]
    assert batch[0].shape == (2, 10) and batch[1].max() == 9
    with pytest.raises(JobError, match=r"10 items"):
        NonuniformEpochs(Ragged(10), 2, sizes=[1, 2])
