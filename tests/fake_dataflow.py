"""A stand-in for Dataflow's REST service on loopback: takes one job, runs what was staged, says it is done.

The staged pipeline is run as it is, by the local runner in another process, with the container that its
workers would have swapped for that process.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_JOBS = re.compile(
    r"/v1b3/projects/([^/]+)/locations/([^/]+)/jobs(?:/([^/?]+))?(/messages|/metrics)?(?:\?.*)?"
)


class Service:
    """What the service has been told, and how the job ended.

    Attributes:
        job: the job as it was submitted.
        size_bytes: of the request that submitted it.
        said: what the run printed.
        counters: what it says that the job has counted.
    """

    def __init__(self, cwd: Path | None) -> None:
        self.job: dict[str, Any] = {}
        self.size_bytes = 0
        self.said = ""
        self.counters: dict[str, int] = {}
        self._cwd = cwd
        self._state = "JOB_STATE_DONE"
        self._run: threading.Thread | None = None

    def take(self, body: bytes) -> dict[str, Any]:
        """Takes a job and begins to run it."""
        self.job, self.size_bytes = json.loads(body), len(body)
        if self._cwd is not None:
            self._run = threading.Thread(target=self._replay)
            self._run.start()
        return self.status("JOB_STATE_PENDING")

    def status(self, state: str | None = None) -> dict[str, Any]:
        """Returns what the service says of the job."""
        if state is None:
            state = "JOB_STATE_RUNNING" if self._run is not None and self._run.is_alive() else self._state
        name = self.job.get("name")
        return {"id": "job-1", "name": name, "projectId": "p", "location": "r", "currentState": state}

    def metrics(self) -> list[dict[str, Any]]:
        """Returns what the service says that the job has counted so far."""

        def one(name: str, count: int, more: dict[str, str]) -> dict[str, Any]:
            context = {"namespace": "patchbeam", "step": "s9", **more}
            return {"name": {"origin": "user", "name": name, "context": context}, "scalar": count}

        kinds: list[dict[str, str]] = [{}, {"tentative": "true"}]  # what is committed, and what is tried
        return [one(name, count, more) for name, count in self.counters.items() for more in kinds]

    def _replay(self) -> None:
        url = self.job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
        run = subprocess.run(
            [sys.executable, __file__, url], cwd=self._cwd, capture_output=True, text=True, check=False
        )
        self.said = run.stdout + run.stderr
        self._state = "JOB_STATE_DONE" if run.returncode == 0 else "JOB_STATE_FAILED"


@contextmanager
def dataflow(cwd: Path | None) -> Iterator[tuple[str, Service]]:
    """Yields the endpoint and the service; a job is run in ``cwd``, or only taken when that is ``None``."""
    service = Service(cwd)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def _send(self, value: dict[str, Any], code: int = 200) -> None:
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if _JOBS.fullmatch(self.path):
                self._send(service.take(body))
            else:
                self._send({"error": {"code": 404, "message": self.path}}, 404)

        def do_GET(self) -> None:
            match = _JOBS.fullmatch(self.path)
            if match is None:
                self._send({"error": {"code": 404, "message": self.path}}, 404)
            elif match[4] == "/messages":
                self._send({"jobMessages": []})
            elif match[4] == "/metrics":
                self._send({"metrics": service.metrics()})
            else:
                self._send(service.status() if match[3] else {"jobs": []})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://localhost:{server.server_port}", service
    finally:
        server.shutdown()


def staged(url: str) -> Any:
    """Returns the pipeline that was staged."""
    from apache_beam.portability.api import beam_runner_api_pb2

    from patchbeam import storage

    return beam_runner_api_pb2.Pipeline.FromString(storage.read_bytes(url))


def _replay(url: str) -> None:
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.portability.fn_api_runner import fn_runner
    from apache_beam.transforms import environments

    pipeline = staged(url)
    for environment in pipeline.components.environments.values():
        environment.CopyFrom(environments.EmbeddedPythonEnvironment.default().to_runner_api(None))
    result = fn_runner.FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([]))
    result.wait_until_finish()


if __name__ == "__main__":
    sys.path.insert(0, ".")
    _replay(sys.argv[1])
