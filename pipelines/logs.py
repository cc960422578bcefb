"""What reaches the terminal besides a command's own text: warnings, once, without library chatter.

Configured before Beam is imported, since some of the chatter is logged while it is.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import click

from patchbeam.errors import PatchbeamError

# Said by Beam on import wherever its optional Google packages are not installed; nothing here needs them.
_CHATTER = ("apitools not found",)

_OURS = ("patchbeam", "transforms", "pipelines")


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to whatever ``sys.stderr`` is at the time, not to what it was when logging began."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        pass


class _Useful(logging.Filter):
    """Leaves out chatter, and errors that the command says itself when it ends."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and _is_ours(record.exc_info[1]):
            # the worker logs what it raises, traceback and all; the runner then raises it here
            return False
        return not record.getMessage().startswith(_CHATTER)


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
