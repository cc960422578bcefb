"""Storage and sources that fail, work that is done twice, pieces that change: at random places, by seed.

After each, the export is the undisturbed one, byte for byte, or there is no manifest and a clear error;
``--resume`` then makes it.
"""

from __future__ import annotations

import errno
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from eager import write_tif
from rasterio.errors import RasterioIOError
from refusals import command

from patchbeam import storage
from patchbeam.errors import ReadFailed, WriteFailed
from patchbeam.export import temporary_folder
from patchbeam.rasters import pieces as reading
from pipelines.resolve import load_plan
from transforms import write as writing

FORMS: dict[str, dict[str, Any]] = {
    "indexed": {},
    "zlib6": {"gzip": "zlib6"},
    "plain": {"formatOptions": {"compressed": False}},
    "dropping": {"formatOptions": {"maskedThreshold": 0.4}},
}
Job = tuple[Path, dict[str, bytes]]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {}
    for name, more in FORMS.items():
        folder = tmp_path_factory.mktemp(name)
        values = np.random.default_rng(4).integers(0, 9000, (2, 256, 128)).astype("u2")
        values[:, 100:160, 30:100] = 0
        write_tif(folder / "a.tif", values, nodata=0, tiled=True, blockxsize=16, blockysize=16)
        options = {"patchDimensions": 16, "maxFileSize": 30_000, **more.get("formatOptions", {})}
        job = {"job": "export-image", "sources": "a.tif", "blockBytes": 65536, "output": "out/scene"}
        (folder / "job.yaml").write_text(yaml.safe_dump({**job, **more, "formatOptions": options}))
        assert command("export-image", str(folder / "job.yaml")).status == 0
        made[name] = folder, files_of(folder)
        shutil.rmtree(folder / "out")
    return made


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbeam.retry.sleep", lambda seconds: None)


@pytest.fixture
def fresh(jobs: dict[str, Job]) -> Iterator[dict[str, Job]]:
    yield jobs
    for folder, _ in jobs.values():
        shutil.rmtree(folder / "out", ignore_errors=True)


def files_of(folder: Path) -> dict[str, bytes]:
    out = folder / "out"
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def run(job: Job, seed: int, *flags: str) -> int:
    """Runs the job; looks at what stands there, whatever came of it."""
    folder, expected = job
    outcome = command("export-image", str(folder / "job.yaml"), "--workers", "2", *flags)
    files = files_of(folder)
    if outcome.status == 0:
        # a temporary file that could not be deleted stays, and is said to
        left = {
            name
            for name in files
            if name.startswith(".scene-") and "temporary files are still" in outcome.err
        }
        assert {name: files[name] for name in files.keys() - left} == expected, f"seed {seed}"
        assert len(left) <= 4, f"seed {seed}: {left}"
    else:
        assert outcome.status == 1 and "Traceback" not in outcome.err, f"seed {seed}: {outcome.err}"
        assert "patchbeam: " in outcome.err
        complete = all(files.get(name) == data for name, data in expected.items())
        assert "scene-manifest.json" not in files or complete, f"seed {seed}"
    return outcome.status


def until_done(job: Job, seed: int, tries: int = 3) -> None:
    assert any(run(job, seed, "--resume") == 0 for _ in range(tries)), f"seed {seed}"
    shutil.rmtree(job[0] / "out")


