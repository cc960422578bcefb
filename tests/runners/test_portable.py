"""Portable runners whose workers are processes apart, as on a cluster; one is killed in the middle."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from flink import JOB_SERVER, flink_arguments
from job_services import Pool, job_service, worker_pool
from prism import MODULE, prism_arguments
from processes import HAVE_PROC
from refusals import command
from runner_jobs import EXPORT, IMPORT, Work, check_killed, check_same, make_work
from shared import ROOT

from pipelines import progress


@dataclass(frozen=True)
class Runner:
    """A runner and the pool that its workers come from."""

    beam: tuple[str, ...]
    pool: Pool


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with worker_pool(tmp_path_factory.mktemp("pool")) as made:
        yield made


@pytest.fixture(scope="module")
def beams_own(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Runner]:
    with job_service(tmp_path_factory.mktemp("service")) as service:
        yield Runner((*service, *pool.arguments), pool)


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory, pool: Pool) -> Iterator[Runner]:
    with job_service(tmp_path_factory.mktemp("service"), workers=2) as service:
        yield Runner((*service, *pool.arguments), pool)


@pytest.fixture(scope="module")
def prism(pool: Pool) -> Runner:
    return Runner((*prism_arguments(build=True), *pool.arguments), pool)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return make_work(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return make_work(tmp_path_factory.mktemp("larger"), scale=4)


def test_the_same_bytes(beams_own: Runner, work: Work) -> None:
    check_same(work, EXPORT, beams_own.beam)


def test_flinks_options(beams_own: Runner, work: Work, tmp_path: Path) -> None:
    """They are taken, and a job server that stands already is used, whatever it hands the work to."""
    flink = flink_arguments(8081, tmp_path / "not needed.jar")
    check_same(work, IMPORT, (*flink, *beams_own.beam[1:]))


def test_the_page_names_the_same_options(pool: Pool) -> None:
    text = (ROOT / "docs" / "running.md").read_text()
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    service = ("--runner=PortableRunner", "--job_endpoint=", "--service_port=", "--port=")
    for title, arguments in {
        "Flink": (*flink_arguments(8081, Path("x.jar")), *pool.arguments, "--service_port="),
        "Any portable runner": (*service, *pool.arguments),
        "Prism": ("--runner=PrismRunner", "--prism_location="),
    }.items():
        for argument in arguments:
            name, _, value = argument.partition("=")
            shown = f"{name}={value}" if value.isalpha() else f"{name}="
            assert shown in sections[title], f"{title}: {shown}"
    assert MODULE.partition("@")[0] in sections["Prism"]
    assert JOB_SERVER.rpartition(":")[0] in sections["Flink"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["two_workers", "prism"])
@pytest.mark.parametrize("job", [EXPORT, IMPORT])
def test_the_same_bytes_elsewhere(request: pytest.FixtureRequest, larger: Work, name: str, job: str) -> None:
    check_same(larger, job, request.getfixturevalue(name).beam)


@pytest.mark.long
@pytest.mark.skipif(not HAVE_PROC, reason="looks for processes in /proc")
@pytest.mark.parametrize("name", ["two_workers", "prism"])
@pytest.mark.parametrize("job", [EXPORT, IMPORT])
def test_a_worker_is_killed(request: pytest.FixtureRequest, larger: Work, name: str, job: str) -> None:
    """Neither runner tries again, so that the job ends; ``--resume`` makes the undisturbed output."""
    runner: Runner = request.getfixturevalue(name)
    endings = []
    for seed in range(3):
        endings.append(check_killed(larger, job, runner.beam, runner.pool.workers, seed))
        gone(runner.pool)
    print(f"{name}, {job}: {endings}")
    # Beam's own service may wait for a worker that is no more; Prism always notices
    assert set(endings) <= ({"failed", "finished"} if name == "prism" else {"failed", "finished", "hung"})
    assert "finished" not in endings or len(set(endings)) > 1, endings


def gone(pool: Pool) -> None:
    """Waits until no worker of the job before is left."""
    until = time.monotonic() + 30
    while pool.workers() and time.monotonic() < until:
        time.sleep(0.1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["beams_own", "prism"])
def test_progress(
    request: pytest.FixtureRequest, larger: Work, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By Prism's counters; by the files that workers leave where a service tells nothing before the end."""
    runner: Runner = request.getfixturevalue(name)
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.1)
    monkeypatch.setattr(progress, "ASK_EVERY_S", 0.1)
    told = []
    original = progress.told_by
    monkeypatch.setattr(progress, "told_by", lambda result: told.append(original(result)) or told[-1])
    larger.clear()
    outcome = command(*larger.arguments(EXPORT), "--", *runner.beam)
    assert outcome.status == 0, outcome
    between = {int(count) for count in re.findall(r"^(\d+) of 512 patches", outcome.err, re.M)} - {0, 512}
    assert len(between) >= 2, outcome.err
    assert any(told) == (name == "prism")
