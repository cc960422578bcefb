"""The page of splits and sampling: every command in it is run, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import eager
import pytest
from pages import ROOT, comparable, run_page

from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from pipelines.resolve import load_plan

PAGE = ROOT / "docs" / "splits-and-sampling.md"
AGAIN = "run: python tests/pages.py docs/splits-and-sampling.md"


def without_beam(
    plan: ExportPlan, *arguments: object, overwrite: bool = False, **options: object
) -> Manifest:
    return eager.export(plan, overwrite=overwrite)


def alike(text: str) -> str:
    """The page without what differs from machine to machine."""
    return re.sub(r"; [\d.…]+ (\w+ )?free|[\d.]+ \w+ (?=stored)", "", comparable(text))


def test_the_page_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = PAGE.read_text(encoding="utf-8")
    # the stages of each export run one after the other in this process, which is quicker
    monkeypatch.setattr("pipelines.export_image.run_export", without_beam)
    assert alike(run_page(text, tmp_path)) == alike(text), AGAIN


def test_the_example_job_runs_as_it_stands(tmp_path: Path) -> None:
    from patchbeam.scene import write_scene

    (tmp_path / "configs").mkdir()
    (tmp_path / "out").mkdir()
    job = (ROOT / "configs" / "export_splits.yaml").read_text(encoding="utf-8")
    (tmp_path / "configs" / "export_splits.yaml").write_text(job, encoding="utf-8")
    write_scene(str(tmp_path / "out" / "scene.tif"), width=2048, height=2048)
    plan = load_plan(str(tmp_path / "configs" / "export_splits.yaml"))
    manifest = eager.export(plan, threads=2)
    assert manifest.splits is not None and [p.name for p in manifest.splits.parts] == [
        "train",
        "validation",
        "test",
    ]
    assert all(part.kept_patches for part in manifest.splits.parts)
    assert manifest.bands[0].statistics is not None and manifest.bands[0].statistics.percentiles
