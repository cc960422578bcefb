from __future__ import annotations

import errno
import mmap
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam import storage
from patchbeam.errors import JobError, OutputExists, OutputUnusable, ReadFailed, WriteFailed
from patchbeam.storage import FileRange, replace


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".")]


def failing(number: int, after: int = 0) -> Callable[..., Any]:
    """A call that raises an OSError the (after + 1)th time, and every time from then on."""
    calls = iter(range(10**9))

    def call(*_: Any, **__: Any) -> int:
        if next(calls) >= after:
            raise OSError(number, os.strerror(number))
        return 0

    return call


# --- paths -----------------------------------------------------------------------------------------


def test_local_and_remote_paths() -> None:
    assert storage.is_remote("gs://b/x") and storage.is_remote("GS://b/x")
    assert not storage.is_remote("a/gs:/b") and not storage.is_remote("/a/b") and not storage.is_remote("a:b")
    for path in ("s3://b/x", "https://host/x", "file:///x"):
        with pytest.raises(JobError, match="not a place for files"):
            storage.is_remote(path)
    with pytest.raises(JobError):
        storage.concat(["s3://b/x"], "out")


def test_join_and_split() -> None:
    assert storage.join("out", "a", "b") == os.path.join("out", "a", "b")
    assert storage.join("", "b") == "b"
    assert storage.join("gs://b", "c") == "gs://b/c"
    assert storage.join("gs://b/c/", "d/", "e") == "gs://b/c/d/e"
    for path in ("out/a", "a", "gs://b/c", "gs://b/c/d", "gs://b/c/"):
        folder, name = storage.split(path)
        assert name == path.rpartition("/")[2]
        assert storage.join(folder, name) == path
    assert storage.split("gs://b") == ("gs://b", "")


# --- reading ---------------------------------------------------------------------------------------


def test_names_are_those_of_the_prefix(tmp_path: Path) -> None:
    for name in ("scene-1", "scene-0", "scene2", "other", ".patchbeam-0.tmp"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "scene-parts").mkdir()
    (tmp_path / "scene-parts" / "0").write_bytes(b"")
    prefix = str(tmp_path / "scene")
    assert storage.list_names(prefix) == [f"{prefix}-0", f"{prefix}-1", f"{prefix}2"]
    assert storage.list_names(f"{tmp_path}/scene-parts/") == [f"{tmp_path}/scene-parts/0"]
    assert storage.list_names(f"{tmp_path}/none/scene") == []
    assert len(storage.list_names(f"{tmp_path}/")) == 4
    with pytest.raises(ReadFailed, match="ENOTDIR"):
        storage.list_names(f"{tmp_path}/other/scene")


def test_names_of_a_relative_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage.write_atomic("scene-0", b"")
    storage.write_atomic("out/scene-0", b"")
    assert storage.list_names("sc") == ["scene-0"]
    assert storage.list_names("out/s") == ["out/scene-0"]


def test_ranges(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    storage.write_atomic(path, bytes(range(100)))
    assert storage.read_bytes(path) == bytes(range(100))
    assert storage.read_bytes(path, 10, 5) == bytes(range(10, 15))
    assert storage.read_bytes(path, 90) == bytes(range(90, 100))
    assert storage.read_bytes(path, 98, 5) == bytes([98, 99])
    assert (
        storage.read_bytes(path, 100, 5)
        == storage.read_bytes(path, 500)
        == storage.read_bytes(path, 3, 0)
        == b""
    )
    assert b"".join(storage.read_chunks(path, 5, 90)) == bytes(range(5, 95))
    with pytest.raises(ReadFailed, match="ends at byte 100"):
        list(storage.read_chunks(path, 50, 51))
    with pytest.raises(ValueError, match="no range"):
        storage.read_bytes(path, -1)


def test_missing_files_are_named_with_the_reason(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    for read in (storage.read_bytes, storage.open_read, storage.stat, storage.crc32c_of):
        with pytest.raises(ReadFailed) as caught:
            read(path)
        assert path in str(caught.value) and "ENOENT" in str(caught.value)
        assert caught.value.errno == errno.ENOENT
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ReadFailed, match="EISDIR"):
        storage.open_read(str(tmp_path))
    assert not storage.exists(path) and not storage.exists(str(tmp_path))


def test_open_files_can_be_sought_and_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "a")
    data = np.random.default_rng(0).bytes(1_000_000)
    storage.write_atomic(path, data)
    with storage.open_read(path) as file:
        file.seek(999_990)
        assert file.read() == data[-10:]
        file.seek(7)
        assert file.read(70) == data[7:77] and file.tell() == 77
        assert file.read() == data[77:]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            assert view[:] == data


