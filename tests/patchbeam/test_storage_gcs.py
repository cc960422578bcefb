from __future__ import annotations

import errno
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c as crc_of
from google.api_core.exceptions import Forbidden, PreconditionFailed
from storage_emulator import emulated_bucket

from patchbeam import storage
from patchbeam.errors import JobError, OutputExists, OutputUnusable, ReadFailed, WriteFailed
from patchbeam.storage import gcs_client, gcs_write


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with emulated_bucket() as url:
        yield url


@pytest.fixture
def bucket(server: str) -> Iterator[str]:
    yield server
    for name in storage.list_names(f"{server}/"):
        storage.delete(name)
    for folder in ("out", "parts", "deep"):
        storage.delete_tree(f"{server}/{folder}")


def test_write_read_stat(bucket: str) -> None:
    path = f"{bucket}/out/scene-0"
    written = storage.write_atomic(path, np.arange(100, dtype=np.uint8))
    data = bytes(range(100))
    assert written == storage.stat(path)
    assert written.size_bytes == 100
    assert written.crc32c == storage.crc32c_of(path) == storage.crc32c_text(crc_of(data))
    assert written.modified
    assert storage.exists(path) and not storage.exists(f"{bucket}/out")
    assert storage.read_bytes(path) == data
    assert storage.read_bytes(path, 10, 5) == data[10:15]
    assert storage.read_bytes(path, 90) == data[90:]
    assert storage.read_bytes(path, 98, 5) == data[98:]
    assert storage.read_bytes(path, 3, 0) == storage.read_bytes(path, 100, 5) == b""
    assert storage.free_bytes(bucket) is None


def test_gzip_arrives_as_it_was_stored(bucket: str) -> None:
    path = f"{bucket}/out/scene.gz"
    data = gzip.compress(b"patch" * 1000)
    storage.write_atomic(path, data)
    assert storage.read_bytes(path) == data
    with storage.open_read(path) as file:
        assert gzip.decompress(file.read()) == b"patch" * 1000


def test_names_are_those_of_the_prefix(bucket: str) -> None:
    for name in ("scene-1", "scene-0", "scene2", "other", "scene-parts/0", ".patchbeam-0"):
        storage.write_atomic(f"{bucket}/out/{name}", b"x")
    assert storage.list_names(f"{bucket}/out/scene") == [
        f"{bucket}/out/{name}" for name in ("scene-0", "scene-1", "scene2")
    ]
    assert storage.list_names(f"{bucket}/none/") == []
    assert len(storage.list_names(f"{bucket}/out/")) == 4
    storage.delete_tree(f"{bucket}/out/scene-parts/")
    storage.delete_tree(f"{bucket}/out/scene-parts")
    assert not storage.exists(f"{bucket}/out/scene-parts/0")
    assert storage.exists(f"{bucket}/out/scene-0")
    for whole in (bucket, f"{bucket}/"):
        with pytest.raises(ValueError, match="whole bucket"):
            storage.delete_tree(whole)


def test_an_open_object_can_be_sought(bucket: str) -> None:
    path = f"{bucket}/out/a"
    data = np.random.default_rng(0).bytes(9_000_000)
    storage.write_atomic(path, data)
    with storage.open_read(path) as file:
        file.seek(-10, 2)
        assert file.read() == data[-10:]
        file.seek(7)
        assert file.read(70) == data[7:77] and file.tell() == 77
        assert file.read() == data[77:]
        assert file.read() == b""
    assert b"".join(storage.read_chunks(path)) == data


def test_what_is_missing_is_named(bucket: str) -> None:
    path = f"{bucket}/none"
    for read in (storage.read_bytes, storage.open_read, storage.stat, storage.crc32c_of):
        with pytest.raises(ReadFailed) as caught:
            read(path)
        assert path in str(caught.value)
        assert caught.value.errno == errno.ENOENT
    storage.delete(path)
    with pytest.raises(WriteFailed, match="cannot move"):
        storage.rename(path, f"{bucket}/else")
    for bad in ("gs://", "gs:///x", "gs://bucket"):
        with pytest.raises(JobError, match="gs://bucket/name"):
            storage.read_bytes(bad)


