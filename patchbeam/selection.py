"""Which patches an export writes, and into which split, as far as their place on the patch grid decides.

A pure function of the patch grid and the job: no pixel is looked at. What pixels decide
(``maskedThreshold``, ``keep``) is left to :mod:`patchbeam.keep`, and comes after this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import JobError
from patchbeam.order import Ints, check_seed, first_in_order, order
from patchbeam.patches import PatchGrid
from patchbeam.splits import GUARDED, block_count, check_fractions, guard_patches, split_blocks

Parts = NDArray[np.int8]
"""Of each patch the number of its split, 0 without splits, or -1 when it is not written."""

_NAME = re.compile(r"\w[\w-]*", re.ASCII)
_MOST_SPLITS = 100
_SPLIT_ROUND, _SAMPLE_ROUND = 0, 1  # one seed must not tie the draw of patches to that of blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """What ``split`` of an image export says.

    Attributes:
        names: of the splits, in the order in which they are given.
        fractions: of the blocks, one a split.
        block_columns_rows: patches of a block, across and down.
        seed: decides which block goes where.
    """

    names: tuple[str, ...]
    fractions: tuple[float, ...]
    block_columns_rows: tuple[int, int] = (8, 8)
    seed: int = 0

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], key: str = "split") -> SplitRule:
        """Reads ``{train: 0.8, test: 0.2, block: [8, 8], seed: 1}``: every key but the last two is a split.

        Raises:
            JobError: fractions that do not sum to 1, a name that cannot stand in a file name, a block or
                seed that is none.
        """
        named = {name: value for name, value in given.items() if name not in ("block", "seed")}
        for name in named:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise JobError(
                    f"{key}.{name}: the name of a split stands in file names; give letters, digits, _ and -"
                )
        if not named:
            raise JobError(f"{key}: names no split; give fractions, for instance {{train: 0.9, test: 0.1}}")
        if len(named) > _MOST_SPLITS:
            raise JobError(f"{key}: {len(named)} splits are more than the {_MOST_SPLITS} there may be")
        fractions = check_fractions(named, key)
        block = given.get("block", (8, 8))
        pair = (block, block) if _is_whole(block) else block
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(map(_is_whole, pair)):
            raise JobError(
                f"{key}.block: {block!r} is not [columns, rows] of patches, two whole numbers of at least 1"
            )
        try:
            seed = check_seed(given.get("seed", 0))
        except JobError as error:
            raise JobError(f"{key}.{error}") from None
        return cls(
            names=tuple(fractions),
            fractions=tuple(fractions.values()),
            block_columns_rows=(int(pair[0]), int(pair[1])),
            seed=seed,
        )

    def to_mapping(self) -> dict[str, Any]:
        """Returns the rule as a job file holds it."""
        named = dict(zip(self.names, self.fractions, strict=True))
        return {**named, "block": list(self.block_columns_rows), "seed": self.seed}

    def guard_columns_rows(self, patches: PatchGrid) -> tuple[int, int]:
        """Returns how many patches are given up at a border between splits, across and down."""
        (x, y), (width, height) = patches.margin_width_height, patches.patch_width_height
        return guard_patches(x, width), guard_patches(y, height)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRule:
    """What ``sample`` of an image export says: ``patches``, or ``per_class`` with ``band``.

    Attributes:
        patches: how many are drawn.
        per_class: how many hold each class at the least, where there are so many.
        band: integer band that holds the classes.
        classes: those to balance; ``None`` for every one that occurs.
        minimum: share of a patch's pixels that a class must have for the patch to hold it; 0 for one pixel.
        seed: decides which are drawn.
    """

    patches: int | None = None
    per_class: int | None = None
    band: str | None = None
    classes: tuple[int, ...] | None = None
    minimum: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        if (self.patches is None) == (self.per_class is None):
            raise JobError("sample: give either patches, or perClass with band")
        if (self.band is None) != (self.per_class is None):
            raise JobError("sample.band: names the band of the classes that perClass balances; give both")
        if self.patches is not None and (self.classes is not None or self.minimum):
            raise JobError("sample: classes and minimum go with perClass; to keep by classes use keep")

    def to_mapping(self) -> dict[str, Any]:
        """Returns the rule as a job file holds it."""
        if self.patches is not None:
            return {"patches": self.patches, "seed": self.seed}
        return {
            "perClass": self.per_class,
            "band": self.band,
            "classes": None if self.classes is None else list(self.classes),
            "minimum": self.minimum,
            "seed": self.seed,
        }


@lru_cache(maxsize=4)
def split_parts(rule: SplitRule, patches: PatchGrid) -> Parts:
    """Returns the split of each patch, ``GUARDED`` for those of the guard.

    Raises:
        JobError: there are fewer blocks than splits.
    """
    columns_rows = patches.columns, patches.rows
    across, down = block_count(columns_rows, rule.block_columns_rows)
    if across * down < len(rule.names):
        columns, rows = rule.block_columns_rows
        raise JobError(
            f"split.block: blocks of {columns} columns × {rows} rows cut {patches.columns} × {patches.rows} "
            f"patches into {across * down}, too few for {len(rule.names)} splits; give smaller blocks"
        )
    parts = split_blocks(
        columns_rows,
        list(rule.fractions),
        order(across * down, rule.seed, _SPLIT_ROUND),
        block_columns_rows=rule.block_columns_rows,
        guard_columns_rows=rule.guard_columns_rows(patches),
    )
    parts.flags.writeable = False
    return parts


@lru_cache(maxsize=4)
def select_parts(split: SplitRule | None, sample: SampleRule | None, patches: PatchGrid) -> Parts | None:
    """Returns the split of each patch that place and draw let through; ``None`` when that is all in one.

    ``sample.patches`` draws from the patches that the guard leaves: those that come first in a permutation
    of all patches, so that the draw is a function of seed and patch number. ``per_class`` needs pixels and is
    not applied here.

    Raises:
        JobError: more patches are to be drawn than there are, or a split is left without any.
    """
    parts = None if split is None else split_parts(split, patches)
    if sample is not None and sample.patches is not None:
        free = None if parts is None else parts != GUARDED
        drawn = first_in_order(patches.count, sample.seed, _SAMPLE_ROUND, sample.patches, free)
        if len(drawn) < sample.patches:
            raise JobError(
                f"sample.patches: {sample.patches} are more than the {len(drawn)} patches there are"
                f"{'' if split is None else ' beside the guard of split'}; give at most {len(drawn)}"
            )
        parts = only(parts, drawn, patches.count)
    if split is not None and parts is not None:
        counts = np.bincount(parts[parts != GUARDED], minlength=len(split.names))
        for name, count in zip(split.names, counts.tolist(), strict=True):
            if not count:
                raise JobError(
                    f"split.{name}: not one of {patches.count} patches is left for it once the guard "
                    f"{'is taken out' if sample is None else 'and the sample are taken'}; give larger or "
                    "more blocks, a smaller kernelSize, or another seed"
                )
    return parts


def only(parts: Parts | None, chosen: Ints, count: int) -> Parts:
    """Returns parts with all patches taken out but the chosen ones.

    Args:
        parts: of all patches; ``None`` when all are in one.
        chosen: numbers of patches.
        count: number of patches.
    """
    kept = np.full(count, GUARDED, np.int8)
    kept[chosen] = 0 if parts is None else parts[chosen]
    kept.flags.writeable = False
    return kept


def balanced_draw(
    patches: Ints, classes: Ints, *, per_class: int, seed: int, count: int, parts: Parts | None = None
) -> Ints:
    """Draws patches until each class is held by as many as wanted, or by all that hold it.

    The class that fewest patches hold comes first (the lower one of two alike); patches drawn for it count
    for the classes that they hold besides.

    Args:
        patches: int64 ``(pair,)``: a patch that holds a class; each pair stands once.
        classes: int64 ``(pair,)``: the class.
        per_class: patches wanted of each class.
        seed: decides which are drawn.
        count: patches of the grid.
        parts: those of ``-1`` are not drawn.

    Returns:
        Numbers of patches, rising.
    """
    if parts is not None:
        free = parts[patches] != GUARDED
        patches, classes = patches[free], classes[free]
    rank = np.empty(count, np.int64)
    rank[order(count, seed, _SAMPLE_ROUND)] = np.arange(count)
    found, holders = np.unique(classes, return_counts=True)
    chosen = np.zeros(count, np.bool_)
    for value in found[np.lexsort((found, holders))].tolist():
        holding = patches[classes == value]
        free_ones = holding[~chosen[holding]]
        missing = per_class - (len(holding) - len(free_ones))
        if missing > 0:
            chosen[free_ones[np.argsort(rank[free_ones])][:missing]] = True
    return np.flatnonzero(chosen).astype(np.int64)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 1 << 31
