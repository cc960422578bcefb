"""Gzip that cannot be sought, read in order: nothing is copied, and damage is where it is."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training_sets import Written, write_export

from patchbeam.data import DataProvider, Epochs, Loader, PatchDatabase, inorder
from patchbeam.errors import CorruptRecord, CountMismatch
from patchbeam.records.tfrecord import read_records, write_records


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATCHBEAM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def pixels(loader: Loader) -> np.ndarray:
    return np.concatenate([batch for (batch,) in loader])


def copies(cache: Path) -> int:
    return len(list((cache / "inflated").glob("*.tfrecord")))


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
@pytest.mark.parametrize("sidecar", ["manifest", "mixer"])
def test_one_pass_in_order_copies_nothing_and_the_next_one_does(
    tmp_path: Path, cache: Path, sidecar: str, threads: int
) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar=sidecar, columns_rows=(8, 8), per_shard=7)
    database = PatchDatabase(written.prefix)
    loader = Loader(DataProvider(database, 5), threads=threads)
    assert (pixels(loader) == written.pixels).all() and copies(cache) == 0
    assert (pixels(loader) == written.pixels).all() and copies(cache) == len(written.files)
    again = PatchDatabase(written.prefix)
    assert (pixels(Loader(DataProvider(again, 9), threads=threads)) == written.pixels).all()


def test_what_is_asked_for_out_of_order_is_copied(tmp_path: Path, cache: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", columns_rows=(8, 8), per_shard=7)
    database = PatchDatabase(written.prefix)
    assert copies(cache) == 0 and len(database) == 64
    batch = DataProvider(database, 4)[14][0]
    assert (batch == written.pixels[56:60]).all() and copies(cache) > 0
    seen = sorted(float(item.sum()) for (b,) in Epochs(database, 8, seed=1)[0] for item in b)
    assert seen == sorted(float(item.sum()) for item in written.pixels)


def test_a_second_loop_after_a_break_starts_again(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", columns_rows=(8, 8), per_shard=7)
    database = PatchDatabase(written.prefix)
    before = threading.active_count()
    for (batch,) in Loader(DataProvider(database, 5), threads=2):
        assert (batch == written.pixels[:5]).all()
        break
    assert threading.active_count() == before
    assert (pixels(Loader(DataProvider(database, 5), threads=2)) == written.pixels).all()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_batches_threads_shards_and_room(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("set")
    count = data.draw(st.integers(1, 40), "count")
    written = write_export(
        folder,
        gzip="zlib6",
        sidecar=data.draw(st.sampled_from(["manifest", "mixer"]), "sidecar"),
        columns_rows=(count, 1),
        per_shard=data.draw(st.integers(1, 15), "per shard"),
    )
    monkeypatch.setattr(inorder, "_STEP_BYTES", data.draw(st.sampled_from([1, 3000, 1 << 20]), "step"))
    monkeypatch.setattr(inorder, "AHEAD_BYTES", data.draw(st.sampled_from([0, 3000, 1 << 27]), "room"))
    database = PatchDatabase(written.prefix, cache=folder / "cache")
    size, threads = data.draw(st.integers(1, 20), "batch"), data.draw(st.integers(0, 4), "threads")
    world = data.draw(st.sampled_from([w for w in (1, 2, 3) if size % w == 0]), "world")
    loader = Loader(DataProvider(database, size), threads=threads, world=world, rank=world - 1)
    expected = [
        part[len(part) * (world - 1) // world :]
        for part in (written.pixels[at : at + size] for at in range(0, count, size))
    ]
    for _ in range(2):
        assert (pixels(loader) == np.concatenate(expected)).all()


def test_threads_that_ask_in_any_order(tmp_path: Path) -> None:
    """Batches taken from a pool of threads by chance, as no loader does."""
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", columns_rows=(10, 10), per_shard=9)
    for seed in range(5):
        provider = DataProvider(PatchDatabase(written.prefix, cache=tmp_path / str(seed)), 6)
        numbers = list(range(len(provider)))
        random.Random(seed).shuffle(numbers)
        found: dict[int, np.ndarray] = {}

        def work(numbers: list[int], provider: DataProvider, found: dict[int, np.ndarray]) -> None:
            while numbers:
                number = numbers.pop()
                found[number] = provider[number][0]

        threads = [threading.Thread(target=work, args=(numbers, provider, found)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert (np.concatenate([found[at] for at in sorted(found)]) == written.pixels).all()


def damaged(written: Written, shard: int, record: int) -> int:
    """Damages the data of a record, its gzip not; returns the byte at which it starts."""
    datas = [bytes(data) for data in read_records(written.files[shard])]
    from patchbeam.records import tfrecord

    framed = [tfrecord.frame(data) for data in datas]
    framed[record] = framed[record][:40] + bytes([framed[record][40] ^ 1]) + framed[record][41:]
    import gzip

    written.files[shard].write_bytes(gzip.compress(b"".join(framed)))
    return sum(map(len, framed[:record]))


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
def test_damage_is_an_error_at_its_batch(tmp_path: Path, threads: int) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", columns_rows=(8, 4), per_shard=10)
    byte = damaged(written, 1, 4)
    got = []
    with pytest.raises(CorruptRecord, match="CRC") as caught:
        for (batch,) in Loader(DataProvider(PatchDatabase(written.prefix), 3), threads=threads):
            got.append(batch)
    error = caught.value
    assert (error.file, error.record, error.byte) == (str(written.files[1]), 4, byte)
    assert (np.concatenate(got) == written.pixels[:12]).all()
    assert len(error.__notes__) == 1 and "item 14 (patch 14)" in error.__notes__[0]


@pytest.mark.parametrize("end", [-1, -9])
def test_a_file_cut_short_is_told_with_its_last_record(tmp_path: Path, end: int) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", per_shard=12)
    written.files[0].write_bytes(written.files[0].read_bytes()[:end])
    provider = DataProvider(PatchDatabase(written.prefix), 6)
    with pytest.raises(CorruptRecord, match="the file ends inside"):
        _ = [batch for (batch,) in provider]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("change", [-1, 1])
def test_too_few_and_too_many_records_are_told_at_the_end(tmp_path: Path, change: int, threads: int) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer")
    datas = [bytes(data) for data in read_records(written.files[2])]
    write_records(written.files[2], datas[:change] if change < 0 else [*datas, datas[0]], "zlib6")
    loader = Loader(DataProvider(PatchDatabase(written.prefix), 5), threads=threads)
    got = []
    with pytest.raises(CountMismatch, match=rf"{12 + change} records \(.*: 5, .*\), but the mixer says 12"):
        for (batch,) in loader:
            got.append(batch)
    assert (np.concatenate(got) == written.pixels[:10]).all()


def test_a_saved_position_does_not_depend_on_how_far_files_were_counted(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer")
    loader = Loader(DataProvider(PatchDatabase(written.prefix), 4))
    _ = next(iter(loader))
    state = loader.state_dict()
    database = PatchDatabase(written.prefix)
    assert (database[11][0] == written.pixels[11]).all()
    later = Loader(DataProvider(database, 4))
    later.load_state_dict(state)
    assert (pixels(later) == written.pixels[4:]).all()


def test_a_forked_process_reads_for_itself(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", patch=(128, 128), per_shard=12)
    batches = iter(DataProvider(PatchDatabase(written.prefix), 2))
    found = [next(batches)[0], next(batches)[0]]
    child = os.fork()
    if child == 0:
        rest = np.concatenate([batch for (batch,) in batches])
        os._exit(0 if (rest == written.pixels[4:]).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    found += [batch for (batch,) in batches]
    assert (np.concatenate(found) == written.pixels).all()


def test_what_cannot_be_read_is_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer", per_shard=12)
    database = PatchDatabase(written.prefix)
    asked = []

    def failing(*_: object, **__: object) -> Iterator[memoryview]:
        asked.append(1)
        raise OSError(5, "Input/output error")
        yield

    monkeypatch.setattr(inorder, "read_records", failing)
    stream = inorder.Stream(str(written.files[0]), "name")
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            stream.next()
    assert not stream.ended and asked == [1]
    monkeypatch.undo()
    assert (DataProvider(database, 12)[0][0] == written.pixels).all()
