"""What reaches the terminal besides a command's own text: warnings, once, without library chatter.

Configured before Beam is imported, since some of the chatter is logged while it is.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from patchbeam.errors import PatchbeamError

# Said by Beam on import wherever its optional Google packages are not installed; nothing here needs them.
_CHATTER = ("apitools not found",)


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


def configure() -> None:
    """Sends warnings of this package and of the libraries to standard error; safe to call again."""
    root = logging.getLogger()
    if any(isinstance(handler, _Handler) for handler in root.handlers):
        return
    handler = _Handler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(_Useful())
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
