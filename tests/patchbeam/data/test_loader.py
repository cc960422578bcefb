"""The loader: exact resume with any threads and ranks, errors in their place, no thread left."""

from __future__ import annotations

import json
import pickle
import threading
import time
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_sets import Numbers, flat

from patchbeam.data import DataProvider, Epochs, Loader, Random
from patchbeam.errors import CorruptRecord, JobError


def of(batch: tuple) -> list[int]:
    return batch[1].tolist()


def threads() -> list[str]:
    # the one that keeps PROJ's transformers stays as long as the process, and no loader has begun it
    names = [t.name for t in threading.enumerate() if t.name.startswith("patchbeam")]
    return [name for name in names if not name.startswith("patchbeam-proj")]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_order_does_not_depend_on_threads(count: int) -> None:
    epochs = Epochs(Numbers(22), 5, seed=2)
    expected = [of(b) for batches in islice(epochs, 4) for b in batches]
    assert [of(b) for b in islice(Loader(epochs, threads=count), 16)] == expected
    assert [of(b) for b in Loader(epochs.prefix(4), threads=count)] == expected
    assert [of(b) for b in Loader(DataProvider(Numbers(22), 5), threads=count)] == [
        of(b) for b in DataProvider(Numbers(22), 5)
    ]
    assert threads() == []


