"""Jobs whose runner is another process: what is said of them, asked of them, and left out."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from apache_beam.metrics.cells import CounterCell
from apache_beam.metrics.execution import MetricKey
from apache_beam.metrics.metricbase import MetricName
from apache_beam.portability.api import beam_job_api_pb2
from apache_beam.runners.portability.portable_runner import PipelineResult

from patchbeam.counts import Done
from patchbeam.errors import SourceUnreadable
from pipelines import logs, progress
from pipelines.beam_options import beam_options, ends_with_us
from pipelines.failures import failed_there, original_error

PYTHON = """Pipeline job-1 failed in state FAILED: Error running pipeline.
Traceback (most recent call last):
  File "/x/data_plane.py", line 591, in input_elements
    element = received.get(timeout=1)
_queue.Empty

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/data_plane.py", line 594, in input_elements
    raise RuntimeError('Channel closed prematurely.')
RuntimeError: Channel closed prematurely.
"""

JAVA = """Pipeline job-2 failed in state FAILED: org.apache.flink.runtime.JobException: Recovery is suppressed
\tat org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.handleFailure(X.java:176)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.util.concurrent.TimeoutException: Heartbeat of TaskManager with id tm2 timed out.
\t... 31 more
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PYTHON, "FAILED: Error running pipeline. RuntimeError: Channel closed prematurely;"),
        (JAVA, "Recovery is suppressed Caused by: java.util.concurrent.TimeoutException: Heartbeat of"),
        ("", "the job failed where it ran: RuntimeError;"),
    ],
)
def test_what_a_runner_says_is_told_without_its_traceback(text: str, said: str) -> None:
    told = str(failed_there(RuntimeError(text), "Run it again"))
    assert said in told and told.endswith("its log there says more. Run it again")
    assert "\n" not in told and "File" not in told and "ExecutionFailureHandler" not in told


def test_a_lost_connection_is_told_in_a_line() -> None:
    class Lost(Exception):
        def details(self) -> str:
            return "Socket closed"

    assert "where it ran: Socket closed; its log" in str(failed_there(Lost("a\nb"), ""))


def test_an_error_of_ours_comes_back_from_text() -> None:
    text = f"bundle failed:{PYTHON}\n"
    text += "patchbeam.errors.SourceUnreadable: a.tif: cut short [while running 'Read']\n"
    found = original_error(RuntimeError(text))
    assert isinstance(found, SourceUnreadable) and str(found) == "a.tif: cut short"


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        ([], True),
        (["--runner=PrismRunner"], True),
        (["--runner=PrismRunner", "--environment_type=EXTERNAL"], False),
        (["--runner=PortableRunner", "--environment_type=LOOPBACK"], True),
        (["--runner=PortableRunner"], False),
        (["--runner=FlinkRunner", "--flink_master=localhost:8081"], False),
        (["--runner=DataflowRunner"], False),
    ],
)
def test_what_ends_with_this_process(arguments: list[str], ends: bool) -> None:
    assert ends_with_us(beam_options(arguments)[0]) is ends


class Server:
    """A job server whose counter goes up with every question."""

    def __init__(self) -> None:
        self.asked = 0

    def GetJobMetrics(self, _: object) -> Any:
        self.asked += 1
        cell = CounterCell()
        cell.inc(10 * self.asked)
        key = MetricKey("WritePieces", MetricName("patchbeam", "patches_done"))
        info = cell.to_runner_api_monitoring_info(key.metric, key.step)
        return beam_job_api_pb2.GetJobMetricsResponse(
            metrics=beam_job_api_pb2.MetricResults(attempted=[info])
        )


def test_a_job_server_is_asked_each_time() -> None:
    """Beam's result asks once and repeats the answer for ever, so that progress would stand still."""
    result = PipelineResult(Server(), "job", [], [])
    told = [progress.told_by(result) for _ in range(3)]
    assert told == [{"patches": Done(count)} for count in (10, 20, 30)]


def test_ctrl_c_cancels_what_is_done_here_alone() -> None:
    def press() -> None:
        raise KeyboardInterrupt

    cancelled: list[bool] = []
    for ends_here in (False, True):
        result = SimpleNamespace(
            wait_until_finish=press, cancel=lambda here=ends_here: cancelled.append(here)
        )
        pipeline = SimpleNamespace(run=lambda result=result: result)
        with pytest.raises(KeyboardInterrupt):
            progress.run_pipeline(pipeline, [], ends_here=ends_here)  # type: ignore[arg-type]
    assert cancelled == [True]


def is_said(text: str, error: BaseException | None = None) -> bool:
    info = None if error is None else (type(error), error, None)
    record = logging.LogRecord("worker", logging.ERROR, __file__, 1, text, None, info)
    return logs._Useful().filter(record)


def test_chatter_is_left_out() -> None:
    ours = "patchbeam.errors.SourceUnreadable: a.tif: cut short"
    assert not is_said(f"bundle failed:\nTraceback (most recent call last):\n  File x\n{ours}\n")
    assert not is_said("Really starting service at localhost:1 with cmd: ('prism',)")
    assert is_said(PYTHON) and is_said(ours) and is_said("the disk is full", OSError(28, "no space"))
    assert not is_said("Failed to read inputs in the data plane.", RpcError("Socket closed"))


class RpcError(Exception):
    """As grpc names it."""


def test_threads_end_quietly_when_the_server_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[BaseException | None] = []
    monkeypatch.setattr(threading, "excepthook", lambda given: said.append(given.exc_value))
    logs.expect_lost_connections()
    logs.expect_lost_connections()

    def fail(error: Exception) -> None:
        raise error

    errors = [RpcError("Socket closed"), ValueError("a mistake")]
    for error in errors:
        thread = threading.Thread(target=fail, args=(error,))
        thread.start()
        thread.join()
    assert said == errors[1:]
