"""Colours of classes that have none of their own: calm, apart from each other, the same everywhere.

The map of an import gets them in its colour table, and ``look`` draws with them what has no colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Colour = tuple[int, int, int]

PALETTE: tuple[Colour, ...] = (
    (65, 120, 190),
    (235, 155, 60),
    (90, 165, 90),
    (200, 75, 75),
    (140, 110, 180),
    (150, 115, 90),
    (220, 140, 190),
    (110, 190, 200),
    (190, 190, 80),
    (120, 125, 130),
    (160, 195, 230),
    (250, 200, 140),
    (165, 215, 150),
    (240, 160, 150),
    (185, 165, 225),
    (205, 180, 150),
    (245, 205, 225),
    (165, 225, 215),
    (225, 225, 150),
    (75, 80, 90),
)
"""Muted (CIELAB chroma below 65), the first ten most apart, none near the grey in which no data is drawn."""

_NEAR = 40
"""Sum of differences of the channels up to which two colours are taken for each other."""


def class_colours(given: Sequence[Sequence[int] | None]) -> list[Colour]:
    """Returns a colour for each class.

    Args:
        given: red, green, blue of each class in rising order of value; ``None`` where it has no colour.

    Returns:
        given colours as they are. The others are the palette's at the place of the class, so that a colour
        more for one class changes no other; where that is near a given colour, one that no class has. From
        the twenty-first class on colours come again.
    """
    own: list[Colour | None] = [None if one is None else (one[0], one[1], one[2]) for one in given]
    fixed = [colour for colour in own if colour is not None]
    spare = _spare(len(own), fixed)
    found: list[Colour] = []
    for i, colour in enumerate(own):
        usual = PALETTE[i % len(PALETTE)]
        found.append(colour or (next(spare, usual) if _is_near(usual, fixed) else usual))
    return found


def _spare(used: int, fixed: Sequence[Colour]) -> Iterator[Colour]:
    return (colour for colour in PALETTE[used:] if not _is_near(colour, fixed))


def _is_near(colour: Colour, others: Sequence[Colour]) -> bool:
    return any(sum(abs(a - b) for a, b in zip(colour, other, strict=True)) <= _NEAR for other in others)
