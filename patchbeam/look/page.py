"""One page of HTML that shows an export or a map and needs no network: pictures and facts are in it."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam import storage
from patchbeam.affines import affine6
from patchbeam.class_colours import Colour
from patchbeam.elements import Ints
from patchbeam.look.legend import Entry
from patchbeam.look.palette import reduce_colours
from patchbeam.look.png import Rgb, png
from patchbeam.look.strips import pixel_metres
from patchbeam.look.view import MISSING, ExportView
from patchbeam.manifest import to_ranges
from patchbeam.pool import Pool

BLOCK = 512
"""Pixels across a piece of a picture: what is looked at is decoded, not all of it."""

_COLOURS = 240
"""Of a piece: a third of the bytes, and nothing that an eye finds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A picture of everything, in one size.

    Attributes:
        picture: the pixels.
        covers: width and height in pixels of the grid of what it shows, from the upper left corner.
    """

    picture: Rgb
    covers: tuple[float, float]


def page(
    levels: Sequence[Level],
    legend: Sequence[Entry],
    data: dict[str, Any],
    *,
    title: str,
    facts: str,
    pool: Pool,
) -> str:
    """Returns the page.

    Args:
        levels: the pictures, the coarsest first.
        legend: of the pictures.
        data: what the page says of places: :func:`export_data` or :func:`map_data`.
        title: of the page.
        facts: a line below it.
        pool: threads.
    """
    template = files("patchbeam.look").joinpath("page.html").read_text(encoding="utf-8")
    data = {
        **data,
        "levels": [_level(level, pool) for level in levels],
        "classes": [[*entry.colours[0], entry.text] for entry in legend if entry.kind == "class"],
    }
    parts = {
        "@TITLE@": html.escape(title),
        "@FACTS@": html.escape(facts),
        "@LEGEND@": "\n".join(_legend(entry) for entry in legend),
        # a name with </script> in it must not end the script
        "@DATA@": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    for mark, text in parts.items():
        template = template.replace(mark, text)
    return template


def export_data(view: ExportView) -> dict[str, Any]:
    """Returns what a page says of the patches of an export."""
    patches = view.patches
    return {
        **_place(view.grid, view.crs_code),
        "columns": patches.columns,
        "rows": patches.rows,
        "cell": list(patches.patch_width_height),
        "recordsPerPatch": view.values.records_per_patch,
        "records": list(_record_runs(view)),
        "missing": to_ranges(np.flatnonzero(view.first_record == MISSING)).tolist(),
        "shards": [
            [int(start), storage.split(file.name)[1]]
            for start, file in zip(view.records.starts[:-1], view.records.files, strict=True)
            if file.records
        ],
        "splits": sorted(_split_runs(view)),
    }


def map_data(
    grid: GeoBox, crs: str | None, tiles: Sequence[tuple[str, int, int, int, int]], name: str
) -> dict[str, Any]:
    """Returns what a page says of the pixels of a map.

    Args:
        grid: of the map.
        crs: its name.
        tiles: name, column, row, width and height of each.
        name: of the raster, where there are no tiles.
    """
    width, height = grid.shape.x, grid.shape.y
    cell = (tiles[0][3], tiles[0][4]) if tiles else (width, height)
    return {
        **_place(grid, crs),
        "columns": -(-width // cell[0]),
        "rows": -(-height // cell[1]),
        "cell": list(cell),
        "size": [width, height],
        "tiles": [list(tile) for tile in tiles] or [[name, 0, 0, width, height]],
    }


def _place(grid: GeoBox, crs: str | None) -> dict[str, Any]:
    return {"affine": list(affine6(grid)), "crs": crs or "", "metres": pixel_metres(grid)}


def _level(level: Level, pool: Pool) -> dict[str, Any]:
    height, width = level.picture.shape[:2]
    blocks = [
        level.picture[y : y + BLOCK, x : x + BLOCK]
        for y in range(0, height, BLOCK)
        for x in range(0, width, BLOCK)
    ]
    return {
        "size": [width, height],
        "scale": [width / level.covers[0], height / level.covers[1]],
        "block": BLOCK,
        "blocks": list(pool.map(_address, blocks)),
    }


def _address(picture: Rgb) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(reduce_colours(picture, _COLOURS))).decode('ascii')}"


def _legend(entry: Entry) -> str:
    if entry.kind == "grey":
        look = "background: linear-gradient(90deg, #000, #fff)"
    elif entry.kind == "hatch":
        back, line = (_css(colour) for colour in entry.colours)
        look = f"background: repeating-linear-gradient(-45deg, {line} 0 1.5px, {back} 1.5px 5px)"
    elif entry.kind == "frame":
        look = f"border: 3px solid {_css(entry.colours[0])}"
    else:
        look = f"background: {_css(entry.colours[0])}"
    return f'<li><i style="{look}"></i>{html.escape(entry.text)}</li>'


def _css(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _record_runs(view: ExportView) -> Iterator[list[int]]:
    """Yields first patch, its record and the number of patches of runs whose records follow each other."""
    present: Ints = view.present
    if not len(present):
        return
    records = view.first_record[present]
    each = view.values.records_per_patch
    breaks = np.flatnonzero((np.diff(present) != 1) | (np.diff(records) != each)) + 1
    starts = np.concatenate([[0], breaks])
    counts = np.diff(np.append(starts, len(present)))
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        yield [int(present[start]), int(records[start]), count]


def _split_runs(view: ExportView) -> Iterator[list[Any]]:
    for number, name in enumerate(view.splits):
        for first, count in to_ranges(np.flatnonzero(view.split_of == number)).tolist():
            yield [first, count, name]