def test_an_error_while_reading_names_the_file(tmp_path: Path) -> None:
    path = "/proc/self/mem"  # opens, and fails at the first read
    if not os.path.exists(path):
        pytest.skip("no such file here")
    with storage.open_read(path) as file, pytest.raises(ReadFailed, match="/proc/self/mem: cannot read"):
        file.read(10)


def test_stat_and_checksum(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    written = storage.write_atomic(path, b"123456789")
    assert written.size_bytes == 9
    assert written.crc32c == storage.crc32c_of(path) == "4waSgw=="  # e3069283, the check value of CRC-32C
    assert storage.crc32c_number("4waSgw==") == 0xE3069283
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    assert storage.stat(path) == storage.FileStat(size_bytes=9, modified="2023-11-14T22:13:20.123456789Z")
    with pytest.raises(ValueError, match="CRC-32C"):
        storage.crc32c_number("AAA=")


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_checksums_combine(first: bytes, second: bytes) -> None:
    both = storage.crc32c_combine(google_crc32c.value(first), google_crc32c.value(second), len(second))
    assert both == google_crc32c.value(first + second)


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**50)), min_size=3, max_size=3))
def test_checksums_combine_in_any_grouping(parts: list[tuple[int, int]]) -> None:
    (a, _), (b, b_length), (c, c_length) = parts
    combine = storage.crc32c_combine
    left = combine(combine(a, b, b_length), c, c_length)
    assert left == combine(a, combine(b, c, c_length), b_length + c_length)


# --- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"abc", bytearray(b"abc"), memoryview(b"abc"), np.arange(6, dtype="<f4").reshape(2, 3)]
)
def test_any_buffer_is_written(tmp_path: Path, data: Any) -> None:
    path = str(tmp_path / "new" / "folder" / "a")
    content = data.tobytes() if isinstance(data, np.ndarray) else bytes(data)
    assert storage.write_atomic(path, data).size_bytes == len(content)
    assert storage.read_bytes(path) == content
    storage.write_atomic(path, b"again")
    assert storage.read_bytes(path) == b"again"
    assert leftovers(tmp_path) == []


def test_one_buffer_may_be_used_again_and_again(tmp_path: Path) -> None:
    buffer = np.zeros(300_000, np.uint8)

    def buffers() -> Iterator[Any]:
        for value in range(9):
            buffer[:] = value
            yield buffer

    path = str(tmp_path / "a")
    written = storage.write_parts(path, buffers())
    expected = np.repeat(np.arange(9, dtype=np.uint8), 300_000).tobytes()
    assert storage.read_bytes(path) == expected
    assert written.crc32c == storage.crc32c_of(path) == storage.crc32c_text(google_crc32c.value(expected))


def test_what_the_buffers_raise_goes_through_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def buffers() -> Iterator[bytes]:
        yield b"some"
        raise ReadFailed("source.tif: gone")

    with pytest.raises(ReadFailed, match=r"source\.tif: gone"):
        storage.write_parts(str(path), buffers())
    assert path.read_bytes() == b"before"
    assert leftovers(tmp_path) == []


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "shard"
    path.write_bytes(b"before")
    small = open("/dev/full", "wb", 1 << 20)  # noqa: SIM115

    def full(*_: Any, **__: Any) -> Any:
        return small

    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    monkeypatch.setattr(replace, "open", full, raising=False)
    with pytest.raises(WriteFailed) as caught:
        storage.write_parts(str(path), [bytes(3 << 20), bytes(5 << 20)])
    message = str(caught.value)
    assert str(path) in message and "ENOSPC" in message and "write 3145728 bytes" in message
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"before"


def test_a_disk_that_is_full_at_the_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    small = open("/dev/full", "wb", 1 << 20)  # noqa: SIM115
    monkeypatch.setattr(replace, "open", lambda *_: small, raising=False)
    with pytest.raises(WriteFailed, match=r"a: cannot write \(after 4 bytes\): .*ENOSPC.*make room"):
        storage.write_atomic(str(tmp_path / "a"), b"tiny")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_and_the_other_way_round(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteFailed, match="EISDIR"):
        storage.write_atomic(str(tmp_path / "folder"), b"x")
    with pytest.raises(WriteFailed, match=r"file/a: cannot create: .*(ENOTDIR|EEXIST)"):
        storage.write_atomic(str(tmp_path / "file" / "a"), b"x")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("links", [True, False])
