"""Prism with its workers in this process: the local runner's bytes, counters, failures, Ctrl-C, SIGKILL."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.portability.prism_runner import PrismRunner
from eager import plan_of, write_tif
from prism import prism_arguments
from processes import HAVE_PROC, below
from refusals import command
from runner_jobs import EXPORT, IMPORT, PATIENCE_S, Work, check_same, make_work, start, wait_for_marks

from pipelines.beam_options import beam_options, new_pipeline
from pipelines.export_image import build
from transforms.meters import NAMESPACE


@pytest.fixture
def prism(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return prism_arguments(build=request.node.get_closest_marker("long") is not None)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return make_work(tmp_path_factory.mktemp("work"))


@pytest.mark.long
@pytest.mark.parametrize("group", [False, True])
def test_ctrl_c(prism: tuple[str, ...], tmp_path: Path, group: bool) -> None:
    """A terminal sends it to the whole group, Prism too."""
    work = make_work(tmp_path, scale=4)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run = start(work, EXPORT, "--", *prism)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for_marks(work, EXPORT, 5, run)
    (os.killpg if group else os.kill)(run.pid, signal.SIGINT)
    try:
        said = run.communicate(timeout=PATIENCE_S)[1]
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        raise
    assert run.returncode == 130, said
    assert "interrupted; nothing has been published; what is finished is kept in" in said
    assert "Traceback" not in said and "Exception in thread" not in said, said
    names = {Path(name).name for name in work.files()}
    assert "scene-manifest.json" not in names and ".scene.lock" not in names
    again = command(*work.arguments(EXPORT), "--resume")
    assert again.status == 0, again
    assert work.files() == work.expected[EXPORT]


KILLS = 12
PUBLISHED = {EXPORT: "scene-*.tfrecord.gz", IMPORT: "map-*.tif"}
LAST = {EXPORT: "scene-manifest.json", IMPORT: "map-import.json"}


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return make_work(tmp_path_factory.mktemp("larger"), scale=4)


@pytest.mark.long
@pytest.mark.skipif(not HAVE_PROC, reason="looks for processes in /proc")
@pytest.mark.parametrize("victim", ["command", "prism"])
@pytest.mark.parametrize("job", [EXPORT, IMPORT])
def test_killed(prism: tuple[str, ...], larger: Work, job: str, victim: str) -> None:
    """While it works, while it publishes, when all is there: a whole output, or none and one by resuming."""
    endings = Counter(killed(larger, job, prism, victim, seed) for seed in range(KILLS))
    print(f"{job}, {victim}: {dict(endings)}")
    assert endings.keys() <= {"nothing", "half", "whole", "finished"}
    assert endings["nothing"], "no run was killed before it published"


def killed(work: Work, job: str, beam: tuple[str, ...], victim: str, seed: int) -> str:
    """Kills the command, which does the work, or Prism, which deals it out, and makes the output whole.

    Returns:
        What had been published: ``nothing``, ``half`` of it without the file that is written last, the
        ``whole``, or ``finished`` when the command had ended well all the same.
    """
    chance = random.Random(seed)
    expected, last = work.expected[job], LAST[job]
    work.clear()
    out = work.folder / "out"
    run = start(work, job, "--", *beam)
    moment = chance.choice(["work", "publish", "end"])
    if moment == "work":
        wait_for_marks(work, job, chance.randint(0, 30), run)
        time.sleep(chance.uniform(0, 0.1))
    else:
        due = sum(1 for name in expected if Path(name).match(PUBLISHED[job]))
        pattern, count = (PUBLISHED[job], chance.randint(1, due)) if moment == "publish" else (last, 1)
        until = time.monotonic() + PATIENCE_S
        while run.poll() is None and time.monotonic() < until and sum(1 for _ in out.glob(pattern)) < count:
            time.sleep(0.001)
    servers = below(run.pid, os.fsencode(beam[1].partition("=")[2]))
    with suppress(ProcessLookupError):
        os.kill(run.pid if victim == "command" or not servers else servers[0], signal.SIGKILL)
    try:
        said = run.communicate(timeout=PATIENCE_S)[1]
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        raise
    case = f"seed {seed}, {moment}"
    for server in servers:  # one whose command is no more may wait for the next job without end
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
    files = work.files()
    if run.returncode == 0:
        assert files == expected, case
        return "finished"
    if last in files:
        assert all(files.get(name) == data for name, data in expected.items()), case
    if run.returncode != -signal.SIGKILL:
        told = said.strip().splitlines()[-1]
        assert run.returncode == 1 and told.startswith("patchbeam: "), f"{case}: {said}"
        assert "run it again with --resume" in told, f"{case}: {said}"
    elif files:
        plain = command(*work.arguments(job))
        assert plain.status in (2, 3) and ("--resume" in plain.err or last in files), f"{case}: {plain}"
        assert work.files() == files, case
    again = command(*work.arguments(job), "--resume")
    assert again.status == 0 or (again.status == 2 and last in files), f"{case}: {again}"
    # a half-written lock of the process that was killed is under a name that nothing lists
    left = {name: data for name, data in work.files().items() if not name.startswith(".patchbeam-")}
    assert left == expected, case
    published = any(Path(name).match(PUBLISHED[job]) for name in files)
    return "whole" if last in files else "half" if published else "nothing"


@pytest.mark.parametrize("job", [EXPORT, IMPORT])
def test_the_same_bytes(prism: tuple[str, ...], work: Work, job: str) -> None:
    check_same(work, job, prism)


def test_a_table(prism: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pipelines with the same options: points are drawn, then sampled."""
    classes = np.random.default_rng(2).integers(1, 4, (1, 64, 48)).astype("u1")
    write_tif(tmp_path / "classes.tif", classes)
    sample = {"sources": {"classes": "classes.tif"}, "stratify": "B1", "perClass": 20, "seed": 1}
    job = {"job": "export-table", "geometry": "lonlat", "sample": sample, "output": "out/drawn"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    runs: list[str] = []
    original = PrismRunner.create_job_service

    def counted(self: PrismRunner, options: Any) -> Any:
        runs.append("here")
        return original(self, options)

    monkeypatch.setattr(PrismRunner, "create_job_service", counted)
    made = []
    for beam in ((), prism):
        outcome = command("export-table", str(tmp_path / "job.yaml"), "--overwrite", "--", *beam)
        assert outcome.status == 0, outcome
        out = tmp_path / "out"
        made.append({path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()})
    assert made[0] == made[1] and made[0]
    assert len(runs) == 2


def test_counters(prism: tuple[str, ...], tmp_path: Path) -> None:
    found = []
    for number, beam in enumerate(((), prism)):
        write_tif(tmp_path / "a.tif", np.ones((2, 64, 96), "u2"), tiled=True, blockxsize=16, blockysize=16)
        options = {"patchDimensions": 16, "compressed": False}
        job = {"sources": "a.tif", "formatOptions": options, "output": f"out{number}/scene"}
        plan = replace(plan_of(job, tmp_path), block_bytes=8192)
        pipeline = new_pipeline(beam_options(beam)[0])
        build(pipeline, plan, threads=1, overwrite=False)
        result = pipeline.run()
        result.wait_until_finish()
        found.append(counted(result))
    assert found[1]["patches_done"] == 24 and found[1]["blocks_read"] == plan.blocks.count > 1
    assert found[0] == found[1]


def counted(result: Any) -> dict[str, int]:
    """The counters that the files and the job decide."""
    numbers: dict[str, int] = {}
    for one in result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]:
        name = one.key.metric.name
        numbers[name] = numbers.get(name, 0) + max(one.committed or 0, one.attempted or 0)
    # what readers share depends on which thread reads what
    return {name: count for name, count in numbers.items() if name not in ("reads", "retries")}


def test_a_source_that_is_damaged_in_the_middle(prism: tuple[str, ...], tmp_path: Path) -> None:
    values = np.random.default_rng(4).integers(1, 9000, (1, 256, 128)).astype("u2")
    path = tmp_path / "a.tif"
    write_tif(path, values, tiled=True, blockxsize=16, blockysize=16, compress="deflate")
    data = bytearray(path.read_bytes())
    at = len(data) * 4 // 5
    data[at : at + 3000] = bytes(3000)
    path.write_bytes(data)
    job = {"job": EXPORT, "sources": "a.tif", "formatOptions": {"patchDimensions": 16}, "blockBytes": 65536}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**job, "output": "out/scene"}))
    report = tmp_path / "report.json"
    outcome = command(EXPORT, str(tmp_path / "job.yaml"), "--report", str(report), "--", *prism)
    assert outcome.status == 1
    last = outcome.err.strip().splitlines()[-1]
    assert last.startswith(f"patchbeam: {path}: ") and "cannot be read" in last, outcome.err
    assert json.loads(report.read_text())["status"] == "failed"
    assert not list((tmp_path / "out").iterdir())
