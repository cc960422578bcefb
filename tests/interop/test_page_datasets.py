"""The page of data sets: its commands are run, and its template is followed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from archives import Server, digests_of, picture, tgz
from pages import ROOT, comparable, run_page

from patchbeam.data import LabeledImage

PAGE = ROOT / "docs" / "datasets.md"
TEMPLATE = ROOT / "docs" / "templates" / "my_set.py"
AGAIN = "run: python tests/pages.py docs/datasets.md"


def test_the_page_shows_what_the_commands_print(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert comparable(run_page(text, tmp_path)) == comparable(text), AGAIN


def test_the_page_shows_the_template() -> None:
    assert TEMPLATE.read_text(encoding="utf-8") in PAGE.read_text(encoding="utf-8")


def test_a_new_set_is_written_from_the_template_in_under_40_lines(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inside, pixels = {}, {}
    for part, count in (("fit", 6), ("check", 3)):
        for name in ("cup", "hat"):
            for number in range(count):
                path = f"things/{part}/{name}/{number}.png"
                pixels[path] = rng.integers(0, 256, (20, 20, 3)).astype(np.uint8)
                inside[path] = picture(pixels[path])
    files = {"things.tar.gz": tgz(inside)}
    with Server(files).running() as server:
        # what the page says: copy the file and change what is marked
        text = TEMPLATE.read_text(encoding="utf-8")
        for old, new in (
            ("MySet", "Things"),
            ("my-set.tar.gz", "things.tar.gz"),
            ("my-set", "things"),
            ("https://example.org", server.url),
            ("sha256=None", f"sha256={digests_of(files)['things.tar.gz']!r}"),
            ('("training", "train"), ("validation", "test")', '("training", "fit"), ("validation", "check")'),
            ("3, 32, 32", "3, 20, 20"),
        ):
            assert old in text, old
            text = text.replace(old, new)
        assert len([line for line in text.splitlines() if line.strip()]) < 40
        scope: dict[str, object] = {"__name__": "things"}
        exec(compile(text, "things.py", "exec"), scope)
        kind: type = scope["Things"]  # type: ignore[assignment]
        data = kind(batch_size=4, seed=1, root=tmp_path)
    data = kind(batch_size=4, seed=1, root=tmp_path)  # the server has gone
    batches = list(data.validation)
    assert isinstance(batches[0], LabeledImage) and [len(b.label) for b in batches] == [4, 2]
    assert np.concatenate([b.label for b in batches]).tolist() == [0, 0, 0, 1, 1, 1]
    first = pixels["things/check/cup/0.png"].astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(batches[0].image[0], (first - np.float32(0.5)) / np.float32(0.25))
    assert len(data.training[0]) == 3


@pytest.mark.parametrize(
    "word", ["digests=", "PATCHBEAM_OFFLINE", "patchbeam.loaders", "build-dataset", "packed"]
)
def test_the_page_names(word: str) -> None:
    assert word in re.sub(r"\s+", " ", PAGE.read_text(encoding="utf-8"))
