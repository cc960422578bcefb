"""SIGKILL of the whole job, at every kind of moment; ``--resume`` then makes the undisturbed output."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml
from eager import write_tif
from fault_server import Server, server
from runner_jobs import IMPORT, Work, make_work

FORMS = {
    "indexed": {},
    "zlib6": {"gzip": "zlib6"},
    "plain": {"formatOptions": {"compressed": False}},
    "dropping": {"formatOptions": {"maskedThreshold": 0.4}},
}


@dataclass(frozen=True)
class Case:
    """A job, its undisturbed export, and how long that takes."""

    folder: Path
    expected: dict[str, bytes]
    changes: int
    seconds: float

    @property
    def job(self) -> str:
        return str(self.folder / "job.yaml")

    def files(self) -> dict[str, bytes]:
        out = self.folder / "out"
        return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}

    def clear(self) -> None:
        shutil.rmtree(self.folder / "out", ignore_errors=True)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, commands: Server) -> dict[str, Case]:
    made = {}
    for name, more in FORMS.items():
        folder = tmp_path_factory.mktemp(name)
        values = np.random.default_rng(4).integers(0, 9000, (2, 256, 128)).astype("u2")
        values[:, 100:160, 30:100] = 0
        write_tif(folder / "a.tif", values, nodata=0, tiled=True, blockxsize=16, blockysize=16)
        options = {
            "patchDimensions": 16,
            "kernelSize": 8,
            "maxFileSize": 70_000,
            **more.get("formatOptions", {}),
        }
        job = {"job": "export-image", "sources": "a.tif", "blockBytes": 65536, "output": "out/scene"}
        (folder / "job.yaml").write_text(yaml.safe_dump({**job, **more, "formatOptions": options}))
        count = folder / "count"
        begin = time.monotonic()
        assert commands.run("export-image", str(folder / "job.yaml"), count=str(count)) == 0
        case = Case(folder, {}, int(count.read_text()), time.monotonic() - begin)
        made[name] = Case(folder, case.files(), case.changes, case.seconds)
        assert len(case.files()) > 4 and case.changes > 20
    return made


def check_before_resume(case: Case) -> None:
    """A manifest is there only when everything is."""
    files = case.files()
    if "scene-manifest.json" in files:
        assert all(files.get(name) == data for name, data in case.expected.items())


def by_call(case: Case, commands: Server, chance: random.Random, *flags: str) -> int:
    kill = {"call": chance.randint(1, case.changes), "after": chance.random() < 0.5}
    return commands.run("export-image", case.job, "--workers", "2", *flags, kill=kill)


def by_clock(case: Case, commands: Server, chance: random.Random, *flags: str) -> int:
    process = commands.start("export-image", case.job, "--workers", "2", *flags)
    time.sleep(chance.uniform(0, case.seconds))
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    return commands.wait()


def one(case: Case, commands: Server, seed: int) -> dict[str, bytes]:
    """Kills a run, perhaps also the one that resumes it, lets one finish, and returns what it leaves."""
    chance = random.Random(seed)
    case.clear()
    kill = by_clock if chance.random() < 0.3 else by_call
    flags: list[str] = []
    status = -signal.SIGKILL
    for _ in range(chance.randint(1, 3)):
        status = kill(case, commands, chance, *flags)
        if status == 2:  # the one before was killed when all was done
            assert case.files() == case.expected, f"seed {seed}"
            status = 0
        assert status in (0, -signal.SIGKILL), f"seed {seed}: {status}"
        check_before_resume(case)
        if status == 0:
            break
        flags = ["--resume"]
    if status and commands.run("export-image", case.job, "--resume") == 2:
        assert case.files() == case.expected, f"seed {seed}"
    files = case.files()
    # a half-written file of the process that was killed is under a name that nothing lists
    strays = {name for name in files if Path(name).name.startswith(".patchbeam-")}
    assert all(not name.startswith(".scene") for name in files), f"seed {seed}"
    return {name: files[name] for name in files.keys() - strays}


@pytest.mark.parametrize("form", FORMS)
def test_some(cases: dict[str, Case], commands: Server, form: str) -> None:
    for seed in range(3):
        assert one(cases[form], commands, seed) == cases[form].expected, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("first", range(100, 140, 10))
def test_many(cases: dict[str, Case], commands: Server, form: str, first: int) -> None:
    for seed in range(first, first + 10):
        assert one(cases[form], commands, seed) == cases[form].expected, f"seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("form", ["indexed", "dropping"])
def test_killed_while_it_replaces_an_earlier_export(
    cases: dict[str, Case], commands: Server, form: str
) -> None:
    case = cases[form]
    for seed in range(12):
        chance = random.Random(seed)
        case.clear()
        other = ["--set", "formatOptions.maxFileSize=150000"]
        assert commands.run("export-image", case.job, *other) == 0
        earlier = case.files()
        kill = {"call": chance.randint(1, case.changes + 10), "after": chance.random() < 0.5}
        status = commands.run("export-image", case.job, "--overwrite", kill=kill)
        files = case.files()
        if "scene-manifest.json" in files:  # either export, and whole
            whole = (
                earlier if files["scene-manifest.json"] == earlier["scene-manifest.json"] else case.expected
            )
            assert all(files.get(name) == data for name, data in whole.items()), f"seed {seed}"
        if status:
            assert commands.run("export-image", case.job, "--resume", "--overwrite") == 0
        assert case.files() == case.expected, f"seed {seed}"


@dataclass(frozen=True)
class Maps:
    """An import, how often it changes the file system, and an earlier map in its place."""

    work: Work
    changes: int
    earlier: Path

    @property
    def arguments(self) -> list[str]:
        return self.work.arguments(IMPORT)


@pytest.fixture(scope="module")
def maps(tmp_path_factory: pytest.TempPathFactory, commands: Server) -> Maps:
    folder = tmp_path_factory.mktemp("maps")
    made = Maps(make_work(folder), 0, folder / "earlier")
    assert commands.run(*made.arguments, "--set", "nodata=7", count=str(folder / "count")) == 0
    (folder / "out").rename(made.earlier)
    return Maps(made.work, int((folder / "count").read_text()), made.earlier)


def killed(maps: Maps, commands: Server, call: int, *, after: bool, replaces: bool) -> dict[str, bytes]:
    """Kills an import before or after a change; run again, it says what to do, and ``--resume`` does it.

    Returns the files that there are in the end.
    """
    work, case = maps.work, f"{call} {after}"
    expected = work.expected[IMPORT]
    work.clear()
    flags = ["--overwrite"] if replaces else []
    if replaces:
        shutil.copytree(maps.earlier, work.folder / "out")
    earlier = work.files()
    status = commands.run(*maps.arguments, *flags, kill={"call": call, "after": after})
    assert status in (0, -signal.SIGKILL), case
    files = work.files()
    if "map-import.json" in files:  # either map, and whole
        whole = earlier if files["map-import.json"] == earlier.get("map-import.json") else expected
        assert all(files.get(name) == data for name, data in whole.items()), case
    is_complete = all(files.get(name) == data for name, data in expected.items())
    if status:
        again = commands.run(*maps.arguments)
        assert again in (2, 3) or (again == 0 and not files), case
        if again:
            assert work.files() == files, case
        status = commands.run(*maps.arguments, "--resume", *flags)
        assert status == 0 or (status == 2 and (is_complete or not again) and not replaces), case
    return work.files()


def test_an_import_at_its_end(maps: Maps, commands: Server) -> None:
    """When its map is complete: what is temporary goes, and the lock of a process that is no more."""
    for call in range(maps.changes - 2, maps.changes + 1):
        for after in (False, True):
            left = killed(maps, commands, call, after=after, replaces=False)
            assert left == maps.work.expected[IMPORT], f"{call} {after}"


@pytest.mark.long
@pytest.mark.parametrize("replaces", [False, True])
def test_an_import_at_every_change(maps: Maps, commands: Server, replaces: bool) -> None:
    for call in range(1, maps.changes + (6 if replaces else 1)):
        for after in (False, True):
            left = killed(maps, commands, call, after=after, replaces=replaces)
            assert left == maps.work.expected[IMPORT], f"{call} {after}"
