"""Remote exports: fetched once, resumed, checked, and clear about what is not there."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from storage_emulator import emulated_bucket
from training_sets import write_export

from patchbeam import storage
from patchbeam.data import DataProvider, DownloadFailed, Offline, PatchDatabase
from patchbeam.data.remote import NotThere, fetch
from patchbeam.errors import JobError, WriteFailed


class Server:
    """Files of a folder over loopback, with ranges; can break connections off and lie."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.cut_after: int | None = None
        self.status: int | None = None
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range")
                server.asked.append((self.path, wanted))
                path = folder / self.path.lstrip("/")
                if server.status is not None or not path.exists():
                    self.send_error(server.status or 404)
                    return
                data = path.read_bytes()
                tag = f'"{path.stat().st_mtime_ns}"'
                start = 0
                if wanted and self.headers.get("If-Range") == tag:
                    start = int(wanted.removeprefix("bytes=").rstrip("-"))
                self.send_response(206 if start else 200)
                self.send_header("ETag", tag)
                self.send_header("Content-Length", str(len(data) - start))
                self.end_headers()
                end = None
                if server.cut_after is not None:
                    end, server.cut_after = start + server.cut_after, None
                self.wfile.write(data[start:end])

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("patchbeam.data.remote._PAUSE_S", 0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    (tmp_path / "www").mkdir()
    made = Server(tmp_path / "www")
    yield made
    made.close()


@pytest.mark.parametrize("gzip", [None, "zlib6"])
def test_an_export_on_the_web_is_fetched_shard_by_shard_and_then_kept(
    server: Server, tmp_path: Path, gzip: str | None
) -> None:
    written = write_export(tmp_path / "www", gzip=gzip)
    database = PatchDatabase(f"{server.url}/scene")
    assert [path for path, _ in server.asked] == ["/scene-manifest.json"] and len(database) == 12
    assert (database[7][0] == written.pixels[7]).all()
    assert [Path(path).name for path, _ in server.asked[1:]] == [written.files[1].name]
    assert (DataProvider(database, 12)[0][0] == written.pixels).all()
    asked = len(server.asked)
    server.close()
    again = PatchDatabase(f"{server.url}/scene", offline=True)
    assert (DataProvider(again, 12)[0][0] == written.pixels).all() and len(server.asked) == asked


def test_without_a_manifest_files_are_listed_by_hand(server: Server, tmp_path: Path) -> None:
    written = write_export(tmp_path / "www", sidecar="mixer")
    with pytest.raises(JobError, match=r"cannot be listed; give all files"):
        PatchDatabase(f"{server.url}/scene")
    files = [f"{server.url}/{file.name}" for file in written.files]
    database = PatchDatabase(files, mixer=f"{server.url}/scene-mixer.json")
    assert (DataProvider(database, 12)[0][0] == written.pixels).all()


def test_a_broken_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(3_000_000)
    (tmp_path / "www" / "file").write_bytes(data)
    server.cut_after = 1_200_000
    assert fetch(f"{server.url}/file").read_bytes() == data
    assert server.asked[0][1] is None and server.asked[1][1] == "bytes=1200000-"


def test_a_file_replaced_meanwhile_comes_whole(server: Server, tmp_path: Path) -> None:
    (tmp_path / "www" / "file").write_bytes(b"a" * 3_000_000)
    server.cut_after = 1_200_000
    with pytest.raises(DownloadFailed, match=r"cannot be fetched"):
        fetch(f"{server.url}/file", tries=1)
    (tmp_path / "www" / "file").write_bytes(b"b" * 2_000_000)
    assert fetch(f"{server.url}/file").read_bytes() == b"b" * 2_000_000


def test_what_is_not_what_it_should_be_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "www" / "file").write_bytes(b"abc")
    with pytest.raises(DownloadFailed, match=r"3 bytes came, 4 are due"):
        fetch(f"{server.url}/file", size_bytes=4)
    with pytest.raises(DownloadFailed, match=r"CRC-32C is .*, not AAAAAA=="):
        fetch(f"{server.url}/file", crc32c="AAAAAA==")
    with pytest.raises(DownloadFailed, match=r"SHA-256 is ba7816bf.*, not 00"):
        fetch(f"{server.url}/file", sha256="00")
    good = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert fetch(f"{server.url}/file", sha256=good).read_bytes() == b"abc"
    with pytest.raises(NotThere, match=r"no such file \(status 404\)"):
        fetch(f"{server.url}/nothing")
    server.status = 503
    before = len(server.asked)
    with pytest.raises(DownloadFailed, match=r"status 503"):
        fetch(f"{server.url}/file", tries=3)
    assert len(server.asked) == before + 3


def test_offline_is_a_clear_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_OFFLINE", "1")
    with pytest.raises(Offline, match=r"scene-manifest.json: not in the cache .* fetching is switched off"):
        PatchDatabase(f"{server.url}/scene")
    assert server.asked == []


def test_a_cache_that_cannot_be_written_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "www" / "file").write_bytes(b"abc")
    (tmp_path / "blocked").write_text("a file, not a folder")
    with pytest.raises(WriteFailed, match=r"PATCHBEAM_CACHE"):
        fetch(f"{server.url}/file", root=tmp_path / "blocked")


def test_two_threads_fetch_once(server: Server, tmp_path: Path) -> None:
    (tmp_path / "www" / "file").write_bytes(b"x" * 2_000_000)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(fetch(f"{server.url}/file"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(server.asked) == 1


@pytest.mark.parametrize("gzip", [None, "indexed"])
def test_an_export_in_cloud_storage(tmp_path: Path, gzip: str | None) -> None:
    written = write_export(tmp_path / "local", gzip=gzip)
    with emulated_bucket() as bucket:
        for file in sorted((tmp_path / "local").iterdir()):
            storage.write_atomic(f"{bucket}/out/{file.name}", file.read_bytes())
        database = PatchDatabase(f"{bucket}/out/scene")
        assert (DataProvider(database, 12)[0][0] == written.pixels).all()
        storage.write_atomic(f"{bucket}/other/scene-00000.tfrecord", b"")
        with pytest.raises(JobError, match=r"neither manifest nor mixer"):
            PatchDatabase(f"{bucket}/other/scene")
    again = PatchDatabase(f"{bucket}/out/scene", offline=True)
    assert (again[11][0] == written.pixels[11]).all()
