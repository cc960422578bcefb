"""Pages whose commands run from top to bottom in one folder: what they show is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, comparable, run_page

DOCS = ROOT / "docs"
RUN = ["quickstart.md", "exporting.md", "recipes.md", "from-earth-engine.md", "faq.md"]
ELSEWHERE = {
    "datasets.md": "tests/interop/test_page_datasets.py",
    "format-options.md": "tests/interop/test_page_format_options.py",
    "importing.md": "tests/interop/test_pages_in_parts.py",
    "looking.md": "tests/pipelines/test_check_commands.py",
    "many-scenes.md": "tests/pipelines/test_page_many.py",
    "running.md": "tests/interop/test_pages_in_parts.py",
    "speed.md": "tests/test_benchmark_page.py",
    "splits-and-sampling.md": "tests/pipelines/test_page_splits.py",
    "tables.md": "tests/interop/test_pages_in_parts.py",
    "training.md": "tests/patchbeam/data/test_docs.py",
}


@pytest.mark.parametrize("name", RUN)
def test_the_page_shows_what_the_commands_print(name: str, tmp_path: Path) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    assert "\n$ " in text
    assert comparable(run_page(text, tmp_path)) == comparable(text), f"run: python tests/pages.py docs/{name}"


@pytest.mark.parametrize("name", ELSEWHERE)
def test_the_other_pages_are_run_elsewhere(name: str) -> None:
    assert name in (ROOT / ELSEWHERE[name]).read_text(encoding="utf-8")


def test_no_page_with_commands_is_forgotten() -> None:
    by_hand = {"index.md", "formats.md", "job-file.md", "commands.md", "complaints.md"}  # hold none
    assert {page.name for page in DOCS.glob("*.md")} == {*RUN, *ELSEWHERE, *by_hand}
    for name in by_hand:
        assert "\n$ " not in (DOCS / name).read_text(encoding="utf-8")


def test_links_between_pages_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_complaint_names_tests_that_are_there() -> None:
    rows = re.findall(r"^\| .* \|$", (DOCS / "complaints.md").read_text(encoding="utf-8"), re.M)
    answered = [row for row in rows if "shown by" not in row]
    assert len(answered) > 50
    for row in answered:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row.split(" | ")[-1])
        assert named, row
        for path, name in named:
            file = ROOT / "tests" / path
            assert file.exists() and f"\ndef {name}(" in file.read_text(encoding="utf-8"), f"{path}::{name}"
