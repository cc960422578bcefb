from __future__ import annotations

import errno
import mmap
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c as crc_of
from hypothesis import given
from hypothesis import strategies as st
from storage_faults import failing, leftovers

from patchbeam import storage
from patchbeam.errors import JobError, OutputExists, ReadFailed, WriteFailed
from patchbeam.storage import replace

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
    both = storage.crc32c_combine(crc_of(first), crc_of(second), len(second))
    assert both == crc_of(first + second)


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
    assert written.crc32c == storage.crc32c_of(path) == storage.crc32c_text(crc_of(expected))


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
