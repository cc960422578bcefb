"""The same bytes whatever runs the job: threads, processes, failures that pass, work done twice."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import write_tif
from exports import Exported, run_job

from patchbeam import retry
from patchbeam.elements import Piece, RecordRun
from patchbeam.errors import PatchbeamError, ReadFailed, WriteFailed
from patchbeam.rasters import compose
from patchbeam.storage import joining, local
from transforms import write

SETTINGS = {"patchDimensions": [32, 24], "kernelSize": [8, 8], "maxFileSize": 45_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources, one of them off the grid; several read blocks, several shards."""
    folder = tmp_path_factory.mktemp("same")
    random = np.random.default_rng(2)
    values = random.integers(0, 3000, (2, 200, 260)).astype("u2")
    write_tif(folder / "a.tif", values, nodata=0, tiled=True, blockxsize=32, blockysize=32)
    heights = random.normal(200, 40, (90, 110)).astype("f4")
    write_tif(folder / "b.tif", heights, crs="EPSG:32632", transform=(25, 0, 945_000, 0, -25, 5_315_000))
    return folder


def job(folder: Path, **more: Any) -> dict[str, Any]:
    sources = {"a": str(folder / "a.tif"), "b": {"path": str(folder / "b.tif"), "resampling": "bilinear"}}
    return {"sources": sources, "blockBytes": 1 << 16, "maskBand": "ok", "formatOptions": SETTINGS, **more}


FORMS: dict[str, dict[str, Any]] = {
    "indexed": {},
    "zlib6": {"gzip": "zlib6"},
    "native, plain": {"numbers": "native", "formatOptions": {**SETTINGS, "compressed": False}},
}


def files(export: Exported) -> dict[str, bytes]:
    """Every file that the export left, by name."""
    return {path.name: path.read_bytes() for path in export.prefix.parent.iterdir()}


@pytest.fixture(scope="module")
def expected(folder: Path) -> dict[str, dict[str, bytes]]:
    """What one thread writes."""
    return {form: files(run_job(folder, job(folder, **more), workers=1)) for form, more in FORMS.items()}


def check(export: Exported, expected: dict[str, bytes]) -> None:
    found = files(export)
    assert sorted(found) == sorted(expected)
    assert export.plan.blocks.count > 3 and len(export.shards) > 3
    for name, data in expected.items():
        assert found[name] == data, name


@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_threads(
    folder: Path, tmp_path: Path, expected: dict[str, dict[str, bytes]], form: str, workers: int
) -> None:
    check(run_job(tmp_path, job(folder, **FORMS[form]), workers=workers), expected[form])


def test_processes(folder: Path, tmp_path: Path, expected: dict[str, dict[str, bytes]]) -> None:
    beam = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    check(run_job(tmp_path, job(folder), beam=beam), expected["indexed"])


class FirstFails:
    """Makes the first call for each place fail after doing half of its work, later ones go through."""

    def __init__(self) -> None:
        self.failed: set[tuple[str, str]] = set()

    def once(self, what: str, place: str) -> bool:
        # names of attempts differ in their suffix alone
        key = what, re.sub(r"[0-9a-f]{16}|\.[0-9a-f]{8}$", "", place)
        if key in self.failed:
            return False
        self.failed.add(key)
        return True

    def error(self, kind: type[PatchbeamError], place: str) -> OSError:
        failure = kind(f"{place}: injected")
        assert isinstance(failure, OSError)
        failure.errno = errno.EIO
        return failure


@pytest.fixture
def first_fails(monkeypatch: pytest.MonkeyPatch) -> tuple[FirstFails, list[float]]:
    """Every first write, rename, deletion and source read fails; returns those and the waits."""
    fails, waits = FirstFails(), []
    monkeypatch.setattr(retry, "sleep", waits.append)

    def wrap(module: Any, name: str, place: Callable[..., str], kind: type[PatchbeamError]) -> None:
        original = getattr(module, name)

        def wrapped(*args: Any, **options: Any) -> Any:
            if fails.once(name, place(*args)):
                if name == "write_parts":
                    original(args[0] + ".half", [b"half of it"])
                raise fails.error(kind, place(*args))
            return original(*args, **options)

        monkeypatch.setattr(module, name, wrapped)

    wrap(local, "write_parts", lambda path, *_: str(path), WriteFailed)
    wrap(joining, "concat", lambda _, path: str(path), WriteFailed)
    wrap(local, "rename", lambda _, path: str(path), WriteFailed)
    wrap(local, "delete", lambda path: str(path), WriteFailed)
    wrap(local, "delete_tree", lambda path: str(path), WriteFailed)
    # one read a thread and block, so that a block is not tried more often than it may be
    wrap(compose, "read_piece", lambda _, header, indexes, rect: f"{header.path}{rect}", ReadFailed)
    return fails, waits


@pytest.mark.parametrize("form", FORMS)
def test_every_first_attempt_fails(
    folder: Path,
    tmp_path: Path,
    expected: dict[str, dict[str, bytes]],
    first_fails: tuple[FirstFails, list[float]],
    form: str,
) -> None:
    export = run_job(tmp_path, job(folder, **FORMS[form]))
    fails, waits = first_fails
    kinds = [what for what, _ in fails.failed]
    assert {"write_parts", "rename", "delete", "delete_tree", "read_piece"} <= set(kinds)
    # each failure was waited for once; of two reads that fail at a time, one is seen
    assert len(kinds) - kinds.count("read_piece") // 2 <= len(waits) <= len(kinds)
    for half in export.prefix.parent.glob("*.half"):
        half.unlink()
    check(export, expected[form])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_full_disk_is_reported_at_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(retry, "sleep", waits.append)

    def full(path: str, buffers: Any) -> None:
        failure = WriteFailed(f"{path}: cannot write")
        failure.errno = number
        raise failure

    monkeypatch.setattr(local, "write_parts", full)
    with pytest.raises(WriteFailed, match="cannot write"):
        run_job(tmp_path, job(folder))
    assert waits == []
    assert not list(tmp_path.glob("out*/*"))


def test_runs_written_twice_and_reported_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, dict[str, bytes]]
) -> None:
    """As when a runner repeats a bundle: pieces of the lost attempt stay behind, and nothing changes."""
    process = write._WritePieces.process
    lost: list[Piece] = []

    def twice(self: Any, run: RecordRun) -> Iterator[Piece]:
        first, second = list(process(self, run)), list(process(self, run))
        keep, lose = (first, second) if run.first_patch % 2 else (second, first)
        lost.extend(lose)
        yield from keep

    monkeypatch.setattr(write._WritePieces, "process", twice)
    check(run_job(tmp_path, job(folder)), expected["indexed"])
    assert len(lost) > 3


def test_shards_assembled_and_published_twice(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: dict[str, dict[str, bytes]]
) -> None:
    assembled = write._AssembleShards.process

    def twice(self: Any, group: Any) -> Iterator[Any]:
        list(assembled(self, group))
        yield from assembled(self, group)

    monkeypatch.setattr(write._AssembleShards, "process", twice)
    publish = write.publish

    def again(*args: Any, **options: Any) -> str:
        publish(*args, **options)
        return publish(*args, **options)

    monkeypatch.setattr(write, "publish", again)
    check(run_job(tmp_path, job(folder)), expected["indexed"])