@given(
    st.integers(4, 40),
    st.integers(1, 4),
    st.integers(0, 30),
    st.sampled_from([0, 1, 4]),
    st.sampled_from([0, 1, 4]),
    st.booleans(),
)
def test_resume_is_exact_at_any_batch(
    count: int, size: int, stop: int, before: int, after: int, drop_last: bool
) -> None:
    def noisy(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
        return x + rng.random()

    database = Numbers(count).with_transforms(image=Random(noisy))
    epochs = Epochs(database, size, seed=3, drop_last=drop_last)
    expected = list(islice(Loader(epochs, threads=0), stop + 6))
    first = Loader(epochs, threads=before)
    for batch, _ in zip(first, range(stop), strict=False):
        del batch
    # zip asks for one batch more than it gives
    state = json.loads(json.dumps(first.state_dict()))
    second = Loader(Epochs(database, size, drop_last=drop_last), threads=after)
    second.load_state_dict(state)
    for got, want in zip(islice(second, 5), expected[stop + 1 :], strict=True):
        assert of(got) == of(want) and (got[0] == want[0]).all()


def test_a_loop_goes_on_where_the_last_one_stopped() -> None:
    loader = Loader(Epochs(Numbers(12), 4, seed=1))
    expected = [of(b) for b in islice(Loader(Epochs(Numbers(12), 4, seed=1)), 6)]
    got = [of(next(iter(loader))) for _ in range(6)]
    assert got == expected and loader.epoch == 2 and loader.state_dict()["samples"] == 0


def test_state_counts_what_was_handed_out_and_no_more() -> None:
    loader = Loader(Epochs(Numbers(20), 4, seed=1), threads=2, ahead=4)
    for number, _ in enumerate(loader):
        time.sleep(0.01)
        assert loader.state_dict()["samples"] == (number + 1) * 4 % 20
        if number == 2:
            break
    assert loader.state_dict() == {
        "seed": 1,
        "epoch": 0,
        "samples": 12,
        "fingerprint": Numbers(20).fingerprint,
    }


@given(st.integers(1, 50), st.sampled_from([(4, 1), (4, 2), (4, 4), (12, 3), (12, 6)]), st.booleans())
def test_ranks_are_disjoint_and_complete(count: int, sizes: tuple[int, int], drop_last: bool) -> None:
    batch, world = sizes
    drop_last = drop_last and count >= batch
    epochs = Epochs(Numbers(count), batch, seed=5, drop_last=drop_last).prefix(2)
    whole = [of(b) for batches in epochs for b in batches]
    shares = [[of(b) for b in Loader(epochs, rank=rank, world=world)] for rank in range(world)]
    assert sorted(i for share in shares for b in share for i in b) == sorted(i for b in whole for i in b)
    if drop_last:
        assert [flat(share[k] for share in shares) for k in range(len(whole))] == whole
        assert all(len(b) == batch // world for share in shares for b in share)


def test_resume_with_another_world_size() -> None:
    epochs = Epochs(Numbers(30), 12, seed=8)
    expected = [of(b) for b in islice(Loader(epochs), 8)]
    two = [Loader(epochs, rank=r, world=2, threads=r) for r in range(2)]
    for _ in range(3):
        parts = [of(next(iter(loader))) for loader in two]
        assert len(parts[0]) == len(parts[1]) == 6
    states = [loader.state_dict() for loader in two]
    assert states[0] == states[1]
    three = [Loader(Epochs(Numbers(30), 12), rank=r, world=3) for r in range(3)]
    for loader in three:
        loader.load_state_dict(states[0])
    for k in range(3, 8):
        assert flat(of(next(iter(loader))) for loader in three) == expected[k]


def test_states_that_do_not_fit_are_refused() -> None:
    loader = Loader(Epochs(Numbers(30), 10, seed=1))
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(JobError, match=r"another database.*29 items"):
        Loader(Epochs(Numbers(29), 10)).load_state_dict(state)
    with pytest.raises(JobError, match=r"10 samples are no border of global batches of 4"):
        Loader(Epochs(Numbers(30), 4)).load_state_dict(state)
    with pytest.raises(JobError, match=r"epoch, samples, fingerprint missing"):
        loader.load_state_dict({"seed": 1})
    with pytest.raises(JobError, match=r"of seed 1, these batches are of seed 2"):
        Loader(Epochs(Numbers(30), 10, seed=2)[0]).load_state_dict(state)


def test_arguments_are_checked() -> None:
    epochs = Epochs(Numbers(30), 10)
    for bad in ({"threads": -1}, {"ahead": 0}, {"world": 0}, {"threads": True}):
        with pytest.raises(JobError, match=next(iter(bad))):
            Loader(epochs, **bad)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=r"rank: 2 is not from 0 to 1"):
        Loader(epochs, rank=2, world=2)
    with pytest.raises(JobError, match=r"global batch of 10 cannot be shared equally by world = 3"):
        Loader(epochs, world=3)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_an_error_comes_at_its_batch_and_again_when_asked_again(count: int) -> None:
    database = Numbers(12)
    database.bad = {7: CorruptRecord("damaged", file="a.tfrecord", record=7, byte=700)}
    loader = Loader(DataProvider(database, 3), threads=count)
    got = []
    for _ in range(2):
        with pytest.raises(CorruptRecord, match=r"a\.tfrecord, record 7, byte 700: damaged") as caught:
            for batch in loader:
                got.append(of(batch))
        assert "item 7" in "".join(caught.value.__notes__)
    assert got == [[0, 1, 2], [3, 4, 5]] and threads() == []
    database.bad = {}
    assert [of(b) for b in loader] == [[6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize("count", [1, 4])
def test_no_thread_is_left_after_break_or_an_error_in_the_loop(count: int) -> None:
    loader = Loader(Epochs(Numbers(30), 3, seed=1), threads=count)
    for _ in loader:
        assert threads() != []
        break
    assert threads() == []
    with pytest.raises(RuntimeError):
        for _ in loader:
            raise RuntimeError
    iterator = iter(loader)
    next(iterator)
    iterator.close()
    assert threads() == []


def test_only_so_many_batches_are_composed_ahead() -> None:
    database = Numbers(1000)
    iterator = iter(Loader(Epochs(database, 10, seed=1), threads=1, ahead=3))
    next(iterator)
    time.sleep(0.2)
    assert len(database.loaded) <= 10 * (1 + 3)
    iterator.close()


def test_a_loader_over_a_provider_ends_and_starts_again() -> None:
    shuffled = DataProvider(Numbers(9), 4, shuffle=True, seed=6)
    loader = Loader(shuffled)
    loops = [[of(b) for b in loader] for _ in range(3)]
    assert loops == [[of(b) for b in shuffled.epoch(k)] for k in range(3)]
    plain = Loader(DataProvider(Numbers(9), 4))
    assert [of(b) for b in plain] == [of(b) for b in plain] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]


def test_databases_and_epochs_pickle_into_workers() -> None:
    epochs = pickle.loads(pickle.dumps(Epochs(Numbers(12), 4, seed=3)))
    assert [of(b) for b in epochs[2]] == [of(b) for b in Epochs(Numbers(12), 4, seed=3)[2]]
