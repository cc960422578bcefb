"""What this process has done so far, for counters and for the line that shows progress.

The library counts here, in any thread, and knows nothing of who looks: Beam's counters take what has come
since they last did, a progress line looks at what is done of a stage. One call costs well under a
microsecond, and there is one a block or a read, never one a pixel.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple


class Done(NamedTuple):
    """How far a stage is.

    Attributes:
        units: patches, tiles or whatever the stage counts.
        size_bytes: payload of those: what they take uncompressed.
        skipped: units that were finished before this run began.
    """

    units: int = 0
    size_bytes: int = 0
    skipped: int = 0


_lock = threading.Lock()
_counts: dict[str, int] = {}
_done: dict[str, Done] = {}


def add(name: str, count: int = 1) -> None:
    """Adds to a count, for instance ``reads`` or ``warps``."""
    with _lock:
        _counts[name] = _counts.get(name, 0) + count


def take(name: str) -> int:
    """Returns what has been added to a count since this was last asked, by any thread."""
    with _lock:
        return _counts.pop(name, 0)


def advance(stage: str, units: int, size_bytes: int = 0, *, skipped: bool = False) -> None:
    """Says that units of a stage are done.

    Args:
        stage: what is counted, for instance ``patches``.
        units: how many more.
        size_bytes: their payload.
        skipped: whether they were finished before this run began, which says nothing of its pace.
    """
    with _lock:
        done = _done.get(stage, Done())
        _done[stage] = Done(
            done.units + units, done.size_bytes + size_bytes, done.skipped + (units if skipped else 0)
        )


def progress() -> Mapping[str, Done]:
    """Returns how far each stage is that has begun, in the order in which they began."""
    with _lock:
        return dict(_done)


def begin() -> None:
    """Forgets how far stages are: another job begins."""
    with _lock:
        _done.clear()
