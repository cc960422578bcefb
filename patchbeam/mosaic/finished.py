"""Tiles of an import that are finished but not published: where they lie, and the marks that say so."""

from __future__ import annotations

import json
from dataclasses import dataclass

from patchbeam import storage
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.retry import retrying


@dataclass(frozen=True, slots=True, kw_only=True)
class TileDone:
    """A tile under the temporary prefix.

    Attributes:
        tile: its number.
        path: of its file.
        size_bytes: of the file.
        patches: patches that begin in it.
    """

    tile: int
    path: str
    size_bytes: int
    patches: int


def tile_paths(plan: ImportPlan, tile: int) -> tuple[str, str]:
    """Returns where a tile and the mark of its completion lie until it is published."""
    path = storage.join(plan.temporary_folder, f"{tile:08d}.tif")
    return path, f"{path}.json"


def finished_tile(plan: ImportPlan, tile: int) -> TileDone | None:
    """Returns a tile that an earlier attempt of the same import has finished."""
    path, mark = tile_paths(plan, tile)
    if not storage.exists(mark):
        return None
    try:
        said = json.loads(retrying(lambda: storage.read_bytes(mark)))
        size, patches = int(said["sizeBytes"]), int(said["patches"])
    except (ValueError, TypeError, KeyError):
        return None
    # an attempt that ended while it published has moved it
    place = path if storage.exists(path) else plan.tiles.name(plan.output, tile)
    if not storage.exists(place) or storage.stat(place).size_bytes != size:
        return None
    return TileDone(tile=tile, path=path, size_bytes=size, patches=patches)


def mark_finished(plan: ImportPlan, done: TileDone) -> None:
    """Writes the mark of a tile that lies where :func:`tile_paths` says."""
    _, mark = tile_paths(plan, done.tile)
    data = json.dumps({"sizeBytes": done.size_bytes, "patches": done.patches}).encode()
    retrying(lambda: storage.write_atomic(mark, data))