@pytest.mark.parametrize("size", [0, 1, (16 << 20) - 1, 16 << 20, (16 << 20) + 5, 32 << 20])
def test_uploads_of_any_size(bucket: str, size: int) -> None:
    path = f"{bucket}/out/a"
    data = np.random.default_rng(1).integers(0, 256, size, dtype=np.uint8)
    step = max(1, -(-size // 7))
    written = storage.write_parts(path, (data[i : i + step] for i in range(0, size, step)))
    assert written.size_bytes == size
    assert storage.read_bytes(path) == data.tobytes()


def test_no_object_is_left_when_a_buffer_fails(bucket: str) -> None:
    path = f"{bucket}/out/a"

    def buffers() -> Iterator[bytes]:
        yield bytes(20 << 20)
        raise ReadFailed("source.tif: gone")

    with pytest.raises(ReadFailed, match=r"source\.tif: gone"):
        storage.write_parts(path, buffers())
    assert not storage.exists(path)


def test_concat(bucket: str, tmp_path: Path) -> None:
    names = [f"{bucket}/parts/{i:02}" for i in range(3)]
    for i, name in enumerate(names):
        storage.write_atomic(name, bytes([i]) * 100)
    local = str(tmp_path / "local")
    storage.write_atomic(local, b"local")
    path = f"{bucket}/out/shard"
    parts: list[storage.Part] = [
        b"head",
        names[0],
        (names[1], 10, 5),
        local,
        (local, 1, 2),
        names[2],
        b"tail",
    ]
    expected = b"head" + bytes(100) + b"\1" * 5 + b"localoc" + b"\2" * 100 + b"tail"
    written = storage.concat(parts, path)
    assert storage.read_bytes(path) == expected
    assert written.crc32c == storage.crc32c_text(crc_of(expected))
    assert written.size_bytes == len(expected)
    assert _everything(bucket) == sorted([*names, path])
    # and the other way: remote parts into a local file
    storage.concat([names[0], (names[1], 10, 5), b"tail"], local)
    assert storage.read_bytes(local) == bytes(100) + b"\1" * 5 + b"tail"
    with pytest.raises(ReadFailed, match="ends at byte 100"):
        storage.concat([(names[1], 98, 5)], path)
    with pytest.raises(WriteFailed, match="cannot compose 2 objects"):
        storage.concat([names[0], f"{bucket}/parts/none"], path)


def test_concat_without_parts_and_of_one(bucket: str) -> None:
    path = f"{bucket}/out/shard"
    assert storage.concat([], path).size_bytes == 0
    assert storage.concat([b"x"], path).size_bytes == 1
    storage.write_atomic(f"{bucket}/parts/0", b"abc")
    assert storage.concat([f"{bucket}/parts/0"], path, consume=True).size_bytes == 3
    assert storage.read_bytes(path) == b"abc"


def test_many_objects_are_composed_in_rounds(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs_write, "_MOST_COMPOSED", 3)
    names = [f"{bucket}/parts/{i:02}" for i in range(22)]
    for i, name in enumerate(names):
        storage.write_atomic(name, bytes([i]) * (i + 1))
    sizes = []
    compose = gcs_write._compose

    def counted(sources: Any, destination: str) -> str:
        sizes.append(len(sources))
        return compose(sources, destination)

    monkeypatch.setattr(gcs_write, "_compose", counted)
    path = f"{bucket}/out/shard"
    storage.concat(names, path)
    assert storage.read_bytes(path) == b"".join(bytes([i]) * (i + 1) for i in range(22))
    assert max(sizes) == 3
    assert _everything(bucket) == sorted([*names, path])


def test_rename(bucket: str) -> None:
    storage.write_atomic(f"{bucket}/parts/a", b"data")
    storage.rename(f"{bucket}/parts/a", f"{bucket}/out/b")
    assert storage.read_bytes(f"{bucket}/out/b") == b"data"
    assert not storage.exists(f"{bucket}/parts/a")


def test_create_new(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{bucket}/out/lock"
    storage.create_new(path, b"first")
    assert storage.read_bytes(path) == b"first"
    # The emulator takes no conditions, so the answer of the real store is put in its place.
    blob_type = type(gcs_client.blob_of(path))
    asked = []

    def refuse(self: Any, data: bytes, **options: Any) -> None:
        asked.append(options["if_generation_match"])
        raise PreconditionFailed("conditionNotMet")

    monkeypatch.setattr(blob_type, "upload_from_string", refuse)
    with pytest.raises(OutputExists, match="lock: exists already"):
        storage.create_new(path, b"second")
    storage.create_new(path, b"first")  # its own first try, whose answer was lost
    assert asked == [0, 0]


def test_check_writable(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.check_writable(f"{bucket}/out/scene")
    storage.check_writable(f"{bucket}/scene")
    assert _everything(bucket) == []
    with pytest.raises(OutputUnusable, match="gs://none/out/scene: cannot write here"):
        storage.check_writable("gs://none/out/scene")

    def refuse(*_: Any, **__: Any) -> None:
        raise Forbidden("storage.objects.create denied")

    monkeypatch.setattr(type(gcs_client.blob_of(f"{bucket}/x")), "upload_from_string", refuse)
    with pytest.raises(OutputUnusable, match=r"storage\.objects\.create denied"):
        storage.check_writable(f"{bucket}/out/scene")


def test_damage_on_the_way_is_found(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blob_type = type(gcs_client.blob_of(f"{bucket}/x"))
    upload = blob_type.upload_from_string
    monkeypatch.setattr(
        blob_type, "upload_from_string", lambda self, data, **o: upload(self, b"X" + data[1:], **o)
    )
    with pytest.raises(WriteFailed, match="damaged on the way"):
        storage.write_atomic(f"{bucket}/out/a", b"abc")


def _everything(bucket: str) -> list[str]:
    name = bucket.removeprefix("gs://")
    return sorted(f"{bucket}/{blob.name}" for blob in gcs_client.client().list_blobs(name))
