"""``--resume``: finished pieces and shards are kept, whatever else has changed is refused by name."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import write_tif
from refusals import Outcome, command

from patchbeam import storage
from patchbeam.errors import WriteFailed
from patchbeam.export import BlockReader, temporary_folder
from patchbeam.plan import ExportPlan
from pipelines.resolve import load_plan


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = np.random.default_rng(4).integers(1, 9000, (2, 320, 192)).astype("u2")
    write_tif(tmp_path / "a.tif", values, names=["b", "c"], tiled=True, blockxsize=16, blockysize=16)
    job = {
        "job": "export-image",
        "sources": "a.tif",
        "blockBytes": 1 << 16,
        "formatOptions": {"patchDimensions": 16, "maxFileSize": 60_000},
        "output": "out/scene",
    }
    import yaml

    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    return tmp_path


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbeam.retry.sleep", lambda seconds: None)


def export(folder: Path, *arguments: str) -> Outcome:
    return command("export-image", str(folder / "job.yaml"), *arguments)


def there(folder: Path) -> dict[str, bytes]:
    out = folder / "out"
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def plan_of(folder: Path) -> ExportPlan:
    return load_plan(str(folder / "job.yaml"))


@pytest.fixture
def expected(folder: Path) -> dict[str, bytes]:
    """The undisturbed export, taken away again."""
    assert export(folder).status == 0
    files = there(folder)
    for name in files:
        (folder / "out" / name).unlink()
    return files


PIECE = r"/\d{12}-\d{5}\."


class Failing:
    """The disk fails from the k-th call of a function of storage on, as often as is said."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, name: str, call: int, *, times: int = 10**6, only: str = ""
    ) -> None:
        self.original, self.calls = getattr(storage, name), 0
        self.first, self.last, self.only = call, call + times, re.compile(only)
        monkeypatch.setattr(storage, name, self)

    def __call__(self, path: str, *args: Any, **options: Any) -> Any:
        if self.only.search(path):
            self.calls += 1
            if self.first <= self.calls < self.last:
                failure = WriteFailed(f"{path}: cannot write: disk full")
                failure.errno = errno.ENOSPC
                raise failure
        return self.original(path, *args, **options)


@pytest.fixture
def blocks_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    read: list[int] = []
    original = BlockReader.read

    def counted(self: BlockReader, block: int, *more: Any) -> Any:
        read.append(block)
        return original(self, block, *more)

    monkeypatch.setattr(BlockReader, "read", counted)
    yield read


