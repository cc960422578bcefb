"""What tests of files share: what is left over, and system calls that fail."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.name.startswith(".")]


def failing(number: int, after: int = 0) -> Callable[..., Any]:
    """A call that raises an OSError the (after + 1)th time, and every time from then on."""
    calls = iter(range(10**9))

    def call(*_: Any, **__: Any) -> int:
        if next(calls) >= after:
            raise OSError(number, os.strerror(number))
        return 0

    return call


def replace_but_not_from(piece: str) -> Callable[[str, str], None]:
    """``os.replace``, but one file lies on another file system."""
    real = os.replace

    def call(source: str, destination: str) -> None:
        if source == piece:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(source, destination)

    return call


@contextmanager
def files_end_at(size_bytes: int) -> Iterator[None]:
    """No file can be written beyond so many bytes: to a library in C, much as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
