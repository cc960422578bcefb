"""What plans, patch grids, mixers and databases show in a notebook."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from eager import plan_of, write_tif
from hypothesis import given
from hypothesis import strategies as st
from shared import ROOT

from patchbeam.data import Database, Spec
from patchbeam.mixer import Mixer
from patchbeam.patches import PatchGrid

SVG = "{http://www.w3.org/2000/svg}"


def parsed(text: str) -> ElementTree.Element:
    """The markup, which stands alone."""
    for foreign in ("<script", "http://", "https://", "url(", "href", "src="):
        assert foreign not in text.replace("http://www.w3.org/2000/svg", ""), foreign
    return ElementTree.fromstring(text)


def texts(root: ElementTree.Element) -> list[str]:
    return [text.strip() for text in root.itertext() if text.strip()]


sizes = st.integers(1, 4000)
pairs = st.tuples(st.integers(1, 300), st.integers(1, 300))


@given(sizes, sizes, pairs, pairs, st.sampled_from(["drop", "pad"]))
def test_any_patch_grid(
    width: int, height: int, patch: tuple[int, int], kernel: tuple[int, int], edge: Any
) -> None:
    if edge == "drop" and (width < patch[0] or height < patch[1]):
        return
    grid = PatchGrid(
        width=width, height=height, patch_width_height=patch, kernel_width_height=kernel, edge=edge
    )
    text = grid._repr_svg_()
    root = parsed(text)
    assert root.tag == f"{SVG}svg" and len(text) < 8000
    _, _, across, down = map(float, root.attrib["viewBox"].split())
    assert across > 0 and 0 < down < 400
    (said, *_) = texts(root)
    assert said.startswith(f"{grid.count} patch") and f"{patch[0]} × {patch[1]} pixels" in said
    assert ("are lost" in said) == (grid.lost_pixels > 0)


def test_a_grid_with_a_margin_and_lost_pixels() -> None:
    grid = PatchGrid(width=100, height=70, patch_width_height=(32, 32), kernel_width_height=(9, 17))
    root = parsed(grid._repr_svg_())
    rectangles = root.findall(f"{SVG}rect")
    (margin,) = [r for r in rectangles if "stroke-dasharray" in r.attrib]
    scale = 260 / 100
    found = [float(margin.attrib[name]) for name in ("x", "y", "width", "height")]
    assert found == pytest.approx([28 * scale, 24 * scale, 40 * scale, 48 * scale], abs=0.01)
    assert [float(rectangles[1].attrib[name]) for name in ("width", "height")] == pytest.approx(
        [96 * scale, 64 * scale], abs=0.01
    )
    assert "margin 4 × 8; 4 columns and 6 rows are lost" in texts(root)[0]


def test_a_mixer() -> None:
    mixer = Mixer(
        crs='LOCAL_CS["<b>&"]',
        affine=(10.0, 0.0, 500_000.0, 0.0, -10.0, 5_300_000.0),
        patch_width_height=(32, 64),
        patches_per_row=3,
        total_patches=6,
    )
    root = parsed(mixer._repr_html_())
    found = texts(root)
    assert found[0] == "Mixer" and 'LOCAL_CS["<b>&"]' in found
    assert "500000, 5298720 to 500960, 5300000" in found
    assert "6 of 32 × 64 pixels, 3 × 2" in found


def test_a_plan_with_splits(tmp_path: Path) -> None:
    write_tif(tmp_path / "scene.tif", np.ones((2, 256, 256), np.uint8), names=["<i>red", "nir & co"])
    split = {"train": 0.5, "test": 0.5, "block": [2, 2], "seed": 1}
    options = {"patchDimensions": [16, 16], "kernelSize": [3, 3]}
    plan = plan_of(
        {"sources": "scene.tif", "formatOptions": options, "split": split, "output": "out/<s>"}, tmp_path
    )
    root = parsed(plan._repr_html_())
    found = texts(root)
    assert found[0] == "Image export" and f"{tmp_path}/out/<s>" in found
    assert "<i>red uint8, nir & co uint8" in found
    assert {"train", "test", "not written"} <= set(found)
    assert f"train: {plan.part_counts[0]} patches" in found
    area = dict.fromkeys(("#8fb8de", "#f2b880"), 0.0)
    for path in root.iter(f"{SVG}path"):
        if path.attrib.get("fill") in area:
            area[path.attrib["fill"]] += covered(path.attrib["d"])
    assert list(area.values()) == pytest.approx([n * (260 / 16) ** 2 for n in plan.part_counts], rel=1e-3)
    assert pickle.loads(pickle.dumps(plan))._repr_html_() == plan._repr_html_()


def covered(shape: str) -> float:
    """Area of a path made of rectangles."""
    return sum(
        float(part.split("h")[1].split("v")[0]) * float(part.split("v")[1].split("h")[0])
        for part in shape.split("M")[1:]
    )


def test_a_large_plan_stays_small(tmp_path: Path) -> None:
    write_tif(tmp_path / "scene.tif", np.zeros((1, 1000, 1000), np.uint8))
    job = {"sources": "scene.tif", "formatOptions": {"patchDimensions": [4, 4]}, "output": "out/s"}
    plan = plan_of({**job, "sample": {"patches": 31_000, "seed": 1}}, tmp_path)
    text = plan._repr_html_()
    assert len(text) < 40_000 and "not written" in texts(parsed(text))


class Unread(Database):
    """Fails when an item is loaded."""

    @property
    def modalities(self) -> tuple[str, ...]:
        return ("image", "<label>", "more")

    @property
    def specs(self) -> dict[str, Spec]:
        return {
            "image": Spec(shape=(3, None, 7), dtype="float32", layout="CHW"),
            "<label>": Spec(shape=(), dtype="int64"),
        }

    def __len__(self) -> int:
        return 5

    def load(self, index: int) -> Any:
        raise AssertionError("an item was loaded")


def rows(database: Database) -> Sequence[str]:
    return texts(parsed(database._repr_html_()))


def test_a_database() -> None:
    found = rows(Unread())
    assert found == [
        "Unread: 5 items",
        *("image", "float32, 3 × ? × 7 (CHW)"),
        *("<label>", "int64, one value"),
        *("more", "?, ?"),
    ]
    assert rows(Unread().take(1))[0] == "SelectedView: 1 item"


@pytest.mark.parametrize("module", ["patchbeam.repr", "patchbeam.mixer"])
def test_it_brings_in_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*sorted({{'rasterio', 'apache_beam'}} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == ""
