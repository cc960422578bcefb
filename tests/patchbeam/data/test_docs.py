"""The loops of docs/training.md run as they are written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared import ROOT
from training_sets import write_export

TEXT = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


def blocks(section: str) -> list[str]:
    part = re.split(r"^## ", TEXT, flags=re.M)
    found = next(text for text in part if text.startswith(section))
    return re.findall(r"```python\n(.*?)```", found, re.S)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATCHBEAM_CACHE", str(tmp_path / "cache"))
    bands = ["B2", "B3", "B4", "B8", "landcover"]

    def landscape(pixels: np.ndarray) -> None:
        # a class that the first band tells
        pixels[:, 4] = pixels[:, 0] // 500

    folder = tmp_path / "out" / "export"
    write_export(folder, columns_rows=(8, 6), bands=bands, per_shard=20, change=landscape)
    names: dict[str, Any] = {}
    for block in blocks("Opening an export"):
        exec(block, names)
    return names


def test_numpy(opened: dict[str, Any]) -> None:
    for block in blocks("A loop in plain NumPy"):
        exec(block, opened)
    assert opened["accuracy"] > 0.3  # of eight classes
    assert Path("out/export/predicted-00000.tfrecord.gz").exists()


def test_pytorch(opened: dict[str, Any]) -> None:
    pytest.importorskip("torch")
    for block in [*blocks("A loop in plain NumPy")[:1], *blocks("PyTorch")]:
        exec(block, opened)
    assert float(opened["loss"].detach()) < 3


def test_keras(opened: dict[str, Any]) -> None:
    pytest.importorskip("tensorflow")
    pytest.importorskip("keras")
    for block in [*blocks("A loop in plain NumPy")[:1], *blocks("Keras")]:
        exec(block, opened)
    assert len(opened["model"].history.history["loss"]) == 2
