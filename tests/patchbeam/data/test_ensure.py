"""The cache of ready-made sets under faults: what is there is whole, and nothing is fetched twice."""

from __future__ import annotations

import errno
import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import Server, digests_of, tgz
from shared import ROOT

from patchbeam import storage
from patchbeam.data import DownloadFailed, Offline, Resource, ensure
from patchbeam.data.errors import DataError
from patchbeam.data.extract import extract
from patchbeam.errors import JobError, WriteFailed

DATA = np.random.default_rng(0).integers(0, 256, 2 << 20).astype(np.uint8).tobytes()
FILES = {"set.tar.gz": tgz({"set/data.bin": DATA, "set/list.txt": b"data.bin"})}


def keep(sources: Mapping[str, Path], target: Path) -> None:
    os.replace(next(iter(sources.values())) / "set" / "data.bin", target / "data.bin")


def made_of(server: Server, **changes: Any) -> list[Resource]:
    known = {
        "name": "set.tar.gz",
        "urls": (f"{server.url}/set.tar.gz",),
        "sha256": digests_of(FILES)["set.tar.gz"],
        "size_bytes": len(FILES["set.tar.gz"]),
    }
    return [Resource(**{**known, **changes})]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr("patchbeam.data.remote._PAUSE_S", 0.01)
    with Server(FILES).running() as running:
        yield running


def left_over(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


def test_fetched_once_and_then_read_without_a_network(server: Server, tmp_path: Path) -> None:
    resources = made_of(server)
    folder = ensure("set", resources, keep, root=tmp_path)
    assert (folder / "data.bin").read_bytes() == DATA
    assert folder.parent == tmp_path / "datasets" / "set"
    assert sorted(left_over(tmp_path)) == ["about.json", "data.bin"]  # neither archive nor extracted files
    server.status = 500
    assert ensure("set", resources, keep, root=tmp_path, offline=True) == folder
    assert server.requests == [("set.tar.gz", 0)]
    assert ensure("set", resources, keep, root=tmp_path / "datasets" / "..", offline=True).name == folder.name


def test_another_version_or_digest_is_another_place(server: Server, tmp_path: Path) -> None:
    one = ensure("set", made_of(server), keep, root=tmp_path)
    assert ensure("set", made_of(server), keep, root=tmp_path, version="2") != one


def test_offline(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Offline, match=r"set: not in the cache \(.*PATCHBEAM_OFFLINE unset"):
        ensure("set", made_of(server), keep, root=tmp_path, offline=True)
    monkeypatch.setenv("PATCHBEAM_OFFLINE", "1")
    with pytest.raises(Offline):
        ensure("set", made_of(server), keep, root=tmp_path)
    assert server.requests == []


def test_server_gone(tmp_path: Path) -> None:
    resources = [Resource(name="a.tgz", urls=("http://127.0.0.1:9/a.tgz",), sha256="0" * 64)]
    with pytest.raises(DownloadFailed, match=r"127.0.0.1:9/a.tgz: cannot be fetched.*refused"):
        ensure("set", resources, keep, root=tmp_path)
    assert left_over(tmp_path) == []


def test_wrong_digest_and_wrong_size(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadFailed, match=r"its SHA-256 is .* not 0000"):
        ensure("set", made_of(server, sha256="0" * 64), keep, root=tmp_path)
    with pytest.raises(DownloadFailed, match="bytes came"):
        ensure("set", made_of(server, size_bytes=5), keep, root=tmp_path)
    assert left_over(tmp_path) == [] or all(name.endswith(".tag") for name in left_over(tmp_path))


def test_mirrors_are_tried_in_turn_and_held_to_the_same_digest(server: Server, tmp_path: Path) -> None:
    server.files["bad/set.tar.gz"] = b"another file of another size"
    urls = (f"{server.url}/none/set.tar.gz", f"{server.url}/bad/set.tar.gz", f"{server.url}/set.tar.gz")
    folder = ensure("set", made_of(server, urls=urls), keep, root=tmp_path)
    assert (folder / "data.bin").read_bytes() == DATA
    with pytest.raises(DownloadFailed, match="none of its 2 addresses"):
        ensure("set", made_of(server, urls=urls[:2]), keep, root=tmp_path / "other")


def test_ones_own_mirror(server: Server, tmp_path: Path) -> None:
    resources = made_of(server, urls=("http://127.0.0.1:9/set.tar.gz",))
    for number, url in enumerate((server.url, f"{server.url}/", f"{server.url}/set.tar.gz")):
        assert ensure("set", resources, keep, root=tmp_path / str(number), url=url)
    with pytest.raises(JobError, match=r"did you mean 'set.tar.gz'"):
        ensure("set", resources, keep, root=tmp_path, digests={"sett.tar.gz": None})


def test_truncated_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.cut_after = 1 << 20
    folder = ensure("set", made_of(server), keep, root=tmp_path)
    assert (folder / "data.bin").read_bytes() == DATA
    firsts = [first for _, first in server.requests]
    assert firsts[0] == 0 and firsts[1] >= 1 << 20 and len(firsts) == 2


CHILD = """
import sys, os
sys.path[:0] = [{root!r}, {tests!r}]
from pathlib import Path
from patchbeam.data import Resource, ensure
def keep(sources, target):
    if {hang!r}:
        (target / "half").write_text("x"); print("processing", flush=True)
        import time; time.sleep(60)
    folder = next(iter(sources.values()))
    os.replace(folder / "set" / "data.bin", target / "data.bin")
r = Resource(name="set.tar.gz", urls=({url!r},), sha256={sha!r})
print(ensure("set", [r], keep, root={cache!r}), flush=True)
"""


def child(server: Server, cache: Path, *, hang: bool = False) -> subprocess.Popen[str]:
    program = CHILD.format(
        root=str(ROOT),
        tests=str(ROOT / "tests"),
        hang=hang,
        url=f"{server.url}/set.tar.gz",
        sha=digests_of(FILES)["set.tar.gz"],
        cache=str(cache),
    )
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)


