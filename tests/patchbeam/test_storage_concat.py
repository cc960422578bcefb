"""Files joined from pieces: ranges, links, chunks, and disks that fill."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from storage_faults import failing, leftovers, replace_but_not_from

from patchbeam import storage
from patchbeam.errors import ReadFailed, WriteFailed
from patchbeam.storage import FileRange


@pytest.fixture
def pieces(tmp_path: Path) -> list[str]:
    paths = [str(tmp_path / "parts" / f"{i}") for i in range(3)]
    for i, path in enumerate(paths):
        storage.write_atomic(path, bytes([i]) * (100_000 + i))
    return paths


def test_concat(tmp_path: Path, pieces: list[str]) -> None:
    path = str(tmp_path / "new" / "shard")
    parts: list[storage.Part] = [
        b"head",
        pieces[0],
        FileRange(path=pieces[1], start=10, length=70_000),
        (pieces[2], 100_000, 2),
        (pieces[2], 5, 0),
        np.arange(3, dtype=np.uint8),
        pieces[0],
    ]
    zero, one = bytes(100_000), b"\1" * 70_000
    expected = b"head" + zero + one + b"\2\2" + b"\0\1\2" + zero
    found = storage.concat(parts, path)
    assert (found.size_bytes, found.crc32c) == (len(expected), storage.crc32c_of(path))
    assert storage.read_bytes(path) == expected
    assert all(storage.exists(piece) for piece in pieces)
    assert leftovers(tmp_path) == []
    assert storage.concat([], path).size_bytes == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_large_parts_are_copied_in_chunks(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = np.random.default_rng(1).integers(0, 256, (20 << 20) + 5, np.uint8)
    storage.write_atomic(f"{tmp_path}/big", data)
    real = os.preadv
    # the system may give less than it is asked for
    monkeypatch.setattr(os, "preadv", lambda file, views, at: real(file, [views[0][:700_001]], at))
    path = f"{tmp_path}/all"
    parts: list[storage.Part] = [b"a", (f"{tmp_path}/big", 3, (20 << 20) - 9), b"b", f"{tmp_path}/big"]
    found = storage.concat(parts, path, threads=threads)
    monkeypatch.undo()
    assert found.crc32c == storage.crc32c_of(path)
    whole = data.tobytes()
    assert storage.read_bytes(path) == b"a" + whole[3 : (20 << 20) - 6] + b"b" + whole


def test_ranges_that_follow_each_other_are_one(tmp_path: Path, pieces: list[str]) -> None:
    """The whole of a file perhaps, which is then not copied."""
    path = str(tmp_path / "shard")
    ranges: list[storage.Part] = [(pieces[1], 0, 5), (pieces[1], 5, 90_000), (pieces[1], 90_005, 9_996)]
    assert storage.concat(ranges, path, consume=True).crc32c is None
    assert os.path.samefile(pieces[1], path)
    for other in ([*ranges[1:], ranges[0]], [*ranges, (pieces[0], 0, 5)], ranges[:2]):
        assert storage.concat(other, path, consume=True).crc32c is not None
        assert storage.read_bytes(path) == b"".join(storage.read_bytes(*part) for part in other)  # type: ignore[misc]


@pytest.mark.parametrize("threads", [1, 3])
def test_sum_of_a_file(tmp_path: Path, threads: int) -> None:
    data = np.random.default_rng(1).integers(0, 256, (20 << 20) + 5, np.uint8)
    for size in (0, 1, data.size):
        written = storage.write_atomic(f"{tmp_path}/big", data[:size])
        assert storage.crc32c_of(f"{tmp_path}/big", threads=threads) == written.crc32c


def test_written_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tmp_path}/new/file"
    real = os.pwrite
    # the system may take less than it is given
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: real(file, data[:3], at))
    storage.write_at(path, 10, np.arange(8, dtype=np.uint8))
    storage.write_at(path, 2, b"abcd")
    storage.write_at(path, 12, b"")
    assert storage.read_bytes(path) == bytes(2) + b"abcd" + bytes(4) + bytes(range(8))
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    with pytest.raises(WriteFailed, match=r"cannot write 3 bytes from byte 7 on.*ENOSPC.*make room"):
        storage.write_at(path, 7, b"abc")
    with pytest.raises(WriteFailed, match="create"):
        storage.write_at(f"{path}/below", 0, b"a")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 50)), max_size=6))
def test_concat_of_any_ranges(ranges: list[tuple[int, int, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        contents = [bytes(range(i, i + 100)) for i in range(3)]
        for i, content in enumerate(contents):
            storage.write_atomic(f"{folder}/{i}", content)
        storage.concat([(f"{folder}/{i}", start, length) for i, start, length in ranges], f"{folder}/all")
        expected = b"".join(contents[i][start : start + length] for i, start, length in ranges)
        assert storage.read_bytes(f"{folder}/all") == expected


@pytest.mark.parametrize("links", [True, False])
def test_a_single_whole_piece_is_not_copied(
    tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", failing(errno.EOPNOTSUPP))
    monkeypatch.setattr(storage.joining, "Replacing", failing(errno.EIO))  # any copy would fail
    inode = os.stat(pieces[0]).st_ino
    path = str(tmp_path / "new" / "shard")
    assert storage.concat([pieces[0]], path, consume=True).size_bytes == 100_000
    assert os.stat(path).st_ino == inode
    if links:  # a task that is run again finds its piece again
        assert storage.concat([(pieces[0], 0, 100_000)], path, consume=True).size_bytes == 100_000
        assert os.stat(path).st_ino == inode
    assert storage.exists(pieces[0]) == links
    storage.delete_tree(str(tmp_path / "parts"))
    assert storage.read_bytes(path) == bytes(100_000)
    assert leftovers(tmp_path) == []


def test_a_piece_is_copied_when_it_cannot_be_moved_or_is_not_whole(
    tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "shard")
    storage.concat([(pieces[0], 0, 99_999)], path, consume=True)
    assert storage.stat(path).size_bytes == 99_999
    monkeypatch.setattr(os, "link", failing(errno.EXDEV))
    monkeypatch.setattr(storage.local.os, "replace", replace_but_not_from(pieces[0]))
    storage.concat([pieces[0]], path, consume=True)
    assert storage.stat(path).size_bytes == 100_000
    assert storage.exists(pieces[0])
    assert leftovers(tmp_path) == []


def test_parts_that_are_missing_or_short(tmp_path: Path, pieces: list[str]) -> None:
    path = str(tmp_path / "shard")
    with pytest.raises(ReadFailed, match=r"parts/9: cannot open: .*ENOENT"):
        storage.concat([pieces[0], f"{tmp_path}/parts/9"], path)
    with pytest.raises(ReadFailed, match="parts/9"):
        storage.concat([f"{tmp_path}/parts/9"], path, consume=True)
    with pytest.raises(
        ReadFailed, match=r"parts/0: 11 bytes are wanted from byte 99990.*ends at byte 100000"
    ):
        storage.concat([(pieces[0], 99_990, 11)], path)
    with pytest.raises(ValueError, match="no range"):
        storage.concat([(pieces[0], -1, 11)], path)
    assert not storage.exists(path)
    assert leftovers(tmp_path) == []


def test_a_disk_that_fills_while_parts_are_joined(
    tmp_path: Path, pieces: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", failing(errno.ENOSPC))
    with pytest.raises(WriteFailed, match=r"shard: cannot write 100000 bytes .*: .*ENOSPC"):
        storage.concat([pieces[0]], str(tmp_path / "shard"))
    assert leftovers(tmp_path) == []
