"""Colours of classes that have none: calm, apart, and never in the place of what a user has set."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import rasterio
from refusals import command

from patchbeam.class_colours import PALETTE, Colour, class_colours
from patchbeam.look.canvas import MASKED
from patchbeam.look.colours import Classes
from patchbeam.manifest import ManifestClass
from patchbeam.mosaic.geotiff import TileProfile
from patchbeam.mosaic.options import MapClass
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.tfrecord import write_records


def lab(colour: Colour) -> tuple[float, float, float]:
    """CIELAB of an sRGB colour under D65."""
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in np.array(colour) / 255)
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def test_the_palette_is_calm_and_its_colours_are_apart() -> None:
    points = [lab(colour) for colour in PALETTE]
    assert all(math.hypot(a, b) < 65 for _, a, b in points)
    assert min(math.dist(p, q) for p, q in itertools.combinations(points[:10], 2)) > 23
    assert min(math.dist(p, q) for p, q in itertools.combinations(points, 2)) > 15
    assert min(math.dist(p, lab(MASKED)) for p in points) > 15


def test_what_is_given_stays_and_changes_no_other() -> None:
    assert class_colours([None] * 25) == [*PALETTE, *PALETTE[:5]]
    assert class_colours([None, (1, 2, 3), None]) == [PALETTE[0], (1, 2, 3), PALETTE[2]]
    assert class_colours([None, (1, 2, 3, 128), None])[1] == (1, 2, 3)
    near = tuple(n + 5 for n in PALETTE[0])
    assert class_colours([None, near, None]) == [PALETTE[3], near, PALETTE[2]]
    crowded = class_colours([None, *PALETTE])  # every colour is taken: the usual one again
    assert crowded == [PALETTE[0], *PALETTE]


def test_a_map_and_a_picture_agree() -> None:
    colours = [None, "#0a141e", None]
    drawn = Classes([ManifestClass(value=v, colour=c) for v, c in zip((4, 1, 9), colours, strict=True)])
    classes = tuple(
        MapClass(value=v, name="x", color=None if c is None else (10, 20, 30, 90))
        for v, c in zip((4, 1, 9), colours, strict=True)
    )
    table = TileProfile(nodata=None, names=("a",), classes=classes).colors
    assert table == {1: (10, 20, 30, 90), 4: (*PALETTE[1], 255), 9: (*PALETTE[2], 255)}
    assert {value: colour for value, _, colour in drawn.entries} == {v: c[:3] for v, c in table.items()}


def test_a_map_of_names_alone(tmp_path: Path) -> None:
    layout = ExampleLayout([Feature("a", "int64", 16)])
    records = [bytes(layout.encode([np.full(16, n)]))[12:-4] for n in range(4)]
    write_records(str(tmp_path / "p-00000.tfrecord"), records, "none")
    (tmp_path / "m-mixer.json").write_text(
        '{"projection": {"crs": "EPSG:32633", "affine": {"doubleMatrix": [10, 0, 0, 0, -10, 0]}}, '
        '"patchDimensions": [4, 4], "patchesPerRow": 2, "totalPatches": 4}'
    )
    (tmp_path / "job.yaml").write_text(
        "{job: import-image, records: p-00000.tfrecord, mixer: m-mixer.json, type: uint8, "
        'classes: [water, {value: 1, name: land, color: "#d9cba3"}, wood, rock], output: out/map}'
    )
    assert command("import-image", str(tmp_path / "job.yaml")).status == 0
    with rasterio.open(tmp_path / "out" / "map.tif") as file:
        found = [file.colormap(1)[value][:3] for value in range(4)]
    assert found == [PALETTE[0], (0xD9, 0xCB, 0xA3), PALETTE[2], PALETTE[3]]
