"""A portable runner on loopback: Beam's own job service, and a pool whose workers are processes apart.

python tests/job_services.py WORKERS --port=PORT      # Beam's job service, with so many workers a job
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from processes import below
from range_server import free_port, wait_for
from shared import ROOT

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Pool:
    """A pool that starts a worker process whenever a runner asks for one."""

    port: int
    process: int

    @property
    def arguments(self) -> tuple[str, ...]:
        """What makes a runner use it."""
        return ("--environment_type=EXTERNAL", f"--environment_config=localhost:{self.port}")

    def workers(self) -> list[int]:
        """The worker processes that live, the oldest first."""
        return below(self.process, b"SdkHarness(")


def environment() -> dict[str, str]:
    """Where workers find Python and this project."""
    folder = str(Path(sys.executable).parent)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


@contextmanager
def running(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process, with what it says in a file, and ends it."""
    with log.open("wb") as said:
        process = subprocess.Popen(
            arguments, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=environment(), cwd=log.parent
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def worker_pool(folder: Path) -> Iterator[Pool]:
    """Runs a worker pool, as ``docs/running.md`` says."""
    port = free_port()
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={port}"]
    # a thread of its own waits for an hour: Ctrl-C alone ends it with its workers
    with running(command, folder / "pool.log") as process:
        wait_for(port, process)
        pool = Pool(port, process.pid)
        try:
            yield pool
        finally:
            for worker in pool.workers():
                os.kill(worker, 9)


@contextmanager
def job_service(folder: Path, workers: int = 1) -> Iterator[tuple[str, ...]]:
    """Runs a job service; yields what makes a pipeline use it.

    Args:
        folder: for what is staged and said.
        workers: that one job has; of one, the service is Beam's own as a user starts it.
    """
    port = free_port()
    own = ["-m", "apache_beam.runners.portability.local_job_service_main"]
    command = [
        sys.executable,
        *(own if workers == 1 else [__file__, str(workers)]),
        f"--port={port}",
        f"--staging_dir={folder}",
    ]
    with running(command, folder / "service.log") as process:
        wait_for(port, process)
        yield ("--runner=PortableRunner", f"--job_endpoint=localhost:{port}")


def serve(workers: int, arguments: list[str]) -> None:
    """Runs Beam's job service with several workers a job, for which it has no option."""
    from apache_beam.portability.api import beam_job_api_pb2
    from apache_beam.runners.portability import local_job_service, local_job_service_main
    from apache_beam.runners.portability.fn_api_runner import fn_runner

    def run(job: Any) -> Any:
        job.set_state(beam_job_api_pb2.JobState.RUNNING)
        runner = fn_runner.FnApiRunner(provision_info=job._provision_info)
        runner._num_workers = workers
        return runner.run_via_runner_api(job._pipeline_proto, job.pipeline_options())

    local_job_service.BeamJob._invoke_runner = run
    local_job_service_main.run(arguments)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
