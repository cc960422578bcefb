"""Files between the steps of sampling: features grouped by block, and tables that say where they lie.

Nothing that grows with the number of features crosses a stage: features are spooled under the temporary
prefix, and only stretches of them (file, first, count) are gathered.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from patchbeam import storage
from patchbeam.elements import Bytes, Ints
from patchbeam.errors import ReadFailed
from patchbeam.retry import retrying

FEATURE = np.dtype(
    [
        ("feature", "<i8"),
        ("column", "<i8"),
        ("row", "<i8"),
        ("width", "<i8"),
        ("height", "<i8"),
        ("start", "<i8"),
        ("entries", "<i8"),
        ("geometry", "<i8"),
    ]
)
"""A spooled feature: its number, its pixels on the grid, where its bytes start after the table, and how many
are encoded properties and how many its geometry (none for a point)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stretches:
    """Stretches of one spooled file, gathered.

    Attributes:
        path: the file.
        order: its place among the files.
        table: ``(stretch, value)``; the first value is what stretches are gathered by (a block, a bucket
            of features), the others are for whoever reads them.
        counts: numbers to be summed.
    """

    path: str
    order: int
    table: Ints
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherTask:
    """All stretches of one block or bucket.

    Attributes:
        key: the block or the bucket.
        index: name of the index, see :func:`write_index`.
        first: first row of its stretches in the index.
        stretches: number of stretches.
        position: features in the tasks before it.
        counts: sums, on the first task only.
    """

    key: int
    index: str
    first: int
    stretches: int
    position: int
    counts: tuple[int, ...]


def spool_name(folder: str, what: str) -> str:
    """Returns a new name; each attempt has its own, so that a repeated one changes nothing."""
    return storage.join(folder, f"{what}.{uuid.uuid4().hex[:12]}")


def write_spool(path: str, table: np.ndarray[tuple[int], np.dtype[np.void]], data: Bytes) -> None:
    """Writes the number of rows of a table, the table, and the bytes that it points into."""
    rows = np.array([len(table)], "<i8").view(np.uint8)
    retrying(lambda: storage.write_parts(path, [rows, table.view(np.uint8), data]))


def read_exact(path: str, start: int, length: int) -> bytes:
    """Returns a range of a spooled file.

    Raises:
        ReadFailed: it ends before.
    """
    data = retrying(lambda: storage.read_bytes(path, start, length))
    if len(data) != length:
        raise ReadFailed(
            f"{path}: ends at byte {start + len(data)}, {length} bytes are due from byte {start}"
        )
    return data


def write_index(folder: str, parts: Sequence[Stretches], *, last: int) -> list[GatherTask]:
    """Writes all stretches, sorted, into one index, and returns a task for each key.

    Args:
        folder: the temporary prefix.
        parts: the gathered stretches; the third value of a row is the number of features in it.
        last: a key that comes after all others.
    """
    ordered = sorted(parts, key=lambda part: (part.order, part.path))
    width = ordered[0].table.shape[1] + 1
    rows = [
        np.concatenate([part.table, np.full((len(part.table), 1), number, np.int64)], axis=1)
        for number, part in enumerate(ordered)
    ]
    table = np.concatenate(rows) if rows else np.empty((0, width), np.int64)
    rank = np.where(table[:, 0] == last, np.iinfo(np.int64).max, table[:, 0])
    table = np.ascontiguousarray(table[np.argsort(rank, kind="stable")])
    name = spool_name(folder, "index")
    paths = json.dumps({"paths": [part.path for part in ordered], "width": width}).encode()
    retrying(lambda: storage.write_atomic(f"{name}.json", paths))
    retrying(lambda: storage.write_atomic(name, table))
    first = (
        np.flatnonzero(np.concatenate([[True], table[1:, 0] != table[:-1, 0]]))
        if len(table)
        else np.empty(0, int)
    )
    ends = np.append(first[1:], len(table))
    before = np.concatenate([[0], np.cumsum(table[:, 2])])
    counts = tuple(int(n) for n in np.sum([part.counts for part in ordered], axis=0))
    nothing = (0,) * len(counts)
    return [
        GatherTask(
            key=int(table[start, 0]),
            index=name,
            first=int(start),
            stretches=int(end - start),
            position=int(before[start]),
            counts=nothing if number else counts,
        )
        for number, (start, end) in enumerate(zip(first.tolist(), ends.tolist(), strict=True))
    ]


@lru_cache(maxsize=4)
def _paths(index: str) -> tuple[tuple[str, ...], int]:
    found = json.loads(retrying(lambda: storage.read_bytes(f"{index}.json")))
    return tuple(found["paths"]), int(found["width"])


def read_index(task: GatherTask) -> tuple[Ints, list[str]]:
    """Returns the stretches of a task, ``(stretch, value)``, and the file of each."""
    paths, width = _paths(task.index)
    size = 8 * width
    data = read_exact(task.index, task.first * size, task.stretches * size)
    table = np.frombuffer(data, np.int64).reshape(-1, width)
    return table[:, :-1], [paths[number] for number in table[:, -1].tolist()]
