"""Files that a target's parser wants to find on disk."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path


@cache
def folder(name: str) -> Path:
    """A folder of this process for one target."""
    made = tempfile.TemporaryDirectory(prefix=f"patchbeam-fuzz-{name}-")
    atexit.register(made.cleanup)
    return Path(made.name)


def put(room: str, name: str, data: bytes) -> str:
    """Writes an input where its parser reads it; returns the path."""
    path = folder(room) / name
    path.write_bytes(data)
    return str(path)
