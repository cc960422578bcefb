"""The command import-image after a failure or a kill: what is finished is kept, and ``--resume`` goes on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from import_jobs import job, write_all
from maps import mixer, write_patches

from patchbeam import storage
from patchbeam.mosaic.publish import is_published
from pipelines.cli import main
from pipelines.resolve_import import load_import


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(tmp_path)


def test_a_storage_failure_keeps_finished_tiles_for_resume(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from patchbeam.errors import WriteFailed
    from patchbeam.mosaic import make

    write_patches(folder, 9 * 20, lambda i: {"p": np.full((16, 32), i % 100, np.float32)}, stem="big")
    (folder / "big-mixer.json").write_text(mixer(9, 20).to_text())
    path = job(folder, records="big-*", mixer="big-mixer.json")
    written: list[str] = []
    true_write = make.write_cog

    def failing(name: str, *args: Any, **kwargs: Any) -> int:
        if len(written) == 2:
            raise WriteFailed(f"{name}: cannot write: no space")
        written.append(name)
        return true_write(name, *args, **kwargs)

    monkeypatch.setattr(make, "write_cog", failing)
    assert main(["import-image", path, "--workers", "1"]) == 1
    assert "no space" in capsys.readouterr().err
    assert len(list(folder.glob("map/.m-*.tmp/*.tif"))) == 2
    assert not list(folder.glob("map/m*"))
    again: list[str] = []

    def counting(name: str, *args: Any, **kwargs: Any) -> int:
        again.append(name)
        return true_write(name, *args, **kwargs)

    monkeypatch.setattr(make, "write_cog", counting)
    assert main(["import-image", path, "--workers", "1", "--resume"]) == 0
    assert len(again) == 2 and not set(again) & set(written)
    assert len(list(folder.glob("map/m-*.tif"))) == 4
    assert not list(folder.glob("map/.*"))


@pytest.mark.parametrize("failing", ["rename", "write_atomic"])
def test_publication_goes_on(
    folder: Path, failing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from patchbeam.errors import WriteFailed
    from patchbeam.mosaic import make

    write_patches(folder, 9 * 20, lambda i: {"p": np.full((16, 32), i % 100, np.float32)}, stem="big")
    (folder / "big-mixer.json").write_text(mixer(9, 20).to_text())
    path = job(folder, records="big-*", mixer="big-mixer.json")
    with monkeypatch.context() as patch:
        true = getattr(storage, failing)

        def fails(name: str, *args: Any) -> Any:
            if {"rename": "/00000002.tif", "write_atomic": "m.vrt"}[failing] in name:
                raise WriteFailed(f"{name}: no space")
            return true(name, *args)

        patch.setattr(storage, failing, fails)
        assert main(["import-image", path, "--workers", "1"]) == 1
    assert "no space" in capsys.readouterr().err
    assert len(list(folder.glob("map/m-*.tif"))) == {"rename": 2, "write_atomic": 4}[failing]
    assert not (folder / "map" / "m-import.json").exists()
    assert main(["import-image", path]) == 2
    assert "--resume goes on where it stopped" in capsys.readouterr().err
    monkeypatch.setattr(make, "write_cog", lambda *_, **__: pytest.fail("a finished tile is made again"))
    assert main(["import-image", path, "--workers", "1", "--resume"]) == 0
    assert len(list(folder.glob("map/m-*.tif"))) == 4
    assert not list(folder.glob("map/.*"))
    with rasterio.open(folder / "map" / "m.vrt") as dataset:
        assert dataset.read(1)[::16, ::32].ravel().tolist() == [i % 100 for i in range(9 * 20)]


def test_an_attempt_whose_success_got_lost(folder: Path) -> None:
    path = job(folder)
    assert not is_published(load_import(path))
    assert main(["import-image", path]) == 0
    assert is_published(load_import(path))
    assert not is_published(load_import(path, ["type=uint16"]))


def test_what_a_kill_can_leave_half_written_is_in_the_temporary_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, written = job(folder), []
    original = storage.write_atomic

    def noted(name: str, data: bytes) -> None:
        written.append(name)
        original(name, data)

    monkeypatch.setattr(storage, "write_atomic", noted)
    temporary = load_import(path).temporary_folder
    assert main(["import-image", path]) == 0
    assert len(written) > 4 and {os.path.dirname(name) for name in written} == {temporary}


def test_an_attempt_that_ended_while_it_took_its_traces_away(folder: Path) -> None:
    """The map is complete: what is left of the run goes, and no tile is made again."""
    path = job(folder)
    assert main(["import-image", path]) == 0
    made = {file.name: file.read_bytes() for file in (folder / "map").iterdir()}
    left = Path(load_import(path).temporary_folder)
    left.mkdir()
    (left / "00000001.tif.json").write_text("{}")
    (folder / "map" / ".m.lock").write_text("{}")
    os.utime(folder / "map" / ".m.lock", (0, 0))
    assert main(["import-image", path]) == 2
    assert main(["import-image", path, "--resume"]) == 0
    assert {file.name: file.read_bytes() for file in (folder / "map").iterdir()} == made
    left.mkdir()
    (left / "00000001.tif.json").write_text("{}")
    tile = folder / "map" / "m.tif"
    tile.write_bytes(tile.read_bytes()[:-1])
    assert main(["import-image", path, "--resume"]) == 2, "a map that lacks a byte is not complete"
