"""The pictures of the documentation are what the commands beside them draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from pictures import IMAGES, ROOT, draw, shown, shown_anywhere

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")

MOST_BYTES = 200_000
TOLERANCE = 2.0
"""Mean difference of 255: a model that is trained on another processor may see some pixels otherwise."""


def pixels(path: Path) -> np.ndarray:
    with rasterio.open(path) as file:
        if file.count > 1:
            return file.read()[:3]
        table = np.zeros((256, 3), np.uint8)
        for value, colour in file.colormap(1).items():
            table[value] = colour[:3]
        return np.moveaxis(table[file.read(1)], -1, 0)


def test_every_picture_is_drawn_by_a_command_of_its_page(tmp_path: Path) -> None:
    drawn = draw(tmp_path)
    for name in sorted(shown_anywhere()):
        assert name in drawn, f"{name}: no command of the pages writes out/{name}"
        due, found = pixels(IMAGES / name).astype(int), pixels(drawn[name])
        assert due.shape == found.shape, f"{name}: run python tests/pictures.py"
        assert np.abs(due - found).mean() < TOLERANCE, f"{name}: run python tests/pictures.py"


def test_pictures_are_small_and_all_are_shown() -> None:
    assert {path.name for path in IMAGES.iterdir()} == shown_anywhere()
    assert all(path.stat().st_size <= MOST_BYTES for path in IMAGES.iterdir())
    assert shown(ROOT / "README.md") == ["demo.png"]
