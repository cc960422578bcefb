"""Random access to records: every form of file, damage, counts, threads, pickling."""

from __future__ import annotations

import gzip
import itertools
import pickle
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.errors import CorruptRecord
from patchbeam.records.crc import masked_crc
from patchbeam.records.files import RecordFiles
from patchbeam.records.tfrecord import frame, read_records, write_records

FORMS = (None, "indexed", "zlib6", "other")


def write(path: Path, datas: list[bytes], form: str | None) -> str:
    if form == "other":  # as any tool writes gzip
        path.write_bytes(gzip.compress(b"".join(map(frame, datas)), 1))
    else:
        write_records(path, datas, form)
    return str(path)


def some(count: int, seed: int = 0, uniform: bool = False) -> list[bytes]:
    random = np.random.default_rng(seed)
    return [random.bytes(300 if uniform else int(random.integers(0, 900))) for _ in range(count)]


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_record_is_where_its_number_says(tmp_path: Path, form: str | None, uniform: bool) -> None:
    datas = some(1500, uniform=uniform)
    cuts = [0, 0, 700, 701, 1500]
    names = [write(tmp_path / f"f{i}", datas[a:b], form) for i, (a, b) in enumerate(itertools.pairwise(cuts))]
    with RecordFiles.open(names, spool_folder=str(tmp_path / "spool")) as files:
        assert len(files) == 1500
        assert files.counts == [0, 700, 1, 799]
        assert [bytes(files[i]) for i in range(1499, -1, -7)] == datas[::-7]
        assert [bytes(d) for d in files.read_range(0, 1500)] == datas
        assert [bytes(d) for d in files.read_range(650, 200)] == datas[650:850]
        assert list(files.read_range(20, 0)) == []
        parts = files.parts(100, 1300)
        assert [bytes(d) for part in parts for d in files.read_range(*part)] == datas[100:1400]
        copy = pickle.loads(pickle.dumps(files))
        with ThreadPoolExecutor(4) as pool:
            assert [bytes(d) for d in pool.map(copy.__getitem__, range(1500))] == datas
        for wrong in (-1, 1500):
            with pytest.raises(IndexError, match=f"record {wrong} is not in 0..1499"):
                files[wrong]
    assert not list(tmp_path.glob("spool/*"))


def test_large_records_have_a_member_each_and_parts_of_their_own(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    datas = [random.bytes(700_000) for _ in range(6)]
    for form in (None, "indexed"):
        name = write(tmp_path / f"big-{form}", datas, form)
        with RecordFiles.open([name], spool_folder=str(tmp_path)) as files:
            assert files.parts(1, 4) in ([(1, 1), (2, 1), (3, 1), (4, 1)], [(1, 2), (3, 2)])
            assert [bytes(d) for d in files.read_range(1, 4)] == datas[1:5]


def test_files_of_many_small_records_are_counted_at_array_speed(tmp_path: Path) -> None:
    record = frame(bytes(20))
    (tmp_path / "many").write_bytes(record * 2_000_000)
    with RecordFiles.open([str(tmp_path / "many")], spool_folder=str(tmp_path)) as files:
        assert len(files) == 2_000_000
        assert files.files[0].offsets.size == 0  # one number says it all


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_damage_is_found_and_placed(
    tmp_path_factory: pytest.TempPathFactory, form: str | None, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    datas = some(40, seed=data.draw(st.integers(0, 5)))
    path = folder / "f"
    write(path, datas, form)
    stored = bytearray(path.read_bytes())
    if data.draw(st.booleans(), label="cut"):
        del stored[data.draw(st.integers(1, len(stored) - 1)) :]
    else:
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(stored)
    starts = np.cumsum([0, *(len(d) + 16 for d in datas)])
    try:
        with RecordFiles.open([str(path)], spool_folder=str(folder / "spool")) as files:
            found = [bytes(d) for d in files.read_range(0, len(files))]
            # cut between two records, a plain file is a whole shorter one
            assert found == datas[: len(found)]
            assert len(found) == len(datas) or form is None
    except CorruptRecord as error:
        assert error.file == str(path)
        assert error.record is not None and error.byte == starts[error.record]
    assert not list(folder.glob("spool/*"))


def test_the_damaged_record_is_named(tmp_path: Path) -> None:
    datas = some(60, uniform=True)
    for form in FORMS:
        path = tmp_path / f"f-{form}"
        framed = [frame(d) for d in datas]
        broken = bytearray(framed[37])
        broken[100] ^= 1
        framed[37] = bytes(broken)
        whole = b"".join(framed)
        if form is None:
            path.write_bytes(whole)
        elif form == "indexed":
            from patchbeam.records.gzip import member

            path.write_bytes(b"".join(member(b"".join(framed[a : a + 20]), records=20) for a in (0, 20, 40)))
        else:
            path.write_bytes(gzip.compress(whole))
        with (
            RecordFiles.open([str(path)], spool_folder=str(tmp_path / "s")) as files,
            pytest.raises(CorruptRecord, match="CRC") as caught,
        ):
            list(files.read_range(30, 10))
        assert (caught.value.file, caught.value.record, caught.value.byte) == (str(path), 37, 37 * 316)


def test_a_huge_length_takes_no_memory(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**60)
    (tmp_path / "f").write_bytes(length + struct.pack("<I", masked_crc(length)) + bytes(100))
    with pytest.raises(CorruptRecord, match="1152921504606846976 bytes"):
        RecordFiles.open([str(tmp_path / "f")], spool_folder=str(tmp_path))


def test_members_of_two_tools_in_one_file_are_read(tmp_path: Path) -> None:
    datas = some(30)
    write(tmp_path / "a", datas[:15], "indexed")
    (tmp_path / "b").write_bytes(
        (tmp_path / "a").read_bytes() + gzip.compress(b"".join(map(frame, datas[15:])))
    )
    with RecordFiles.open([str(tmp_path / "b")], spool_folder=str(tmp_path / "s")) as files:
        assert (
            [bytes(d) for d in files.read_range(0, 30)]
            == datas
            == [bytes(d) for d in read_records(tmp_path / "b")]
        )