def test_killed_in_the_middle_of_the_download(server: Server, tmp_path: Path) -> None:
    server.pause_s = 0.05
    process = child(server, tmp_path)
    while server.sent.get("set.tar.gz", 0) < 1 << 20:
        time.sleep(0.02)
        assert process.poll() is None
    time.sleep(0.2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.pause_s = 0
    resources = made_of(server, size_bytes=None)
    folder = ensure("set", resources, keep, root=tmp_path)
    assert (folder / "data.bin").read_bytes() == DATA
    assert server.requests[-1][1] > 0, server.requests  # it went on


def test_killed_in_the_middle_of_processing(server: Server, tmp_path: Path) -> None:
    process = child(server, tmp_path, hang=True)
    assert process.stdout is not None and process.stdout.readline() == "processing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any("work-" in str(path) for path in tmp_path.rglob("half"))
    folder = ensure("set", made_of(server, size_bytes=None), keep, root=tmp_path)
    assert sorted(left_over(tmp_path)) == ["about.json", "data.bin"] and (folder / "data.bin").exists()
    assert len(server.requests) == 1  # the archive was whole already


def test_two_processes_at_once_make_one_download(server: Server, tmp_path: Path) -> None:
    server.pause_s = 0.01
    both = [child(server, tmp_path) for _ in range(2)]
    folders = [process.communicate(timeout=60)[0] for process in both]
    assert folders[0] == folders[1] and Path(folders[0].strip(), "data.bin").read_bytes() == DATA
    assert server.requests == [("set.tar.gz", 0)]


def test_disk_full_is_said_before_anything_is_fetched(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "free_bytes", lambda _: 1000)
    with pytest.raises(WriteFailed, match="1000 bytes free"):
        ensure("set", made_of(server), keep, root=tmp_path)
    assert server.requests == []


def test_disk_full_while_it_is_written(server: Server, tmp_path: Path) -> None:
    def fill(sources: Mapping[str, Path], target: Path) -> None:
        os.symlink("/dev/full", target / "data.bin")
        with open(target / "data.bin", "wb") as file:
            file.write(DATA)

    with pytest.raises(WriteFailed, match="No space left on device; make room") as caught:
        ensure("set", made_of(server), fill, root=tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert ensure("set", made_of(server), keep, root=tmp_path).is_dir()
    assert len(server.requests) == 1  # what had come was kept


def test_disk_full_during_the_download(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patchbeam.data import remote

    real = remote._append

    def full(part: Path, start: int, chunk: bytes) -> None:
        real(Path("/dev/full") if start else part, start, chunk)

    monkeypatch.setattr(remote, "_append", full)
    with pytest.raises(WriteFailed, match="cannot be written"):
        ensure("set", made_of(server), keep, root=tmp_path)
    monkeypatch.undo()
    assert ensure("set", made_of(server), keep, root=tmp_path).is_dir()


def test_a_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteFailed, match="PATCHBEAM_CACHE"):
        ensure("set", made_of(server), keep, root=tmp_path / "file")


def test_files_without_a_published_digest_are_pinned(server: Server, tmp_path: Path) -> None:
    resources = made_of(server, sha256=None, size_bytes=None)
    ensure("set", resources, keep, root=tmp_path)
    server.files["set.tar.gz"] = tgz({"set/data.bin": b"another"})
    with pytest.raises(DataError, match="has been replaced"):
        ensure("set", resources, keep, root=tmp_path, version="2")


def failing(sources: Mapping[str, Path], target: Path) -> None:
    (target / "half").write_text("x")
    raise DataError("the set is not what it should be")


def test_a_process_that_fails_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not what it should be"):
        ensure("set", made_of(server), failing, root=tmp_path)
    assert not any(path.name in ("half", "processed") for path in tmp_path.rglob("*"))


def tar_with(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", twice: bool = False) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for _ in range(1 + twice):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, link
            entry.size = 4 if kind == tarfile.REGTYPE else 0
            archive.addfile(entry, io.BytesIO(b"evil"))
    return out.getvalue()


def zip_with(name: str, mode: int = 0) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        archive.writestr(entry, b"evil")
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (tar_with("../evil"), "leads out"),
        (tar_with("/tmp/evil"), "leads out"),
        (tar_with("a/../../evil"), "leads out"),
        (tar_with("evil", tarfile.SYMTYPE, "/etc/passwd"), "is a link"),
        (tar_with("evil", tarfile.LNKTYPE, "../x"), "is a link"),
        (tar_with("evil", tarfile.CHRTYPE), "neither a file nor a folder"),
        (tar_with("evil", tarfile.FIFOTYPE), "neither a file nor a folder"),
        (tar_with("evil", twice=True), "stands twice"),
        (zip_with("../evil"), "leads out"),
        (zip_with("..\\evil"), "leads out"),
        (zip_with("C:/evil"), "leads out"),
        (zip_with("evil", stat.S_IFLNK | 0o777), "no ordinary file"),
        (b"nonsense", "no tar or zip archive"),
        (FILES["set.tar.gz"][: 1 << 20], "damaged"),
    ],
)
def test_unsafe_and_damaged_archives_are_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.tar").write_bytes(data)
    with pytest.raises(DataError, match=message):
        extract(tmp_path / "a.tar", tmp_path / "below" / "inside")
    outside = [path for path in tmp_path.rglob("evil") if (tmp_path / "below" / "inside") not in path.parents]
    assert outside == []


def test_an_archive_larger_than_the_disk_is_refused_by_its_header(tmp_path: Path) -> None:
    out = io.BytesIO()
    archive = tarfile.open(fileobj=out, mode="w")  # noqa: SIM115
    entry = tarfile.TarInfo("huge")
    entry.size = 1 << 60
    out.write(entry.tobuf(tarfile.GNU_FORMAT))
    (tmp_path / "a.tar").write_bytes(out.getvalue() + b"x" * 10240)
    del archive
    with pytest.raises(WriteFailed, match="bytes free"):
        extract(tmp_path / "a.tar", tmp_path / "inside")
