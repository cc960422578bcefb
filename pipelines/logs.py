"""What reaches the terminal besides a command's own text: warnings, once, without library chatter.

Configured before Beam is imported, since some of the chatter is logged while it is.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

import click

from patchbeam.errors import PatchbeamError
from patchbeam.redact import without_secrets

# Said by Beam on import wherever its optional Google packages are not installed; nothing here needs them.
# The others are said whenever a runner's own server is started and stopped, as Prism's.
_CHATTER = ("apitools not found", "Really starting service", "Really destroying service")
# what a worker elsewhere has raised comes back as text, several times over
_OURS_AS_TEXT = re.compile(r"^patchbeam\.errors\.\w+: ", re.M)

_OURS = ("patchbeam", "transforms", "pipelines")


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is at the time, not to what it was when logging began."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        pass

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class _Useful(logging.Filter):
    """Leaves out chatter, and errors that the command says itself when it ends."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and (_is_ours(record.exc_info[1]) or _is_lost(record.exc_info[1])):
            # the worker logs what it raises, traceback and all; the runner then raises it here
            return False
        text = record.getMessage()
        return not text.startswith(_CHATTER) and not ("Traceback" in text and _OURS_AS_TEXT.search(text))


class _ThreadHook:
    """Says what has ended a thread, unless that is a connection that broke."""

    def __init__(self) -> None:
        self._before = threading.excepthook

    def __call__(self, given: threading.ExceptHookArgs) -> None:
        if not _is_lost(given.exc_value):
            self._before(given)


def expect_lost_connections() -> None:
    """Lets threads end without a word when the runner's server is gone: who waits for the job is told.

    After Ctrl-C it always is; safe to call again.
    """
    if not isinstance(threading.excepthook, _ThreadHook):
        threading.excepthook = _ThreadHook()


def _is_lost(error: BaseException | None) -> bool:
    # by name: what runs on this machine alone need not load the library
    return any(kind.__name__ == "RpcError" for kind in type(error).__mro__)


def _is_ours(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, PatchbeamError | KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": moment, "severity": record.levelname, "logger": record.name}
        return json.dumps({**line, "message": record.getMessage()}, ensure_ascii=False)


def write_json() -> None:
    """Makes what is logged one JSON object a line, from the level INFO on, as log services read it."""
    configure()
    for handler in logging.getLogger().handlers:
        if isinstance(handler, _Handler):
            handler.setFormatter(_Json())
            handler.setLevel(logging.INFO)
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)


def is_json() -> bool:
    """Whether what is logged is JSON."""
    handlers = logging.getLogger().handlers
    return any(isinstance(h, _Handler) and isinstance(h.formatter, _Json) for h in handlers)


def say_error(text: str) -> None:
    """Tells the user why a command has failed."""
    text = without_secrets(text)
    if is_json():
        logging.getLogger("patchbeam").error("%s", text)
    else:
        click.echo(f"patchbeam: {text}", err=True)


def configure() -> None:
    """Sends warnings of this package and of the libraries to standard error; safe to call again."""
    root = logging.getLogger()
    for there in root.handlers:
        if isinstance(there, _Handler):
            there.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
            there.setLevel(logging.WARNING)
            return
    handler = _Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(_Useful())
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
