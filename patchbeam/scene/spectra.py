"""What the ground looks like: reflectances of surfaces and crops, and how they change over a year.

Reflectances are surface reflectance times 10,000, in the order of magnitude of Sentinel-2 level 2A; B10,
which that leaves out, is as in level 1C: water vapour hides the ground there, but not high clouds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The order in which a scene of n bands takes them; a new one goes last, so that the others stay as they are.
BANDS = ("B2", "B3", "B4", "B8", "B11", "B12", "B5", "B6", "B7", "B8A", "B1", "B9", "B10")

# The wavelength order of the tables below.
_COLUMNS = ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B8A", "B9", "B10", "B11", "B12")

_SURFACES = {
    "dark soil": (640, 820, 1120, 1420, 1680, 1850, 2000, 2150, 2300, 2350, 24, 2900, 2500),
    "light soil": (950, 1250, 1680, 2150, 2450, 2650, 2800, 2950, 3100, 3150, 31, 3800, 3400),
    "leaves": (250, 300, 620, 330, 980, 2900, 3700, 4000, 4200, 4200, 18, 1900, 950),
    "straw": (700, 900, 1350, 1850, 2200, 2600, 2800, 3000, 3200, 3300, 28, 3300, 2400),
    "blossom": (450, 560, 1850, 1750, 2100, 3000, 3500, 3750, 3900, 3900, 19, 2000, 1050),
    "grass": (320, 400, 740, 520, 1150, 2500, 3000, 3250, 3450, 3450, 20, 2200, 1250),
    "broadleaf": (190, 230, 480, 260, 760, 2500, 3250, 3500, 3700, 3700, 16, 1550, 720),
    "bare twigs": (350, 450, 620, 720, 980, 1350, 1550, 1700, 1850, 1900, 19, 2000, 1300),
    "conifer": (160, 200, 340, 220, 470, 1400, 1750, 1900, 2050, 2100, 13, 900, 420),
    "clear water": (330, 310, 290, 180, 150, 120, 110, 100, 90, 80, 8, 50, 30),
    "turbid water": (420, 500, 660, 470, 400, 260, 240, 210, 180, 150, 8, 80, 50),
    "tiles": (800, 900, 1150, 1600, 1800, 1950, 2050, 2150, 2250, 2300, 24, 2600, 2350),
    "concrete": (1500, 1800, 2000, 2200, 2350, 2450, 2550, 2650, 2750, 2750, 27, 2950, 2700),
    "metal roof": (2500, 2900, 3100, 3300, 3400, 3500, 3600, 3650, 3700, 3600, 32, 3500, 3200),
    "asphalt": (650, 780, 880, 960, 1020, 1100, 1150, 1200, 1250, 1300, 17, 1450, 1350),
    "gravel": (1300, 1550, 1850, 2150, 2350, 2500, 2600, 2700, 2800, 2800, 28, 3300, 3000),
}

# Tops of thick clouds, and what is left of the light in the middle of a cloud's shadow.
_CLOUD = (7000, 7100, 7000, 7050, 7100, 7200, 7250, 7300, 7350, 5200, 2400, 5200, 4000)

CLASSES = ("no data", "water", "trees", "grass", "crops", "built-up", "bare ground")
CLASS_COLOURS = (
    (0, 0, 0, 0),
    (65, 120, 190, 255),
    (45, 110, 60, 255),
    (160, 200, 100, 255),
    (225, 175, 75, 255),
    (190, 60, 60, 255),
    (165, 155, 145, 255),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of ground.

    Attributes:
        name: what it is.
        land_class: index into :data:`CLASSES`.
        always: surfaces and shares that do not change, or none for plants.
        leaves, straw, blossom: cover in percent by day of the year, as knots ``((day, percent), …)``;
            what is not covered is soil.
        green: surface that the leaves are.
        bare: surface under the plants.
        grain: strength of fine texture, relative to the reflectance.
        vigour: how strongly growth varies inside it, 0 to 1.
    """

    name: str
    land_class: int
    always: tuple[tuple[str, float], ...] = ()
    leaves: tuple[tuple[int, int], ...] = ()
    straw: tuple[tuple[int, int], ...] = ()
    blossom: tuple[tuple[int, int], ...] = ()
    green: str = "leaves"
    bare: str = "dark soil"
    grain: float = 0.03
    vigour: float = 0.0


_CEREAL = ((40, 25), (90, 60), (135, 92), (165, 70), (185, 15), (200, 3), (260, 5), (300, 25))

