"""Places in one CRS from those in another, by PROJ.

A transformer may be used by one thread only, and to make one takes as long as to transform a hundred thousand
places. One thread therefore keeps a transformer of each kind for what the others ask now and then, from the
plan on; a thread that asks for more than that gets its own.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
from pyproj import Transformer

from patchbeam.rasters.floors import Floats

_ENOUGH = 1 << 17
"""Places after which a thread has a transformer of its own."""

_local = threading.local()


def transform(source: str, target: str, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Transforms places.

    Args:
        source: CRS as WKT; x is east or longitude, whatever its axes are.
        target: likewise.
        x: of any shape.
        y: the same shape.

    Returns:
        Places in the other CRS, of the same shape; infinite where there is none.
    """
    asked: dict[tuple[str, str], int] | None = getattr(_local, "asked", None)
    if asked is None:
        asked = _local.asked = {}
    pair = source, target
    asked[pair] = asked.get(pair, 0) + np.size(x)
    if asked[pair] > _ENOUGH:
        return _transform(pair, x, y)
    return _Common.thread.submit(_transform, pair, x, y).result()


def prepare(source: str, target: str) -> None:
    """Has the common thread make the transformer that :func:`transform` uses; does not wait for it."""
    _Common.thread.submit(_transformer, (source, target))


def _transform(pair: tuple[str, str], x: Floats, y: Floats) -> tuple[Floats, Floats]:
    x, y = _transformer(pair).transform(x, y, errcheck=False)
    return np.asarray(x), np.asarray(y)


def _transformer(pair: tuple[str, str]) -> Any:
    transformers: dict[tuple[str, str], Any] | None = getattr(_local, "transformers", None)
    if transformers is None:
        transformers = _local.transformers = {}
    if pair not in transformers:
        transformers[pair] = Transformer.from_crs(*pair, always_xy=True)
    return transformers[pair]


class _Common:
    """The thread that keeps transformers for all."""

    thread: ClassVar[ThreadPoolExecutor]

    @classmethod
    def begin(cls) -> None:
        """Makes it; it starts when it is first asked."""
        cls.thread = ThreadPoolExecutor(1, thread_name_prefix="patchbeam-proj")


_Common.begin()
if hasattr(os, "register_at_fork"):
    # threads do not survive a fork
    os.register_at_fork(after_in_child=_Common.begin)
