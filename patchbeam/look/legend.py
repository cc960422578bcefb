"""What colours, outlines and hatching in a picture mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from patchbeam.class_colours import Colour
from patchbeam.look.canvas import DROPPED, MARGIN, MASKED, MISSING
from patchbeam.look.colours import Painter
from patchbeam.look.overview import SPLITS
from patchbeam.look.view import DROPPED as IS_DROPPED
from patchbeam.look.view import MISSING as IS_MISSING
from patchbeam.look.view import ExportView

CHANNELS: tuple[Colour, ...] = ((214, 69, 65), (76, 159, 88), (66, 118, 208))
"""Swatches of red, green and blue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a legend.

    Attributes:
        kind: what the swatch looks like: filled, from black to white, hatched, a frame, a class of a map.
        colours: of the swatch; the second of a hatched one is that of its lines.
        text: what it means.
    """

    kind: Literal["fill", "grey", "hatch", "frame", "class"]
    colours: tuple[Colour, ...] = ()
    text: str


def painted_entries(painter: Painter) -> list[Entry]:
    """Returns the classes of a class map, or bands with the numbers that are black and white."""
    if painter.classes is not None:
        return [
            Entry(kind="class", colours=(colour,), text=name) for _, name, colour in painter.classes.entries
        ]
    texts = [
        f"{band} {_number(stretch.low)} to {_number(stretch.high)}"
        for band, stretch in zip(painter.bands, painter.stretches, strict=True)
    ]
    if len(texts) != len(CHANNELS):
        return [Entry(kind="grey", text=text) for text in texts]
    return [
        Entry(kind="fill", colours=(colour,), text=text) for colour, text in zip(CHANNELS, texts, strict=True)
    ]


def masked_entry(text: str = "masked") -> Entry:
    """Returns the entry of pixels without data."""
    return Entry(kind="fill", colours=(MASKED,), text=text)


def export_entries(
    view: ExportView, painter: Painter, *, on_map: bool = True, margins: bool = False
) -> list[Entry]:
    """Returns the legend of a picture of an export; it is asked for when the picture has been drawn.

    Args:
        view: the export.
        painter: of the picture.
        on_map: whether what is hatched or outlined in the picture is explained.
        margins: whether patches are shown with margins, and a line round what is inside.
    """
    entries = painted_entries(painter)
    if view.masked_seen:
        entries.append(masked_entry())
    if margins and any(view.values.margin_width_height):
        entries.append(Entry(kind="frame", colours=(MARGIN,), text="patch inside its margin"))
    if not on_map:
        return entries
    for number, name in enumerate(view.splits):
        count = int(np.count_nonzero(view.split_of == number))
        colour = SPLITS[number % len(SPLITS)]
        entries.append(Entry(kind="frame", colours=(colour,), text=f"{name} ({count})"))
    for state, colours, text in ((IS_DROPPED, DROPPED, "dropped"), (IS_MISSING, MISSING, "missing")):
        count = int(np.count_nonzero(view.first_record == state))
        if count:
            entries.append(Entry(kind="hatch", colours=colours, text=f"{text} ({count})"))
    return entries


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
