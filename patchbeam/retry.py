"""Another try for what may go right the next time: a share that was away, a connection that broke.

Only failures that can pass by themselves are tried again. A full disk, a missing file or a missing
permission is reported at once.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from patchbeam.errors import ReadFailed, WriteFailed

R = TypeVar("R")

_LOG = logging.getLogger(__name__)

# By name, because not every system has every one of them.
_TRANSIENT_NAMES = (
    "EIO",
    "EREMOTEIO",
    "ESTALE",
    "EAGAIN",
    "EBUSY",
    "EINTR",
    "EMFILE",
    "ENFILE",
    "ENOLCK",
    "ETIMEDOUT",
    "EPIPE",
    "ECONNABORTED",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "ENETDOWN",
    "ENETRESET",
    "ENETUNREACH",
)
TRANSIENT = frozenset(getattr(errno, name) for name in _TRANSIENT_NAMES if hasattr(errno, name))
"""Error numbers that are tried again; every other one is permanent."""

sleep: Callable[[float], None] = time.sleep
"""How the time between two tries is passed; looked up at each wait, so that tests can replace it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How often and how patiently.

    Attributes:
        tries: calls in all, the first included.
        first_wait_s: seconds before the second.
        growth: factor from one wait to the next.
        longest_wait_s: no wait is longer.
    """

    tries: int = 4
    first_wait_s: float = 0.1
    growth: float = 4.0
    longest_wait_s: float = 30.0

    def wait_s(self, done: int) -> float:
        """Returns the seconds to wait after ``done`` failed tries."""
        return float(min(self.longest_wait_s, self.first_wait_s * self.growth ** (done - 1)))


DEFAULT = Backoff()

_lock = threading.Lock()
_retries = 0


def is_transient(error: BaseException) -> bool:
    """Returns whether an error can pass by itself."""
    if not isinstance(error, OSError):
        return False
    if error.errno is None:
        return isinstance(error, ConnectionError | TimeoutError)
    return error.errno in TRANSIENT


def retrying(
    work: Callable[[], R], *, backoff: Backoff = DEFAULT, between: Callable[[], object] | None = None
) -> R:
    """Calls ``work`` until it succeeds, fails for good, or has been tried often enough.

    Args:
        work: takes nothing and can be called again after it has failed.
        backoff: how often and how patiently.
        between: called before each further try, for instance to close what may be broken.

    Raises:
        ReadFailed, WriteFailed: as ``work`` raises them; after the last try the message says how many.
    """
    for done in range(1, backoff.tries + 1):
        try:
            return work()
        except OSError as error:
            if not is_transient(error):
                raise
            if done == backoff.tries:
                raise _given_up(error, done) from error
            wait_s = backoff.wait_s(done)
            _LOG.warning("%s; trying again in %g s (try %d of %d)", error, wait_s, done + 1, backoff.tries)
        _count()
        sleep(wait_s)
        if between is not None:
            between()
    raise ValueError(f"tries: {backoff.tries} is not 1 or more")


def take_count() -> int:
    """Returns the tries made again in this process since this was last asked, by any thread."""
    global _retries
    with _lock:
        taken, _retries = _retries, 0
    return taken


def _count() -> None:
    global _retries
    with _lock:
        _retries += 1


def _given_up(error: OSError, tries: int) -> OSError:
    for kind in (ReadFailed, WriteFailed):
        if isinstance(error, kind):
            failure = kind(f"{error} (tried {tries} times)")
            failure.errno = error.errno
            if isinstance(failure, ReadFailed):
                failure.source = getattr(error, "source", None)
            return failure
    return error