@pytest.mark.parametrize("call", [1, 5, 17])
def test_what_is_finished_is_not_read_again(
    folder: Path, expected: dict[str, bytes], blocks_read: list[int], call: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Failing(patch, "write_parts", call, only=PIECE)
        outcome = export(folder, "--workers", "1")
    assert outcome.status == 1
    assert "disk full" in outcome.err and "run it again with --resume" in outcome.err
    assert "scene-manifest.json" not in there(folder) and ".scene.lock" not in there(folder)
    count = plan_of(folder).blocks.count
    assert count >= 4
    before = len(blocks_read)
    assert export(folder, "--resume").status == 0
    # the block in which it failed is read again, those before are not
    assert len(blocks_read) - before == count - (before - 1)
    assert there(folder) == expected


@pytest.mark.parametrize("call", [1, 5, 17])
@pytest.mark.parametrize("damage", [False, True])
def test_records_that_lie_where_they_belong_stay(
    folder: Path, blocks_read: list[int], monkeypatch: pytest.MonkeyPatch, call: int, damage: bool
) -> None:
    """Without compression; the file of a run that was interrupted is never written again."""
    plain = ["--set", "formatOptions.compressed=false", "--workers", "1"]
    assert export(folder, *plain).status == 0
    expected, count = there(folder), len(blocks_read)
    blocks_read.clear()
    with monkeypatch.context() as patch:
        Failing(patch, "write_at", call)
        assert export(folder, *plain, "--overwrite").status == 1
    before = len(blocks_read)
    left = {path: path.read_bytes() for path in (folder / "out").glob(".scene-*.tmp/laid-*")}
    assert bool(left) == (call > 1)
    if damage and left:
        last = max(left)
        last.write_bytes(left.pop(last)[:-1])  # the last run in it is not whole
    with monkeypatch.context() as patch:
        Failing(patch, "rename", 1)
        assert export(folder, *plain, "--resume", "--overwrite").status == 1
    assert all(path.read_bytes() == data for path, data in left.items())
    assert len(blocks_read) - before <= count - (before - 1) + damage
    assert export(folder, *plain, "--resume", "--overwrite").status == 0
    assert there(folder) == expected


def test_finished_shards_are_kept(
    folder: Path, expected: dict[str, bytes], blocks_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = storage.concat
    made: list[str] = []

    def counted(parts: Any, destination: str, **options: Any) -> Any:
        made.append(destination)
        if len(made) == 3:
            raise WriteFailed(f"{destination}: disk full")
        return original(parts, destination, **options)

    monkeypatch.setattr(storage, "concat", counted)
    assert export(folder, "--workers", "1").status == 1
    first = len(blocks_read)
    assert export(folder, "--workers", "1", "--resume").status == 0
    shards = sum(".tfrecord" in name for name in expected)
    assert len(blocks_read) == first
    assert len(made) == 3 + shards - 2
    assert there(folder) == expected


@pytest.mark.parametrize("call", range(1, 12, 2))
@pytest.mark.parametrize("overwriting", [False, True])
def test_publication_goes_on(
    folder: Path, expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, call: int, overwriting: bool
) -> None:
    arguments = []
    if overwriting:
        job = (folder / "job.yaml").read_text()
        (folder / "job.yaml").write_text(job.replace("maxFileSize: 60000", "maxFileSize: 150000"))
        assert export(folder).status == 0
        (folder / "job.yaml").write_text(job)
        arguments = ["--overwrite"]
    with monkeypatch.context() as patch:
        Failing(patch, "rename", call, times=1)
        assert export(folder, *arguments).status == 1
    assert "scene-manifest.json" not in there(folder)
    assert call == 1 or export(folder).status == 2  # a part of an export stands there
    assert export(folder, "--resume").status == 0
    assert there(folder) == expected


def test_without_resume_it_begins_anew(
    folder: Path, expected: dict[str, bytes], blocks_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        Failing(patch, "write_parts", 9, only=PIECE)
        assert export(folder).status == 1
    blocks_read.clear()
    assert export(folder).status == 0
    assert len(blocks_read) == plan_of(folder).blocks.count
    assert there(folder) == expected


def interrupted(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Failing(patch, "write_parts", 9, only=PIECE)
        assert export(folder).status == 1


def test_a_source_that_has_changed_is_named(folder: Path, expected: dict[str, bytes]) -> None:
    interrupted(folder)
    left = there(folder)
    os.utime(folder / "a.tif", (1, 1))
    outcome = export(folder, "--resume")
    assert outcome.status == 2
    assert f"the source {folder / 'a.tif'} has changed since" in outcome.err
    assert "1970-01-01T00:00:01" in outcome.err and "--overwrite" in outcome.err
    assert there(folder) == left
    assert export(folder, "--resume", "--overwrite").status == 0
    after = there(folder)
    assert after.keys() == expected.keys()
    assert all(after[name] == expected[name] for name in expected if ".tfrecord" in name)


def test_leftovers_of_another_plan_are_refused(folder: Path) -> None:
    interrupted(folder)
    job = (folder / "job.yaml").read_text()
    (folder / "job.yaml").write_text(job.replace("maxFileSize: 60000", "maxFileSize: 80000"))
    for arguments in ([], ["--resume"]):
        outcome = export(folder, *arguments)
        assert outcome.status == 2
        assert "formatOptions.maxFileSize was 60000 and is 80000" in outcome.err, outcome.err
    assert export(folder, "--overwrite").status == 0
    assert not any(name.startswith(".") for name in there(folder))


def test_errors_of_the_input_leave_nothing(folder: Path) -> None:
    values = np.zeros((1, 160, 96), np.float32)
    values[0, 150, 90] = 1e6
    write_tif(folder / "a.tif", values)
    assert export(folder, "--set", "bands=[{band: 1, type: uint8}]").status == 1
    assert there(folder) == {}


@pytest.mark.parametrize("damage", ["descriptor", "piece", "missing"])
def test_damaged_leftovers_are_made_again(folder: Path, expected: dict[str, bytes], damage: str) -> None:
    interrupted(folder)
    place = Path(temporary_folder(plan_of(folder)))
    runs = sorted(place.glob("*.run"))
    piece = next(iter(sorted(place.glob(f"{runs[0].stem}-*"))))
    if damage == "descriptor":
        runs[0].write_bytes(runs[0].read_bytes().replace(b'"patches":', b'"patches":1'))
    elif damage == "piece":
        data = bytearray(piece.read_bytes())
        data[len(data) // 2] ^= 1
        piece.write_bytes(data)
    else:
        piece.unlink()
    outcome = export(folder, "--resume")
    if damage == "piece":
        assert outcome.status == 1
        assert f"{piece}: " in outcome.err and "CRC-32C" in outcome.err and "made again" in outcome.err
        outcome = export(folder, "--resume")
    assert outcome.status == 0, outcome.err
    assert there(folder) == expected


@pytest.mark.parametrize(
    "more", ["gzip=zlib6", "formatOptions.compressed=false", "formatOptions.maskedThreshold=0.5"]
)
def test_a_damaged_piece_goes_into_no_shard(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    assert export(folder, "--set", more).status == 0
    expected = there(folder)
    hit = []

    def damaging(name: str) -> Any:
        original = getattr(storage, name)

        def writes(path: str, *more: Any) -> Any:
            done = original(path, *more)
            if "-00000." in path and not hit and ".tmp" in path:
                hit.append(path)
                data = bytearray(Path(path).read_bytes())
                data[40] ^= 4
                Path(path).write_bytes(data)
            return done

        return writes

    with monkeypatch.context() as patch:
        for name in ("write_parts", "write_at"):
            patch.setattr(storage, name, damaging(name))
        outcome = export(folder, "--set", more, "--overwrite")
    assert outcome.status == 1 and hit[0] in outcome.err, outcome.err
    assert {name: data for name, data in there(folder).items() if not name.startswith(".")} == expected
    assert export(folder, "--set", more, "--overwrite", "--resume").status == 0
    assert there(folder) == expected
