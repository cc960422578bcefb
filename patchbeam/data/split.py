"""Splits of a database: item by item, by groups, with equal shares of classes, by blocks of the map."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal, overload

import numpy as np

from patchbeam.data.database import Database
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.order import Ints, check_seed, order
from patchbeam.data.places import patch_places
from patchbeam.errors import JobError
from patchbeam.splits import (
    GUARDED,
    block_count,
    check_fractions,
    guard_patches,
    largest_remainder,
    split_blocks,
)

Labels = Sequence[Hashable] | Callable[[int], Hashable]


class BlockParts(dict[str, Database]):
    """The parts of a split by blocks, by name.

    Attributes:
        dropped: items of the database that the guard leaves out.
    """

    def __init__(self, parts: Mapping[str, Database], dropped: int) -> None:
        super().__init__(parts)
        self.dropped = dropped

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {len(part)}" for name, part in self.items())
        return f"BlockParts({sizes}; {self.dropped} dropped by the guard)"


@overload
def split(
    database: Database,
    fractions: Mapping[str, float],
    seed: int,
    *,
    groups: Labels | None = None,
    stratify: Labels | None = None,
) -> dict[str, Database]: ...
@overload
def split(
    database: Database,
    fractions: Sequence[float],
    seed: int,
    *,
    groups: Labels | None = None,
    stratify: Labels | None = None,
) -> tuple[Database, ...]: ...
def split(
    database: Database,
    fractions: Mapping[str, float] | Sequence[float],
    seed: int,
    *,
    groups: Labels | None = None,
    stratify: Labels | None = None,
) -> dict[str, Database] | tuple[Database, ...]:
    """Splits a database into views without common items that together are all of it.

    Args:
        database: to split; nothing of it is read.
        fractions: of the parts, by name or in order; their sum is 1.
        seed: the same seed gives the same parts.
        groups: for each item, or as a function of its number, what it belongs to: items of one group
            stay together, and sizes are as near as whole groups allow.
        stratify: for each item a class: every part gets its fraction of each class, to one item.

    Returns:
        The parts, named or in order; items in their original order. Sizes are those of the largest
        remainder. A small part of few items may be empty.

    Raises:
        JobError: fractions do not sum to 1, or both ``groups`` and ``stratify`` are given.
        EmptyDatabase: there is nothing to split.
    """
    named = fractions if isinstance(fractions, Mapping) else {str(i): f for i, f in enumerate(fractions)}
    shares = list(check_fractions(named, "fractions").values())
    check_seed(seed)
    if groups is not None and stratify is not None:
        raise JobError("split: groups and stratify cannot be given together; give one of them")
    count = len(database)
    if count == 0:
        raise EmptyDatabase("the database is empty: there is nothing to split; give one that holds items")
    if groups is not None:
        part_of = _by_groups(_numbered(groups, count, "groups"), shares, seed)
    elif stratify is not None:
        part_of = _by_strata(_numbered(stratify, count, "stratify"), shares, seed)
    else:
        part_of = np.empty(count, np.int64)
        part_of[order(count, seed, 0)] = np.repeat(np.arange(len(shares)), largest_remainder(count, shares))
    parts = [database.select(np.flatnonzero(part_of == part)) for part in range(len(shares))]
    return dict(zip(named, parts, strict=True)) if isinstance(fractions, Mapping) else tuple(parts)


def _numbered(labels: Labels, count: int, name: str) -> Ints:
    """Numbers labels in the order in which they are first met."""
    given = [labels(i) for i in range(count)] if callable(labels) else list(labels)
    if len(given) != count:
        raise DataError(f"{name}: {len(given)} labels for {count} items; give one an item")
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in given], np.int64)


def _by_groups(group_of: Ints, shares: list[float], seed: int) -> Ints:
    sizes = np.bincount(group_of)
    wanted = np.array(shares) * len(group_of)
    filled = np.zeros(len(shares))
    part_of_group = np.empty(len(sizes), np.int64)
    shuffled = order(len(sizes), seed, 0)
    # Large groups first: small ones then even out what they leave.
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")].tolist():
        part = int(np.argmax(wanted - filled))
        part_of_group[group] = part
        filled[part] += sizes[group]
    return part_of_group[group_of]


def _by_strata(class_of: Ints, shares: list[float], seed: int) -> Ints:
    shuffled = order(len(class_of), seed, 0)
    members = shuffled[np.argsort(class_of[shuffled], kind="stable")]
    counts = np.bincount(class_of)
    floors = np.array([[int(n * share + 1e-9) for share in shares] for n in counts.tolist()])
    need = np.array(largest_remainder(len(class_of), shares)) - floors.sum(axis=0)
    part_of = np.empty(len(class_of), np.int64)
    start = 0
    for n, sizes in zip(counts.tolist(), floors, strict=True):
        remainder = np.array(shares) * n - sizes
        for part in np.lexsort((-remainder, -need))[: n - int(sizes.sum())].tolist():
            sizes[part] += 1
            need[part] -= 1
        part_of[members[start : start + n]] = np.repeat(np.arange(len(shares)), sizes)
        start += n
    return part_of


def block_split(
    database: Database,
    fractions: Mapping[str, float],
    seed: int,
    *,
    block: tuple[int, int] = (8, 8),
    guard: int | tuple[int, int] | Literal["auto"] = "auto",
) -> BlockParts:
    """Splits image patches by blocks of the patch grid, so that no pixel is in two parts.

    Args:
        database: whose items have a place on the patch grid: a ``PatchDatabase`` or a view of one.
        fractions: of the blocks, by name; their sum is 1.
        seed: the same seed gives the same parts, and the same as an export with this ``split:``.
        block: rows and columns of patches in a block.
        guard: patches, or rows and columns of them, that are dropped on one side of each border between
            two parts; ``auto`` as many as the margins reach over.

    Returns:
        A dict of views by name, in the original order; patches of the guard are in none, and ``dropped``
        says how many they are.

    Raises:
        JobError: fractions do not sum to 1, a number is out of range, or there are fewer blocks than parts.
        DataError: the items have no place on a patch grid.
    """
    shares = check_fractions(fractions, "fractions")
    rows_columns = tuple(block)
    if len(rows_columns) != 2 or any(
        isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in rows_columns
    ):
        raise JobError(f"block: {block!r} is not rows and columns of patches, each at least 1")
    place, indices = patch_places(database)
    columns, rows = place.columns_rows
    if guard == "auto":
        guards = tuple(map(guard_patches, place.margin_width_height, place.patch_width_height))
    else:
        pair = (guard, guard) if isinstance(guard, int) else tuple(guard)
        if len(pair) != 2 or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in pair):
            raise JobError(f"guard: {guard!r} is neither auto nor rows and columns of patches of at least 0")
        guards = pair[1], pair[0]
    across_down = rows_columns[1], rows_columns[0]
    across, down = block_count((columns, rows), across_down)
    if across * down < len(shares):
        raise JobError(
            f"block: blocks of {rows_columns[0]} rows × {rows_columns[1]} columns cut {rows} × {columns} "
            "patches into "
            f"{across * down}, too few for {len(shares)} parts; give smaller blocks"
        )
    part_of = split_blocks(
        (columns, rows),
        list(shares.values()),
        order(across * down, check_seed(seed), 0),
        block_columns_rows=across_down,
        guard_columns_rows=(guards[0], guards[1]),
    )[indices]
    parts = {name: database.select(np.flatnonzero(part_of == at)) for at, name in enumerate(shares)}
    return BlockParts(parts, dropped=int(np.count_nonzero(part_of == GUARDED)))
