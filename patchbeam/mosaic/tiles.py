"""The tiles of a map: which pixels each has and what it is called."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from patchbeam.patches import Window

_TILE = re.compile(r"(?:-\d{10}-\d{10})?(?:\.tif|\.stac\.json)")
_OTHERS = (".vrt", "-collection.json", "-import.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class TileGrid:
    """Square tiles over a map, row by row; those at the right and bottom edges are smaller.

    Attributes:
        width: columns of the map.
        height: rows of the map.
        tile_size: pixels of a tile's side.
    """

    width: int
    height: int
    tile_size: int

    @property
    def across(self) -> int:
        """Tiles a row."""
        return -(-self.width // self.tile_size)

    @property
    def count(self) -> int:
        """Tiles in all."""
        return self.across * -(-self.height // self.tile_size)

    def window(self, tile: int) -> Window:
        """Returns the map pixels of a tile."""
        row, col = divmod(tile, self.across)
        left, top = col * self.tile_size, row * self.tile_size
        return Window(
            left, top, min(self.tile_size, self.width - left), min(self.tile_size, self.height - top)
        )

    def stem(self, prefix: str, tile: int) -> str:
        """Returns a tile's name without suffix: the pixel offsets, as the service names split images."""
        if self.count == 1:
            return prefix
        window = self.window(tile)
        return f"{prefix}-{window.row_off:010d}-{window.col_off:010d}"

    def name(self, prefix: str, tile: int) -> str:
        """Returns the name of a tile's GeoTIFF."""
        return f"{self.stem(prefix, tile)}.tif"

    def item_name(self, prefix: str, tile: int) -> str:
        """Returns the name of a tile's STAC item."""
        return f"{self.stem(prefix, tile)}.stac.json"


def import_name(prefix: str) -> str:
    """Returns the name of the file that marks an import as complete."""
    return f"{prefix}-import.json"


def vrt_name(prefix: str) -> str:
    """Returns the name of the VRT over all tiles."""
    return f"{prefix}.vrt"


def collection_name(prefix: str) -> str:
    """Returns the name of the STAC collection."""
    return f"{prefix}-collection.json"


def surplus_maps(there: Iterable[str], written: Collection[str], prefix: str) -> list[str]:
    """Returns those of ``there`` that an earlier map has left and the new one has not written.

    An import writes a STAC item with every tile. ``PREFIX.tif`` without one is not a tile but somebody's own
    raster, maybe the one that was exported, and is not to be deleted.

    Args:
        there: from :func:`existing_maps`.
        written: files of the new map.
        prefix: of the map.
    """
    left = [path for path in there if path not in written]
    if f"{prefix}.stac.json" not in left:
        return [path for path in left if path != f"{prefix}.tif"]
    # the item last, so that a repeated attempt still knows its tile
    return sorted(left, key=lambda path: path == f"{prefix}.stac.json")


def existing_maps(names: Iterable[str], prefix: str) -> list[str]:
    """Returns those of ``names`` that an import with this prefix writes, sorted."""
    found = []
    for name in names:
        rest = name[len(prefix) :] if name.startswith(prefix) else None
        if rest is not None and (rest in _OTHERS or _TILE.fullmatch(rest)):
            found.append(name)
    return sorted(found)
