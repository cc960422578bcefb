"""README: its commands and scripts run, on a smaller scene; its job file is the example."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from shared import ROOT

from pipelines.cli import cli, main

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SMALLER = {
    "--width 2048 --height 2048": "--width 1024 --height 1024",
    "width=2048, height=2048": "width=96, height=96",
}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.M | re.S)


def smaller(text: str) -> str:
    for old, new in SMALLER.items():
        text = text.replace(old, new)
    return text.replace("width=1024, height=1024, dates=6", "width=96, height=96, dates=2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the commands of the README have been run."""
    place = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "configs", place / "configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        commands = re.findall(r"^\.venv/bin/patchbeam (.*?)(?:  +#.*)?$", TEXT, re.M)
        assert len(commands) == 7
        for command in commands[:5]:
            assert main(shlex.split(smaller(command))) == 0, command
    return place


def test_from_predictions_to_a_map(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for text in blocks("yaml")[1:]:
        Path(text.partition("\n")[0][2:]).write_text(text, encoding="utf-8")
    script = next(text for text in blocks("python") if "write_predictions" in text)
    Path("out/predictions-00000.tfrecord.gz").unlink(missing_ok=True)
    exec(compile(script, "README", "exec"), {})
    commands = re.findall(r"^\.venv/bin/patchbeam (.*?)(?:  +#.*)?$", TEXT, re.M)
    for command in commands[5:]:
        assert main(shlex.split(command)) == 0, command
    assert Path("out/water.png").stat().st_size
    assert main(["export-image", "own.yaml"]) == 0


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_scripts(folder: Path, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    script = smaller(blocks("python")[number])
    Path("out/predictions-00000.tfrecord.gz").unlink(missing_ok=True)
    variables: dict[str, Any] = {}
    exec(compile(script, f"README {number}", "exec"), variables)
    if "batches" in variables:
        image, label, valid = next(iter(variables["batches"]))
        assert image.shape == (8, 320, 320, 4) and label.shape == valid.shape == (8, 320, 320)
    if "images" in variables:
        assert variables["images"].shape == (4, 4, 320, 320) and variables["labels"].dtype == "int64"


def test_the_job_file_is_the_example() -> None:
    shown, *others = blocks("yaml")
    assert all(text.startswith("# ") for text in others)
    assert yaml.safe_load(shown) == yaml.safe_load((ROOT / "configs" / "export_image.yaml").read_text())


def test_every_command_is_in_the_table() -> None:
    named = set(re.findall(r"`(?:patchbeam )?([a-z-]+) [A-Z]", TEXT))
    assert set(cli.commands) <= named
