"""A real Flink with two TaskManagers, one of which is killed in the middle of an export and of an import.

``make test-flink`` fetches what they need; without it they are skipped.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from flink import Cluster, Missing, cluster, flink_arguments, job_server
from job_services import worker_pool
from runner_jobs import EXPORT, IMPORT, Work, check_killed, check_same, make_work

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        with cluster(tmp_path_factory.mktemp("flink")) as made:
            yield made
    except Missing as error:
        pytest.skip(f"no Flink: {error}")


@pytest.fixture(scope="module")
def beam(tmp_path_factory: pytest.TempPathFactory, flink: Cluster) -> Iterator[tuple[str, ...]]:
    """What makes a pipeline run there, as ``docs/running.md`` says."""
    try:
        jar = job_server()
    except Missing as error:
        pytest.skip(f"no job server for Flink: {error}")
    with worker_pool(tmp_path_factory.mktemp("pool")) as pool:
        yield (*flink_arguments(flink.port, jar), *pool.arguments)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    return make_work(tmp_path_factory.mktemp("work"), scale=4)


def test_the_cluster(flink: Cluster) -> None:
    """Two TaskManagers are known; one that is killed is missed, and another takes its place."""
    flink.fill_up()
    assert flink.overview()["slots-available"] == 4
    os.kill(flink.task_managers()[0], signal.SIGKILL)
    flink.wait_for_task_managers(1)
    flink.fill_up()
    assert len(flink.task_managers()) == flink.overview()["taskmanagers"] == 2


@pytest.mark.parametrize("job", [EXPORT, IMPORT])
def test_the_same_bytes(flink: Cluster, beam: tuple[str, ...], work: Work, job: str) -> None:
    flink.fill_up()
    check_same(work, job, beam)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("job", [EXPORT, IMPORT])
def test_a_task_manager_is_killed(
    flink: Cluster, beam: tuple[str, ...], work: Work, job: str, seed: int
) -> None:
    """The job goes on with the other, or ends with an error and can be resumed: never a wrong output."""
    flink.fill_up()
    assert check_killed(work, job, beam, flink.task_managers, seed) in ("finished", "failed")


def test_what_could_not_be_fetched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import flink as module

    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.delenv("PATCHBEAM_FLINK_JOB_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    with pytest.raises(Missing, match=r"beam-runners-flink-1\.20-job-server:[\d.]+: there is no Maven"):
        job_server(fetch=True)
    monkeypatch.setenv("PATCHBEAM_FLINK_JOB_SERVER", str(tmp_path / "x.jar"))
    with pytest.raises(Missing, match="there is no such file"):
        job_server()
