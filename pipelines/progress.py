"""The line that shows how a running job comes on: live on a terminal, a plain line now and then elsewhere.

Everything goes to standard error; standard output holds the summary alone. On this machine the stages
count as they work (:mod:`patchbeam.counts`). Where a job runs elsewhere, its counters are asked for, and
where the runner does not tell them before the end, the files that its workers leave are counted.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import apache_beam as beam
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.portability.portable_runner import PipelineResult as PortableResult
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from patchbeam import counts
from patchbeam.counts import Done
from pipelines import logs
from pipelines.pace import Counted, Pace, Stage
from pipelines.showing import is_shown
from transforms.meters import BYTES, NAMESPACE, UNITS

PLAIN_EVERY_S = 10.0
"""Seconds between two plain lines, and before the first: a short job prints none."""
LIVE_EVERY_S = 0.25
ASK_EVERY_S = 10.0
"""Seconds between two questions to a runner that works elsewhere."""

_LOG = logging.getLogger(__name__)


def run_pipeline(
    pipeline: beam.Pipeline,
    stages: Sequence[Stage],
    *,
    left_files: Counted | None = None,
    ends_here: bool = True,
) -> None:
    """Runs a pipeline to its end and shows its progress meanwhile, where that is wanted.

    Args:
        pipeline: the pipeline.
        stages: what is counted of it, in order.
        left_files: counts what workers have left; asked where the runner tells nothing.
        ends_here: whether the work is done by this process, so that Ctrl-C has to end it.
    """
    counts.begin()
    if not is_shown():
        _wait(pipeline.run(), ends_here)
        return
    watch = _Watch(left_files)
    over = threading.Event()
    thread = threading.Thread(
        target=_show, args=(Pace(stages, time.monotonic()), watch, over), name="progress", daemon=True
    )
    thread.start()
    try:
        result = pipeline.run()
        watch.result = result
        _wait(result, ends_here)
    finally:
        over.set()
        thread.join(timeout=ASK_EVERY_S)  # no longer: it may be waiting for an answer that never comes


def _wait(result: Any, ends_here: bool) -> None:
    if isinstance(result, PortableResult):
        logs.expect_lost_connections()
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        if ends_here:
            with suppress(Exception):  # its server has had the same Ctrl-C, and may be gone
                result.cancel()
        raise


class _Watch:
    """Gathers what is known of how far a job is, from wherever it is known."""

    def __init__(self, left_files: Counted | None) -> None:
        self.result: Any = None
        self._left_files = left_files
        self._ask_at = time.monotonic() + ASK_EVERY_S
        self._told: Mapping[str, Done] = {}

    def counted(self) -> Mapping[str, Done]:
        here = counts.progress()
        if here or time.monotonic() < self._ask_at:
            return here or self._told
        begun = time.monotonic()
        try:
            told = {} if self.result is None else told_by(self.result)
            self._told = told or ({} if self._left_files is None else self._left_files())
        except Exception as error:
            # a failed question must not end a job that works; it is asked again
            _LOG.debug("progress is not known: %s", error)
        # long answers, as of many files, are asked for less often
        now = time.monotonic()
        self._ask_at = now + max(ASK_EVERY_S, 20 * (now - begun))
        return self._told


def told_by(result: Any) -> Mapping[str, Done]:
    """Returns how far stages are by the counters of a running pipeline."""
    found: dict[str, Done] = {}
    if isinstance(result, PortableResult):
        result._metrics = None  # it asks its job server once and then repeats the first answer
    for one in result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]:
        name = one.key.metric.name
        value = max(one.committed or 0, one.attempted or 0)
        for ending, change in ((BYTES, Done(0, value)), (UNITS, Done(value))):
            if name.endswith(ending):
                stage = name.removesuffix(ending)
                before = found.get(stage, Done())
                found[stage] = Done(before.units + change.units, before.size_bytes + change.size_bytes)
                break
    return {stage: done for stage, done in found.items() if done.units}


def _show(pace: Pace, watch: _Watch, over: threading.Event) -> None:
    console = Console(file=sys.stderr, force_jupyter=False)
    if sys.stderr.isatty() and not console.is_dumb_terminal and not logs.is_json():
        _live(console, pace, watch, over)
        return
    while not over.wait(PLAIN_EVERY_S):
        text = pace.look(watch.counted(), time.monotonic()).text()
        if logs.is_json():
            _LOG.info("%s", text)
        else:
            print(text, file=sys.stderr, flush=True)


def _live(console: Console, pace: Pace, watch: _Watch, over: threading.Event) -> None:
    columns = (BarColumn(bar_width=24), TextColumn("{task.description}", markup=False))
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, redirect_stdout=False
    ) as bar:
        task = bar.add_task("", total=None)
        while True:
            sight = pace.look(watch.counted(), time.monotonic())
            total = sight.stage.total
            bar.update(task, description=sight.text(), completed=sight.done, total=total, refresh=True)
            if over.wait(LIVE_EVERY_S):
                return
