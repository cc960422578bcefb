"""Commands verify and look, and every command of docs/looking.md."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from eager import export, plan_of
from shared import ROOT
from small_export import copy_of, flip, shard

from patchbeam.scene import write_scene
from pipelines.cli import main

DOCUMENT = (ROOT / "docs" / "looking.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ patchbeam (.+)$", DOCUMENT, re.M)


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = copy_of("plain", tmp_path)
    assert main(["verify", str(prefix), "--sources"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("all right\n") and "WRONG" not in out
    flip(shard(prefix, 1), 50)
    assert main(["verify", str(prefix)]) == 1
    out = capsys.readouterr().out
    assert "WRONG  records   1 finding" in out
    assert "\nscene-00001.tfrecord, record 0, byte 0: the data's CRC" in out
    assert out.endswith("1 finding\n")
    assert main(["verify", str(prefix), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["ok"]
    assert report["findings"][0]["file"] == str(shard(prefix, 1))
    assert main(["verify", f"{prefix}x"]) == 2
    assert "the folder has" in capsys.readouterr().err


def test_look(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = copy_of("indexed", tmp_path)
    picture, page = tmp_path / "a" / "b.png", tmp_path / "c.html"
    assert main(["look", str(prefix), "-o", str(picture), "--bands", "red", "--stretch", "0,100"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["look", str(prefix), "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert capsys.readouterr().out.split() == [str(picture), str(page)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--bands", "rot"], "'rot' is not a band"),
        (["--stretch", "98"], "two numbers"),
        (["--stretch", "98,2"], "percentiles that rise"),
        (["--sheet", "2", "--patch", "1"], "give one of them"),
        (["--html", "--patch", "1"], "leave --sheet, --patch"),
        (["--patch", "9"], "not in 0..8"),
        (["--size", "1"], "--size"),
        (["-o", "a.jpg"], "-o: a.jpg is not a .png; pictures are PNG"),
    ],
)
def test_look_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], text: str
) -> None:
    prefix = copy_of("indexed", tmp_path)
    assert main(["look", str(prefix), "-o", str(tmp_path / "a.png"), *options]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()


def test_a_map_is_looked_at_and_not_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = copy_of("indexed", tmp_path)
    assert main(["import-image", str(prefix)]) == 0
    assert main(["look", f"{prefix}-map", "-o", str(tmp_path / "a.png")]) == 0
    assert main(["verify", f"{prefix}-map"]) == 2
    assert "this is a map, not an export; patchbeam look draws it" in capsys.readouterr().err


def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_scene(tmp_path / "out" / "scene.tif", width=256, height=256)
    job = {
        "sources": {"scene": "scene.tif", "classes": "scene-classes.tif"},
        "bands": [{"source": "scene", "band": name} for name in ("B2", "B3", "B4")]
        + [{"source": "classes", "name": "landcover"}],
        "formatOptions": {"patchDimensions": [32, 32], "kernelSize": [8, 8]},
        "maskBand": "valid",
        "output": "export/scene",
    }
    export(plan_of(job, tmp_path / "out"))
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    assert len(COMMANDS) >= 9
    written = [command.split(" -o ")[1] for command in COMMANDS if " -o " in command]
    assert all(name.startswith("out/") for name in written), "a reader's tracked files stay as they are"
    for command in COMMANDS:
        assert main(shlex.split(command)) == 0, command
        if " -o " in command:
            assert Path(command.split(" -o ")[1]).stat().st_size
