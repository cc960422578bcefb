"""Splits that know each other: a patch in two of them, or two whose margins overlap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from patchbeam.manifest import Manifest, from_ranges
from patchbeam.patches import PatchGrid
from patchbeam.splits import guard_patches, shared_pixels


def leaks(manifest: Manifest, patches: PatchGrid) -> Iterator[str]:
    """Yields a text if a patch is in two splits, or if two splits share a pixel through their margins."""
    assert manifest.splits is not None
    parts = manifest.splits.parts
    part_of = np.full(patches.count, -1, np.int64)
    for number, part in enumerate(parts):
        indices = from_ranges(part.kept_patches or ())
        taken = indices[part_of[indices] >= 0]
        if len(taken):
            other = parts[int(part_of[taken[0]])].name
            yield f"splits: patch {taken[0]} is in {other} and in {part.name}"
            return
        part_of[indices] = number
    (x, y), (width, height) = patches.margin_width_height, patches.patch_width_height
    reach = guard_patches(x, width), guard_patches(y, height)
    pair = shared_pixels(part_of.reshape(patches.rows, patches.columns), reach)
    if pair is not None:
        first, second = (parts[int(part_of[index])].name for index in pair)
        yield (
            f"splits: patch {pair[0]} of {first} and patch {pair[1]} of {second} share pixels through their "
            f"margins of {x} × {y}"
        )
