"""Runs commands in forked processes, so that a killed one costs no more than its own work.

Reads one JSON object a line: ``{"arguments": […], "kill": {"call": 7, "after": true}}``; answers with the
number of the process, then with how it ended. A command that is to be killed sends itself SIGKILL before or
after its k-th change of the file system.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHANGES = ("write_parts", "write_at", "concat", "rename", "delete", "create_new", "delete_tree")
"""The functions of storage that change something."""


def count_changes(hook: Callable[[int, str, bool], None]) -> None:
    """Calls ``hook`` with (number of the call, function, whether it is over) around every change."""
    from patchbeam import storage

    lock, calls = threading.Lock(), iter(range(1, 10**9))

    def wrap(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            with lock:
                number = next(calls)
            hook(number, name, False)
            done = original(*arguments, **options)
            hook(number, name, True)
            return done

        return counted

    for name in CHANGES:
        setattr(storage, name, wrap(name, getattr(storage, name)))


def _child(task: dict[str, Any]) -> int:
    from pipelines.cli import main

    kill = task.get("kill")
    if kill:

        def hook(number: int, _: str, over: bool) -> None:
            if number == kill["call"] and over == kill["after"]:
                os.kill(os.getpid(), signal.SIGKILL)

        count_changes(hook)
    counted = [0]
    if task.get("count"):

        def count(number: int, _: str, __: bool) -> None:
            counted[0] = max(counted[0], number)

        count_changes(count)
    status = main(task["arguments"])
    if task.get("count"):
        Path(task["count"]).write_text(str(counted[0]))
    return status


class Server:
    """The running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def start(self, *arguments: str, **task: Any) -> int:
        """Starts a command and returns the number of its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"arguments": arguments, **task}) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """Waits for the command; returns its status, negative for a signal."""
        return int(self._answer())

    def run(self, *arguments: str, **task: Any) -> int:
        """Runs a command."""
        self.start(*arguments, **task)
        return self.wait()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def server(log: Path) -> Iterator[Server]:
    """Starts a server; what commands print goes to ``log``."""
    root = Path(__file__).resolve().parents[1]
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        try:
            yield Server(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=30)


def _serve() -> None:
    import pipelines.export_image
    import pipelines.resolve  # noqa: F401 - imported once, before the forks

    # what commands print must not be taken for answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        process = os.fork()
        if not process:
            status = 99
            try:
                status = _child(json.loads(line))
            finally:
                sys.stderr.flush()
                os._exit(status)
        print(process, file=answers, flush=True)
        _, ended = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(ended), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
