"""What a browser shows of the page is what the picture shows, finer when zoomed, and asked of nobody."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import rasterio
from browser import browser, listener, screenshot
from eager import export, plan_of

from patchbeam.look import LookOptions, look, look_page, overview
from patchbeam.look.canvas import BACKGROUND
from patchbeam.scene import write_scene

pytestmark = [
    pytest.mark.skipif(browser() is None, reason="no Chromium on this machine"),
    pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning"),
]

SIDE, PATCH, COLUMNS = 640, 160, 4
COARSE = SIDE // 2
WINDOW = (1000, 840)
TOLERANCE = 6.0
"""Mean difference of 255: pieces of the page have 240 colours each."""


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("browser")
    write_scene(folder / "scene.tif", width=SIDE, height=SIDE, seed=4)
    job = {
        "sources": "scene.tif",
        "output": "out/scene",
        "formatOptions": {"patchDimensions": [PATCH, PATCH]},
    }
    export(plan_of(job, folder))
    return str(folder / "out" / "scene")


@pytest.fixture(scope="module")
def page(prefix: str) -> Path:
    path = Path(prefix).parent / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(overview, "COARSEST_LEVEL", COARSE)  # a small scene in two levels
        path.write_text(look_page(prefix), encoding="utf-8")
    levels = json.loads(
        path.read_text(encoding="utf-8").partition('id="export">')[2].partition("</script>")[0]
    )["levels"]
    assert [level["size"] for level in levels] == [[COARSE, COARSE], [SIDE, SIDE]]
    return path


OWN = re.compile(rb"^\w+ (http://)?[\w.-]+\.(google|googleapis|gvt1)\.com[:/]")
"""What Chromium asks its maker, whatever it shows."""


def patches_of(prefix: str, size: int) -> np.ndarray:
    """The patches in the picture that ``look`` makes, without title and gaps: ``(row, column, y, x, 3)``."""
    picture = look(prefix, LookOptions(size=size))
    lit = (picture != BACKGROUND).any(axis=2)
    rows = lit.mean(axis=1) > 0.9
    top, bottom = np.flatnonzero(rows)[[0, -1]]
    columns = np.flatnonzero(lit[top : bottom + 1].mean(axis=0) > 0.9)
    body = picture[top : bottom + 1, columns[0] : columns[-1] + 1]
    gap = next(n for n in (1, 2, 3) if (body.shape[0] - (COLUMNS - 1) * n) % COLUMNS == 0)
    side = (body.shape[0] - (COLUMNS - 1) * gap) // COLUMNS
    assert body.shape[:2] == (side * COLUMNS + gap * (COLUMNS - 1),) * 2
    starts = [i * (side + gap) for i in range(COLUMNS)]
    return np.stack([np.stack([body[y : y + side, x : x + side] for x in starts]) for y in starts])


def find(screen: np.ndarray, piece: np.ndarray) -> tuple[int, int, float]:
    """Where a piece of a picture is on the screen: row, column and mean difference."""
    height, width = piece.shape[:2]
    rows, cols = screen.shape[0] - height + 1, screen.shape[1] - width + 1
    points = np.random.default_rng(0).integers(0, [height, width], (60, 2))
    cost = np.zeros((rows, cols), np.int32)
    for y, x in points.tolist():
        difference = screen[y : y + rows, x : x + cols].astype(np.int16) - piece[y, x].astype(np.int16)
        cost += np.abs(difference).sum(axis=2, dtype=np.int32)
    best = np.argsort(cost, axis=None)[:30]  # a few points may agree beside the place too
    found = []
    for row, col in zip(*(n.tolist() for n in np.unravel_index(best, cost.shape)), strict=True):
        shown = screen[row : row + height, col : col + width].astype(np.int16)
        found.append((float(np.abs(shown - piece).mean()), row, col))
    difference, row, col = min(found)
    return row, col, difference


def test_the_page_shows_the_patches_of_the_picture(prefix: str, page: Path, tmp_path: Path) -> None:
    tiles = patches_of(prefix, COARSE + 9)
    side = tiles.shape[2]
    assert side == PATCH // 2
    screen = screenshot(
        page, tmp_path / "all", size=WINDOW, place=f"{side / PATCH}/{SIDE / 2}/{SIDE / 2}/bare"
    )
    top, left, _ = find(screen, tiles[0, 0])
    for row in range(COLUMNS):
        for column in range(COLUMNS):
            y, x = top + row * side, left + column * side
            shown = screen[y : y + side, x : x + side].astype(np.int16)
            difference = float(np.abs(shown - tiles[row, column]).mean())
            assert difference < TOLERANCE, f"patch {row}, {column}: {difference}"
            others = [tiles[r, c] for r in range(COLUMNS) for c in range(COLUMNS) if (r, c) != (row, column)]
            assert min(float(np.abs(shown - other).mean()) for other in others) > 3 * TOLERANCE


def test_zoomed_it_shows_finer_pieces(prefix: str, page: Path, tmp_path: Path) -> None:
    fine = patches_of(prefix, SIDE + 9)[2, 1]
    assert fine.shape == (PATCH, PATCH, 3)
    middle = f"{PATCH * 1.5}/{PATCH * 2.5}"
    screen = screenshot(page, tmp_path / "fine", size=WINDOW, place=f"2/{middle}/bare")
    enlarged = fine.repeat(2, axis=0).repeat(2, axis=1)[: 2 * PATCH, : 2 * PATCH]
    _, _, difference = find(screen, enlarged)
    assert difference < TOLERANCE
    # the coarse level, enlarged, is not like this
    half = fine.reshape(PATCH // 2, 2, PATCH // 2, 2, 3).mean(axis=(1, 3)).repeat(4, axis=0).repeat(4, axis=1)
    assert float(np.abs(half - enlarged).mean()) > 2 * difference
    place = f"{COARSE / SIDE}/{middle}/bare"
    far = screenshot(page, tmp_path / "far", size=WINDOW, place=place)
    assert find(far, half[::4, ::4].astype(np.uint8))[2] < TOLERANCE


def test_a_map_looks_as_its_raster(prefix: str, tmp_path: Path) -> None:
    classes = Path(prefix).parents[1] / "scene-classes.tif"
    path = tmp_path / "map.html"
    path.write_text(look_page(str(classes)), encoding="utf-8")
    screen = screenshot(path, tmp_path / "map", size=WINDOW, place="2/200/200/bare")
    with rasterio.open(classes) as file:
        table = file.colormap(1)
        values = file.read(1)[100:300, 100:300]
    due = np.array([table[value][:3] for value in range(max(table) + 1)], np.uint8)[values]
    *_, difference = find(screen, due.repeat(2, axis=0).repeat(2, axis=1))
    assert difference == 0


def test_nothing_is_asked_of_the_network(page: Path, tmp_path: Path) -> None:
    with listener() as (proxy, heard):
        screen = screenshot(page, tmp_path / "page", size=WINDOW, proxy=proxy)
        assert screen.std() > 20
        asked = [line for line in heard if not OWN.search(line)]
        other = tmp_path / "other.html"
        other.write_text('<img src="http://tiles.example/0/0/0.png">')
        screenshot(other, tmp_path / "other", size=WINDOW, proxy=proxy)
    assert not asked
    assert any(b"tiles.example" in line for line in heard)  # it would have been heard
