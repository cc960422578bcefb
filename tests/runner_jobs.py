"""One export and one import that every runner has to make alike, undisturbed and with a worker killed."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from eager import write_tif
from job_services import environment
from refusals import command

PATIENCE_S = 90.0
EXPORT, IMPORT = "export-image", "import-image"
# in what describes a map to catalogues
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
# what is written for each bit of work that is done, and the file that says that all is
_MARKS = {EXPORT: ".*.tmp/*.run", IMPORT: ".*.tmp/*.tif.json"}
_LAST = {EXPORT: "scene-manifest.json", IMPORT: "map-import.json"}


@dataclass(frozen=True)
class Work:
    """What is exported and imported, and the local runner's files of both."""

    folder: Path
    expected: dict[str, dict[str, bytes]]
    said: dict[str, str]

    def arguments(self, job: str) -> list[str]:
        """Of the command, without Beam's."""
        if job == EXPORT:
            return [EXPORT, str(self.folder / "job.yaml")]
        records = str(self.folder / "records" / "scene")
        return [IMPORT, records, "--set", "tileSize=256", "--output", str(self.folder / "out" / "map")]

    def files(self) -> dict[str, bytes]:
        """Every file of the output, those with a dot too; times are left out."""
        out = self.folder / "out"
        found = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
        return {n: _TIME.sub(b"", d) if n.endswith(".json") else d for n, d in found.items()}

    def clear(self) -> None:
        """Takes away what a run has written."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)

    def marks(self, job: str) -> int:
        """How many bits of a running job's work are done."""
        return sum(1 for _ in (self.folder / "out").glob(_MARKS[job]))


def make_work(folder: Path, scale: int = 1) -> Work:
    """A scene of noise, and what the local runner makes of it.

    Args:
        folder: where all of it lies.
        scale: how many times as wide and high as 256 by 512 the scene is; there are always 512 patches.
    """
    values = np.random.default_rng(4).integers(1, 9000, (2, 512 * scale, 256 * scale)).astype("u2")
    write_tif(folder / "a.tif", values, tiled=True, blockxsize=16, blockysize=16)
    options = {"patchDimensions": 16 * scale, "kernelSize": 8, "maxFileSize": 500_000 * scale**2}
    job = {"job": EXPORT, "sources": "a.tif", "blockBytes": 65536, "output": "out/scene"}
    (folder / "job.yaml").write_text(yaml.safe_dump({**job, "formatOptions": options}))
    work = Work(folder, {}, {})
    for name in (EXPORT, IMPORT):
        outcome = command(*work.arguments(name))
        assert outcome.status == 0, outcome
        work.expected[name], work.said[name] = work.files(), outcome.out
        assert _LAST[name] in work.expected[name], sorted(work.expected[name])
        if name == EXPORT:
            (folder / "out").rename(folder / "records")
        else:
            work.clear()
    return work


def check_same(work: Work, job: str, beam: Sequence[str]) -> None:
    """Runs a job on a runner, in this process, and compares what it writes and says with the local one's."""
    work.clear()
    outcome = command(*work.arguments(job), "--", *beam)
    assert outcome.status == 0, outcome
    assert outcome.out == work.said[job]
    assert work.files() == work.expected[job]


def start(work: Work, job: str, *arguments: str) -> subprocess.Popen[str]:
    """Starts a job in a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines", *work.arguments(job), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    )


def wait_for_marks(work: Work, job: str, wanted: int, process: subprocess.Popen[str]) -> None:
    """Waits until so many bits of the work are done, or the job has ended."""
    until = time.monotonic() + PATIENCE_S
    while process.poll() is None and time.monotonic() < until and work.marks(job) < wanted:
        time.sleep(0.005)


def check_killed(
    work: Work, job: str, beam: Sequence[str], victims: Callable[[], list[int]], seed: int
) -> str:
    """Kills one of the processes that work for a job in its middle, and checks what becomes of it.

    Args:
        work: the jobs.
        job: which.
        beam: Beam's arguments.
        victims: the processes that may be killed.
        seed: of when, and which.

    Returns:
        ``finished`` or ``failed``: the former with the undisturbed files, the latter with an error, without
        the file that says that all is done, and with the undisturbed files after ``--resume``.
        ``hung``: as ``failed``, by a runner that waited for a process that was no more, until it was killed.
    """
    chance = random.Random(seed)
    work.clear()
    run = start(work, job, "--", *beam)
    wait_for_marks(work, job, chance.randint(1, 12), run)
    alive = victims()
    assert alive and run.poll() is None, run.communicate()
    os.kill(chance.choice(alive), signal.SIGKILL)
    try:
        said, ending = run.communicate(timeout=PATIENCE_S)[1], "failed"
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        said, ending = run.communicate()[1], "hung"
    if run.returncode == 0:
        assert work.files() == work.expected[job], f"seed {seed}"
        return "finished"
    if ending == "failed":
        last = said.strip().splitlines()[-1]
        assert run.returncode == 1 and last.startswith("patchbeam: "), f"seed {seed}: {said}"
        assert "run it again with --resume" in last, f"seed {seed}: {said}"
    assert _LAST[job] not in work.files(), f"seed {seed}"
    again = start(work, job, "--resume")
    said = again.communicate(timeout=PATIENCE_S)[1]
    assert again.returncode == 0, f"seed {seed}: {said}"
    assert work.files() == work.expected[job], f"seed {seed}"
    return ending
