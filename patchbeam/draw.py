"""The first pass of a class-balanced draw: which patches hold which classes, and which are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.elements import BandPixels, Ints
from patchbeam.errors import ReadFailed
from patchbeam.keep import enough, proper
from patchbeam.patches import Window
from patchbeam.plan import ExportPlan
from patchbeam.rasters.reader import ImageReader
from patchbeam.retry import retrying
from patchbeam.selection import Parts, balanced_draw, only


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holding:
    """Patches and the classes that they hold; a pair stands once.

    Attributes:
        patches: int64 ``(pair,)``.
        classes: int64 ``(pair,)``.
    """

    patches: Ints
    classes: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawn:
    """The patches that are written.

    Attributes:
        patches: int64, rising.
    """

    patches: Ints


class LabelReader:
    """Reads the label band of a plan block by block.

    Args:
        plan: the export; its ``sample`` names the band.
        threads: threads a block is read with.
    """

    def __init__(self, plan: ExportPlan, *, threads: int) -> None:
        assert plan.sample is not None and plan.sample.per_class is not None
        self._plan = plan
        self._rule = plan.sample
        band = next(band for band in plan.bands if band.name == plan.sample.band)
        self._reader = ImageReader(plan.sources, [band], plan.grid, threads=threads)

    def holding(self, block: int) -> Holding:
        """Returns the classes of each patch of a block, of its valid pixels without the margin.

        With ``onMissing: mask`` a source that cannot be read holds no class.

        Raises:
            ReadFailed: the band cannot be read there; names file, band and window.
        """
        plan, blocks = self._plan, self._plan.blocks
        if blocks.is_idle(block):
            return Holding(patches=np.empty(0, np.int64), classes=np.empty(0, np.int64))
        window = blocks.window(block)
        pixels = self._pixels(window)
        if plan.clip is not None:
            inside = plan.clip.mask(window)
            if inside is not None:
                valid = inside if pixels.valid is None else pixels.valid & inside
                pixels = BandPixels(values=pixels.values, valid=valid)
        pixels = proper(blocks, block, pixels)
        width, height = plan.patches.patch_width_height
        column, row, columns, rows = blocks.extent(block)
        found: list[tuple[Ints, Ints]] = []
        for r in range(rows):
            for c in range(columns):
                at = slice(r * height, (r + 1) * height), slice(c * width, (c + 1) * width)
                values = pixels.values[at]
                values = values.reshape(-1) if pixels.valid is None else values[pixels.valid[at]]
                classes, counts = np.unique(values, return_counts=True)
                classes = classes[enough(counts, width * height, self._rule.minimum)].astype(np.int64)
                if self._rule.classes is not None:
                    classes = classes[np.isin(classes, self._rule.classes)]
                patch = (row + r) * plan.patches.columns + column + c
                found.append((np.full(len(classes), patch, np.int64), classes))
        return Holding(
            patches=np.concatenate([patches for patches, _ in found]),
            classes=np.concatenate([classes for _, classes in found]),
        )

    def _pixels(self, window: Window) -> BandPixels:
        missing: set[str] = set()
        while True:
            try:
                (pixels,) = retrying(lambda: self._reader.read(window, missing), between=self._reader.close)
            except ReadFailed as error:
                if self._plan.on_missing == "error" or error.source is None or error.source in missing:
                    raise
                missing.add(error.source)  # told of when the block itself is read
                continue
            return pixels

    def close(self) -> None:
        """Closes the datasets."""
        self._reader.close()


def draw_patches(plan: ExportPlan, found: Sequence[Holding]) -> Drawn:
    """Draws the patches of a plan; the order of what was found makes no difference.

    Args:
        plan: the export.
        found: what the blocks hold.
    """
    assert plan.sample is not None and plan.sample.per_class is not None
    empty = np.empty(0, np.int64)
    return Drawn(
        patches=balanced_draw(
            np.concatenate([empty, *(one.patches for one in found)]),
            np.concatenate([empty, *(one.classes for one in found)]),
            per_class=plan.sample.per_class,
            seed=plan.sample.seed,
            count=plan.patches.count,
            parts=plan.blocks.parts,
        )
    )


def drawn_parts(plan: ExportPlan, drawn: Drawn) -> Parts:
    """Returns of each patch its split, or -1 when it is not written."""
    return only(plan.blocks.parts, drawn.patches, plan.patches.count)
