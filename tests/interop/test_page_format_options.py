"""The page of format options: every command in it is run, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from eager import export
from pages import ROOT, comparable, run_page

from patchbeam.manifest import Manifest
from patchbeam.options import SPELLINGS
from patchbeam.plan import ExportPlan

PAGE = ROOT / "docs" / "format-options.md"
AGAIN = "run: python tests/pages.py docs/format-options.md"


@pytest.fixture(scope="module")
def text() -> str:
    return PAGE.read_text(encoding="utf-8")


def without_beam(plan: ExportPlan, arguments: object, *, overwrite: bool, **_: object) -> Manifest:
    return export(plan, overwrite=overwrite)


def test_the_page_shows_what_the_commands_print(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the stages of each export run one after the other in this process, which is quicker
    monkeypatch.setattr("pipelines.export_image.run_export", without_beam)
    assert comparable(run_page(text, tmp_path)) == comparable(text), AGAIN


@pytest.mark.long
def test_the_page_through_beam(text: str, tmp_path: Path) -> None:
    assert comparable(run_page(text, tmp_path)) == comparable(text), AGAIN


@pytest.mark.parametrize("option", SPELLINGS)
def test_every_option_has_a_section(text: str, option: str) -> None:
    assert f"## {option}" in text
    assert SPELLINGS[option] in text


@pytest.mark.parametrize("option", ["edge", "numbers", "gzip", "maskBand", "maskedObservations", "naming"])
def test_our_own_options_too(text: str, option: str) -> None:
    assert f"## {option}" in text