KINDS = (
    Kind(name="lake", land_class=1, always=(("clear water", 1.0),), grain=0.03),
    Kind(name="river", land_class=1, always=(("turbid water", 1.0),), grain=0.04),
    Kind(
        name="broadleaved wood",
        land_class=2,
        leaves=((95, 5), (125, 75), (150, 100), (260, 95), (300, 30), (325, 3)),
        green="broadleaf",
        bare="bare twigs",
        grain=0.10,
        vigour=0.4,
    ),
    Kind(name="coniferous wood", land_class=2, always=(("conifer", 1.0),), grain=0.13, vigour=0.25),
    Kind(
        name="meadow",
        land_class=3,
        leaves=((60, 45), (120, 90), (165, 75), (210, 65), (260, 75), (310, 50)),
        green="grass",
        vigour=0.9,
        grain=0.035,
    ),
    Kind(
        name="pasture",
        land_class=3,
        leaves=((60, 40), (120, 75), (200, 45), (260, 60), (310, 45)),
        straw=((150, 0), (210, 30), (260, 10)),
        green="grass",
        vigour=0.9,
        grain=0.05,
    ),
    Kind(
        name="wheat",
        land_class=4,
        leaves=_CEREAL,
        straw=((150, 0), (190, 85), (205, 55), (230, 20), (260, 0)),
        vigour=0.6,
    ),
    Kind(
        name="barley",
        land_class=4,
        leaves=tuple((day - 12, cover) for day, cover in _CEREAL),
        straw=((135, 0), (165, 80), (185, 50), (215, 10), (250, 0)),
        bare="light soil",
        vigour=0.6,
    ),
    Kind(
        name="rape",
        land_class=4,
        leaves=(
            (40, 50),
            (95, 85),
            (118, 20),
            (140, 30),
            (155, 85),
            (185, 25),
            (200, 5),
            (260, 20),
            (300, 50),
        ),
        straw=((165, 0), (190, 70), (215, 30), (250, 0)),
        blossom=((108, 0), (120, 75), (140, 65), (152, 0)),
        vigour=0.4,
    ),
    Kind(
        name="maize",
        land_class=4,
        leaves=((130, 2), (150, 15), (185, 80), (215, 95), (250, 70), (275, 10), (285, 2)),
        straw=((245, 0), (270, 45), (285, 20), (310, 5)),
        vigour=0.5,
    ),
    Kind(
        name="sugar beet",
        land_class=4,
        leaves=((115, 2), (140, 20), (175, 90), (260, 92), (285, 60), (295, 3)),
        bare="light soil",
        vigour=0.5,
    ),
    Kind(
        name="fallow",
        land_class=4,
        leaves=((60, 10), (130, 22), (220, 25), (300, 12)),
        straw=((140, 5), (230, 25), (300, 10)),
        bare="light soil",
        vigour=0.8,
    ),
    Kind(name="roofs", land_class=5, always=(("tiles", 0.7), ("asphalt", 0.3)), grain=0.10),
    Kind(name="flats", land_class=5, always=(("concrete", 0.6), ("asphalt", 0.4)), grain=0.12),
    Kind(name="hall", land_class=5, always=(("metal roof", 0.8), ("asphalt", 0.2)), grain=0.05),
    Kind(name="street", land_class=5, always=(("asphalt", 0.8), ("concrete", 0.2)), grain=0.06),
    Kind(
        name="garden",
        land_class=5,
        leaves=((90, 35), (130, 70), (260, 65), (310, 35)),
        green="broadleaf",
        grain=0.12,
        vigour=0.3,
    ),
    Kind(name="track", land_class=3, always=(("grass", 0.6), ("dark soil", 0.4)), grain=0.05, vigour=0.3),
    Kind(name="gravel pit", land_class=6, always=(("gravel", 0.85), ("dark soil", 0.15)), grain=0.08),
)
NUMBER = {kind.name: i for i, kind in enumerate(KINDS)}

# A pixel's code is its kind times VARIANTS plus which variant of it: a little earlier or later in
# the year, a little lighter or darker.
VARIANTS = 8
_DAYS = (0, 9, -8, 5, -13, 14, -4, 2)
_BRIGHT = (1.0, 0.97, 1.04, 0.95, 1.07, 0.92, 1.11, 0.89)


def _mixed(kind: Kind, day: float) -> NDArray[np.float64]:
    surfaces = {name: np.asarray(values, np.float64) for name, values in _SURFACES.items()}
    if kind.always:
        return sum((surfaces[name] * share for name, share in kind.always), np.zeros(len(_COLUMNS)))
    covers = []
    for name, knots in ((kind.green, kind.leaves), ("straw", kind.straw), ("blossom", kind.blossom)):
        share = np.interp(day, [d for d, _ in knots], [c for _, c in knots]) / 100 if knots else 0.0
        covers.append((surfaces[name], float(share)))
    covered = sum(share for _, share in covers)
    scale = 1 / covered if covered > 1 else 1.0
    bare = surfaces[kind.bare] * max(0.0, 1 - covered)
    return sum((surface * share * scale for surface, share in covers), bare)


def reflectances(bands: int, day: int) -> NDArray[np.float32]:
    """Reflectance by band and code on a day of the year, float32 ``(band, code)``."""
    table = np.empty((len(KINDS), VARIANTS, len(_COLUMNS)))
    for number, kind in enumerate(KINDS):
        for variant in range(VARIANTS):
            table[number, variant] = _mixed(kind, day + _DAYS[variant]) * _BRIGHT[variant]
    columns = [_COLUMNS.index(name) for name in BANDS[:bands]]
    return np.ascontiguousarray(table.reshape(-1, len(_COLUMNS))[:, columns].T, np.float32)


def cloud_tops(bands: int) -> NDArray[np.float32]:
    """Reflectance of a thick cloud by band, float32."""
    return np.asarray([_CLOUD[_COLUMNS.index(name)] for name in BANDS[:bands]], np.float32)


def vigour_response(bands: int) -> NDArray[np.float32]:
    """Change of reflectance by band where plants do better than the rest of their field, float32."""
    leaves, soil = np.asarray(_SURFACES["leaves"]), np.asarray(_SURFACES["dark soil"])
    change = (leaves - soil) * 0.12
    return np.asarray([change[_COLUMNS.index(name)] for name in BANDS[:bands]], np.float32)


def by_code(values: list[float]) -> NDArray[np.float32]:
    """Spreads one value a kind over the codes, float32 ``(code,)``."""
    return np.repeat(np.asarray(values, np.float32), VARIANTS)