def test_create_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:
        monkeypatch.setattr(os, "link", failing(errno.EPERM))
    path = str(tmp_path / "locks" / "lock")
    storage.create_new(path, b"first")
    with pytest.raises(OutputExists, match="lock: exists already"):
        storage.create_new(path, b"second")
    with pytest.raises(FileExistsError):
        storage.create_new(path, b"second")
    assert storage.read_bytes(path) == b"first"
    assert leftovers(tmp_path) == []


def test_of_many_writers_one_creates(tmp_path: Path) -> None:
    program = (
        "import sys; from patchbeam import storage\n"
        "try: storage.create_new(sys.argv[1], sys.argv[2].encode()); print('made')\n"
        "except FileExistsError: print('there')"
    )
    path = str(tmp_path / "lock")
    root = Path(__file__).resolve().parents[2]
    runs = [
        subprocess.Popen([sys.executable, "-c", program, path, str(i)], stdout=subprocess.PIPE, cwd=root)
        for i in range(3)
    ]
    answers = [run.communicate(timeout=60)[0].decode().strip() for run in runs]
    assert sorted(answers) == ["made", "there", "there"]
    assert storage.read_bytes(path).decode() == str(answers.index("made"))


# --- joining ---------------------------------------------------------------------------------------


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
    monkeypatch.setattr(storage.local.os, "replace", _replace_but_not_from(pieces[0]))
    storage.concat([pieces[0]], path, consume=True)
    assert storage.stat(path).size_bytes == 100_000
    assert storage.exists(pieces[0])
    assert leftovers(tmp_path) == []


def _replace_but_not_from(piece: str) -> Callable[[str, str], None]:
    real = os.replace

    def call(source: str, destination: str) -> None:
        if source == piece:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, destination)

    return call


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


# --- moving and deleting ---------------------------------------------------------------------------


def test_rename_and_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "new" / "b")
    storage.write_atomic(first, b"data")
    storage.rename(first, second)
    assert not storage.exists(first) and storage.read_bytes(second) == b"data"
    with monkeypatch.context() as patch:
        patch.setattr(storage.local.os, "replace", _replace_but_not_from(second))
        storage.rename(second, first)
    assert not storage.exists(second) and storage.read_bytes(first) == b"data"
    with pytest.raises(WriteFailed, match="cannot move"):
        storage.rename(second, first)
    with pytest.raises(JobError, match="one of them is in Cloud Storage"):
        storage.rename(first, "gs://b/a")
    storage.rename(first, first)
    os.link(first, second)  # two names of one file
    storage.rename(second, first)
    assert not storage.exists(second) and storage.read_bytes(first) == b"data"
    storage.delete(first)
    storage.delete(first)
    assert not storage.exists(first)
    with pytest.raises(WriteFailed, match="cannot delete"):
        storage.delete(str(tmp_path / "new"))


def test_delete_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_atomic(str(tmp_path / "t" / "a" / "b"), b"")
    storage.write_atomic(str(tmp_path / "t2"), b"")
    storage.delete_tree(f"{tmp_path}/t/")
    storage.delete_tree(f"{tmp_path}/t")
    assert [path.name for path in tmp_path.iterdir()] == ["t2"]
    monkeypatch.chdir(tmp_path)
    for folder in ("", "/", ".", "..", str(tmp_path), str(tmp_path.parent)):
        with pytest.raises(ValueError, match="not deleted"):
            storage.delete_tree(folder)


# --- the destination -------------------------------------------------------------------------------


def test_check_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.check_writable(str(tmp_path / "scene"))
    storage.check_writable(str(tmp_path / "not" / "there" / "yet" / "scene"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputUnusable, match="file is a file, not a folder"):
        storage.check_writable(str(tmp_path / "file" / "deeper" / "scene"))
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(OutputUnusable, match="a link to nothing"):
        storage.check_writable(str(tmp_path / "link" / "scene"))
    for number, name in ((errno.EACCES, "EACCES"), (errno.EROFS, "EROFS"), (errno.ENOSPC, "ENOSPC")):
        with monkeypatch.context() as patch:
            patch.setattr(storage.local, "open", failing(number), raising=False)
            with pytest.raises(OutputUnusable, match=f"cannot write in .*{name}") as caught:
                storage.check_writable(str(tmp_path / "scene"))
        assert caught.value.exit_status == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(OutputUnusable, match="EACCES"):
        storage.check_writable(str(tmp_path / "scene"))


def test_free_bytes(tmp_path: Path) -> None:
    free = storage.free_bytes(str(tmp_path / "not" / "there"))
    assert free is not None and free > 0


def test_local_use_brings_in_no_google_client() -> None:
    program = (
        "import sys; from patchbeam import storage as s; s.exists('x'); print('google.cloud' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.strip() == "False"
