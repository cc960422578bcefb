"""The page of many scenes: every command in it is run, and prints what the page shows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import eager
import pytest
from pages import ROOT, comparable, run_page

from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.scene import write_scene
from pipelines.resolve import load_plan

PAGE = ROOT / "docs" / "many-scenes.md"


def without_beam(
    plan: ExportPlan, *arguments: object, overwrite: bool = False, **options: object
) -> Manifest:
    return eager.export(plan, overwrite=overwrite)


def alike(text: str) -> str:
    """The page without what differs from machine to machine."""
    return re.sub(r"[\d.]+ \w+ (?=stored)", "", comparable(text))


def test_the_page_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    # the stages of each export run one after the other in this process, which is quicker
    monkeypatch.setattr("pipelines.export_image.run_export", without_beam)
    assert alike(run_page(text, tmp_path)) == alike(text), "run: python tests/pages.py docs/many-scenes.md"


def test_the_example_job_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "out").mkdir()
    for name in ("export_many_scenes.yaml", "fields.geojson"):
        shutil.copy(ROOT / "configs" / name, tmp_path / "configs" / name)
    write_scene(str(tmp_path / "out" / "many.tif"), width=1024, height=1024, dates=6)
    plan = load_plan(str(tmp_path / "configs" / "export_many_scenes.yaml"))
    manifest = eager.export(plan, threads=2)
    bands = {band.name: band for band in manifest.bands}
    assert manifest.patches.written == 16 and list(bands) == ["red", "nir", "seen", "landcover"]
    assert bands["red"].type == "float32" and bands["seen"].statistics.max == 4
    assert bands["landcover"].statistics.max == 4 and bands["landcover"].masked == 0
