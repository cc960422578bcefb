"""Open datasets, kept a thread: opening one for each window costs more than reading it."""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from typing import Any

import rasterio
from rasterio.errors import RasterioError

from patchbeam.errors import ReadFailed, SourceUnreadable

MAX_OPEN = 32
"""Datasets that a thread keeps open at least; the one used longest ago is closed first."""


def most_open(threads: int) -> int:
    """Returns how many datasets each of so many threads may keep open: half of what the system allows."""
    try:
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, OSError):
        return MAX_OPEN
    return min(max(MAX_OPEN, allowed // (2 * threads)), 256)


class Handles:
    """Datasets by (path, overview level), each used by the thread that opened it alone."""

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self.max_open = max_open
        self._local = threading.local()
        self._lock = threading.Lock()
        self._all: list[OrderedDict[tuple[str, int | None], Any]] = []

    def get(self, path: str, overview: int | None = None) -> Any:
        """Returns the open dataset.

        Args:
            path: of the raster.
            overview: number of the overview to read in place of the full size, from 0; ``None``: full size.

        Raises:
            ReadFailed: it cannot be opened, though its header once was read.
        """
        mine: OrderedDict[tuple[str, int | None], Any] | None = getattr(self._local, "open", None)
        if mine is None:
            mine = self._local.open = OrderedDict()
            with self._lock:
                self._all.append(mine)
        key = (path, overview)
        if key in mine:
            mine.move_to_end(key)
            return mine[key]
        options = {} if overview is None else {"OVERVIEW_LEVEL": overview}
        try:
            dataset = rasterio.open(path, **options)
        except (RasterioError, ValueError) as e:
            there = "://" in path or path.startswith("/vsi") or os.path.exists(path)
            kind = ReadFailed if there else SourceUnreadable
            failure = kind(f"{path} cannot be opened any more: {e}; has it been moved or changed?")
            failure.errno = errno.EIO if there else errno.ENOENT
            failure.source = path
            raise failure from e
        mine[key] = dataset
        while len(mine) > self.max_open:
            mine.popitem(last=False)[1].close()
        return dataset

    def close(self) -> None:
        """Closes every dataset of every thread; none may be in use."""
        with self._lock:
            for datasets in self._all:
                while datasets:
                    datasets.popitem()[1].close()
            self._all.clear()
        self._local = threading.local()