def failing_storage(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """One function of storage fails at one call: before or after it has worked, for once or from then on."""
    changes = ["write_parts", "write_atomic", "write_at", "concat", "rename", "delete"]
    name = chance.choice([*changes, "read_bytes", "stat"])
    first, after = chance.randint(1, 25), chance.random() < 0.5
    number = chance.choice([errno.ENOSPC, errno.EIO, errno.ESTALE, errno.EROFS])
    last = first + chance.choice([1, 1, 3, 10**6])
    original, calls, lock = getattr(storage, name), iter(range(1, 10**9)), threading.Lock()

    def failing(*arguments: Any, **options: Any) -> Any:
        with lock:
            call = next(calls)
        fails = first <= call < last
        if fails and not after:
            raise failure(arguments)
        done = original(*arguments, **options)
        if fails:
            raise failure(arguments)
        return done

    def failure(arguments: tuple[Any, ...]) -> OSError:
        kind = ReadFailed if name in ("read_bytes", "stat") else WriteFailed
        error = kind(f"{arguments[-1] if name == 'concat' else arguments[0]}: {name} failed here")
        error.errno = number
        return error

    patch.setattr(storage, name, failing)


def failing_source(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """A source cannot be read: once, a few times, or never again."""
    original, calls, lock = reading.file_valid, iter(range(1, 10**9)), threading.Lock()
    first = chance.randint(1, 6)
    last = first + chance.choice([1, 2, 10**6, 10**6])

    def failing(*arguments: Any) -> Any:
        with lock:
            call = next(calls)
        if first <= call < last:
            raise RasterioIOError("the connection was reset")
        return original(*arguments)

    patch.setattr(reading, "file_valid", failing)


def work_done_twice(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Bundles are run twice: one after the other or at once; either result may be the one that counts."""
    kind = chance.choice([writing._WritePieces, writing._AssembleShards])
    at_once, last_counts = chance.random() < 0.5, chance.random() < 0.5
    original = kind.process

    def twice(self: Any, element: Any) -> Iterator[Any]:
        if at_once:
            with ThreadPoolExecutor(2) as pool:
                results = list(pool.map(lambda _: list(original(self, element)), range(2)))
        else:
            results = [list(original(self, element)) for _ in range(2)]
        yield from results[-1 if last_counts else 0]

    patch.setattr(kind, "process", twice)


def changed_pieces(patch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """A bit of a piece changes after it was written."""
    lock = threading.Lock()
    left = [chance.randint(1, 20)]
    place, bit = chance.random(), 1 << chance.randint(0, 7)

    def changing(original: Callable[..., Any]) -> Callable[..., Any]:
        def writes(path: str, *more: Any) -> Any:
            done = original(path, *more)
            if "-0000" in path.rpartition("/")[2]:
                with lock:
                    left[0] -= 1
                    hit = left[0] == 0
                if hit:
                    with open(path, "r+b") as file:
                        at = int(place * file.seek(0, 2))
                        file.seek(at)
                        old = file.read(1)
                        file.seek(at)
                        file.write(bytes([old[0] ^ bit]))
            return done

        return writes

    for name in ("write_parts", "write_at"):
        patch.setattr(storage, name, changing(getattr(storage, name)))


FAULTS: list[Callable[[pytest.MonkeyPatch, random.Random], None]] = [
    failing_storage,
    failing_source,
    work_done_twice,
    changed_pieces,
]


def one(job: Job, fault: Callable[[pytest.MonkeyPatch, random.Random], None], seed: int) -> int:
    with pytest.MonkeyPatch.context() as patch:
        fault(patch, random.Random(seed))
        status = run(job, seed)
    if status:
        until_done(job, seed)
    else:
        shutil.rmtree(job[0] / "out")
    return status


@pytest.mark.parametrize("fault", FAULTS)
def test_some(fresh: dict[str, Job], fault: Any) -> None:
    statuses = [one(fresh[form], fault, seed) for seed, form in enumerate(FORMS)]
    assert fault is not work_done_twice or not any(statuses)


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fault", FAULTS)
def test_many(fresh: dict[str, Job], fault: Any, form: str) -> None:
    statuses = [one(fresh[form], fault, seed) for seed in range(1000, 1012)]
    assert fault is not work_done_twice or not any(statuses)


def test_a_stale_piece_of_another_plan_is_never_taken(fresh: dict[str, Job]) -> None:
    """Descriptors and pieces of another plan, put where this one looks for its own."""
    folder, _ = job = fresh["indexed"]
    path = str(folder / "job.yaml")
    other = ["--set", "formatOptions.defaultValue=7", "--set", "output=out/other"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "assemble", fails)
        assert command("export-image", path, *other).status == 1
        assert command("export-image", path).status == 1
    mine = Path(temporary_folder(load_plan(path)))
    theirs = Path(temporary_folder(load_plan(path, [text for text in other if text != "--set"])))
    for run_file in mine.glob("*.run"):
        shutil.copy(theirs / run_file.name, run_file)
    for piece in theirs.glob("0*-0*"):
        shutil.copy(piece, mine / piece.name)
    shutil.rmtree(theirs)
    until_done(job, 0, tries=1)


def fails(*_: Any, **__: Any) -> Any:
    raise WriteFailed("out: disk full")


def test_a_complete_export_does_not_fail_when_its_manifest_is_read(fresh: dict[str, Job]) -> None:
    """The connection drops once, when everything has been published."""
    folder, expected = fresh["plain"]
    original, failed = storage.read_bytes, []

    def once(path: str, *more: Any) -> bytes:
        if path.endswith("-manifest.json") and not failed:
            failed.append(path)
            error = ReadFailed(f"{path}: cannot read")
            error.errno = errno.EIO
            raise error
        return original(path, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "read_bytes", once)
        assert command("export-image", str(folder / "job.yaml")).status == 0
    assert failed and files_of(folder) == expected


def test_a_full_disk_is_said_to_be_full(fresh: dict[str, Job]) -> None:
    """The system's own error, from a device that is always full."""
    folder, _ = job = fresh["indexed"]
    from patchbeam.storage import replace

    original = replace.Replacing.write

    def write(self: Any, data: Any) -> None:
        if "-00000." in self.path:
            self._file.close()
            self._file = open("/dev/full", "wb", 0)  # noqa: SIM115 - closed where the file would be
        original(self, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replace.Replacing, "write", write)
        outcome = command("export-image", str(folder / "job.yaml"))
    assert outcome.status == 1
    assert "No space left on device (ENOSPC)" in outcome.err and "--resume" in outcome.err
    until_done(job, 0, tries=1)


def test_a_disk_that_is_full_where_records_belong(fresh: dict[str, Job]) -> None:
    """The same where records are written straight to their place in a shard."""
    folder, _ = job = fresh["plain"]
    from patchbeam.storage import steps

    with pytest.MonkeyPatch.context() as patch, open("/dev/full", "wb", 0) as full:
        patch.setattr(steps.os, "pwrite", lambda _, data, at: full.write(data))
        outcome = command("export-image", str(folder / "job.yaml"))
    assert outcome.status == 1 and "/laid-0" in outcome.err
    assert "No space left on device (ENOSPC)" in outcome.err and "--resume" in outcome.err
    until_done(job, 0, tries=1)
