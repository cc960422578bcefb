"""How the land is divided: directions and sizes of parcels, what grows on them, streets and houses.

Small tables out of the seed, which :mod:`patchbeam.scene.landscape` looks pixels up in.
"""

from __future__ import annotations

from math import cos, pi, sin

import numpy as np
from numpy.typing import NDArray

from patchbeam.scene.noise import Floats, hashed, salt_of
from patchbeam.scene.spectra import NUMBER, VARIANTS

# What grows on parcels, in parts of a hundred.
_CROPS = (
    ("wheat", 25),
    ("barley", 11),
    ("rape", 12),
    ("maize", 18),
    ("sugar beet", 6),
    ("fallow", 3),
    ("meadow", 16),
    ("pasture", 9),
)
SYSTEMS = 7  # neighbourhoods of parcels that share a direction and a size
PARCELS = 4096
TOWN_SIDE = 256


def systems(seed: int) -> tuple[Floats, Floats]:
    """Axes of the parcels by system: cosine and sine, over the width of a strip in pixels."""
    turns = np.arange(SYSTEMS, dtype=np.int64)
    random = hashed(np.arange(2, dtype=np.int64), turns, salt_of(seed, 20))
    # Golden-angle steps keep neighbouring systems' directions far apart.
    angles = [float(random[0, 0]) * pi + 2.399963 * int(i) for i in turns]
    widths = [float(22 + 9 * random[1, i]) for i in turns]
    return (
        np.asarray([cos(a) / w for a, w in zip(angles, widths, strict=True)], np.float32),
        np.asarray([sin(a) / w for a, w in zip(angles, widths, strict=True)], np.float32),
    )


def parcels(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], Floats]:
    """By parcel number: the code of its crop, the code if wooded, and how far it resists woods and towns."""
    one = np.zeros(1, np.int64)
    numbers = np.arange(PARCELS, dtype=np.int64)
    draw = [(hashed(one, numbers, salt_of(seed, 30 + i))[0] + 1) / 2 for i in range(3)]
    crops = np.repeat([NUMBER[name] for name, _ in _CROPS], [parts for _, parts in _CROPS])
    variant = (draw[1] * VARIANTS).astype(np.uint8)
    crop = crops[(draw[0] * 100).astype(np.intp)].astype(np.uint8) * np.uint8(VARIANTS) + variant
    wood = np.uint8(NUMBER["broadleaved wood"] * VARIANTS) + variant % np.uint8(4)
    shift = (draw[2] - np.float32(0.5)) * np.float32(0.36)
    return crop, wood, shift


def strips(seed: int) -> tuple[Floats, Floats, Floats]:
    """By strip: parcels a unit of length, where the first starts, and where the strip splits (or 2)."""
    random = hashed(np.arange(4, dtype=np.int64), np.arange(PARCELS, dtype=np.int64), salt_of(seed, 40))
    length = np.float32(0.66) + random[0] * np.float32(0.4)
    split = np.where(random[2] > -0.2, np.float32(0.5) + random[3] * np.float32(0.25), np.float32(2))
    return length, random[1] * np.float32(8), split


def town_plan(seed: int) -> NDArray[np.uint8]:
    """A square of streets, houses, halls and gardens, uint8 codes ``(north, east)``, to be repeated."""
    side = np.arange(TOWN_SIDE, dtype=np.int64)
    chance = hashed(side, side, salt_of(seed, 50))
    plot = hashed(side // 2, side // 2, salt_of(seed, 51))
    block = hashed(side // 16, side // 16, salt_of(seed, 52))
    kind = np.full(chance.shape, NUMBER["garden"], np.uint8)
    kind[plot > -0.1] = NUMBER["roofs"]
    kind[(block > 0.3) & (plot > -0.5)] = NUMBER["flats"]
    hall = hashed(side // 8, side // 8, salt_of(seed, 53))
    kind[(block < -0.6) & (hall > -0.2)] = NUMBER["hall"]
    street = (side % 16 == 0) | (side % 16 == 8)
    kind[street, :] = NUMBER["street"]
    kind[:, side % 16 == 0] = NUMBER["street"]
    variant = ((chance + 1) * (VARIANTS / 2)).astype(np.uint8)
    return kind * np.uint8(VARIANTS) + variant
