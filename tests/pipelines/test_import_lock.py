"""Imports and other runs: who holds the output when it is published, two at once, and too little space."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from maps import cut, mixer, write_patches
from refusals import command
from shared import ROOT

from patchbeam import storage
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.make import TileMaker
from patchbeam.mosaic.space import least_space
from pipelines.resolve_import import load_import

COLUMNS, ROWS = 6, 9
LAYOUT = MapLayout.from_mixer(mixer(COLUMNS, ROWS))
IMAGE = np.random.default_rng(0).integers(0, 200, (16 * ROWS, 32 * COLUMNS)).astype(np.float32)


@pytest.fixture
def job(tmp_path: Path) -> str:
    def one(i: int) -> dict[str, np.ndarray]:
        return {"p": cut(IMAGE, LAYOUT.patches, i, margin=False)}

    write_patches(tmp_path, COLUMNS * ROWS, one, files=3, gzip="indexed")
    (tmp_path / "scene-mixer.json").write_text(mixer(COLUMNS, ROWS).to_text())
    given = {"job": "import-image", "records": "pred-*.tfrecord.gz", "mixer": "scene-mixer.json"}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**given, "tileSize": 256, "type": "uint8", "output": "map/m"}))
    return str(path)


def files(job: str) -> dict[str, bytes]:
    folder = Path(job).parent / "map"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_run_that_has_lost_its_lock_publishes_nothing(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run takes over while tiles are made; what is there is that run's to go on with."""
    make = TileMaker.make

    def taken(self: TileMaker, tile: int) -> Any:
        done = make(self, tile)
        lock = Path(job).parent / "map" / ".m.lock"
        lock.write_text(json.dumps({**json.loads(lock.read_text()), "token": "of another"}))
        return done

    with monkeypatch.context() as patch:
        patch.setattr(TileMaker, "make", taken)
        outcome = command("import-image", job)
    assert outcome.status == 3 and "another run has taken this output over" in outcome.err
    left = files(job)
    assert not [name for name in left if name.startswith("m")], "something was published"
    assert [name for name in left if name.startswith(".m-") and name.endswith("00000000.tif")], (
        "work was deleted"
    )
    assert json.loads(left[".m.lock"])["token"] == "of another"
    (Path(job).parent / "map" / ".m.lock").unlink()
    assert command("import-image", job, "--resume").status == 0
    assert not [name for name in files(job) if name.startswith(".")]


def test_two_imports_to_one_prefix_at_once(job: str) -> None:
    """One wins whole, the other says so; neither touches the other's files."""
    others = ["--set", "nodata=7"]
    commands = [["import-image", job], ["import-image", job, *others]]
    alone = []
    for arguments in commands:
        assert command(*arguments, "--overwrite").status == 0
        alone.append({name: data for name, data in files(job).items() if name.endswith((".tif", ".vrt"))})
    assert alone[0] != alone[1]
    for name in list(files(job)):
        (Path(job).parent / "map" / name).unlink()
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "pipelines", *arguments], cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        for arguments in commands
    ]
    said = [process.communicate(timeout=200)[1] for process in running]
    statuses = [process.returncode for process in running]
    assert sorted(statuses) in ([0, 2], [0, 3]), said
    winner = statuses.index(0)
    loser = said[1 - winner]
    assert "another run" in loser or "files of an earlier map stand" in loser
    left = files(job)
    assert {name: data for name, data in left.items() if name.endswith((".tif", ".vrt"))} == alone[winner]
    assert not [name for name in left if name.startswith(".")]


def test_too_little_space_is_said_before_work_starts(job: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = load_import(job)
    least = least_space(plan)
    assert 0 < least <= 16 * ROWS * 32 * COLUMNS
    assert least_space(load_import(job, ["compress=none"])) > 100 * least
    monkeypatch.setattr(storage, "free_bytes", lambda folder: least - 1)
    outcome = command("import-image", job)
    assert outcome.status == 2 and "free and the map needs at least" in outcome.err
    assert not files(job)
    monkeypatch.setattr(storage, "free_bytes", lambda folder: least)
    assert command("import-image", job).status == 0


def test_record_files_that_have_to_be_inflated_need_space_too(job: str) -> None:
    least = least_space(load_import(job))
    path = sorted(Path(job).parent.glob("pred-*.tfrecord.gz"))[0]
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), mtime=0))
    assert least_space(load_import(job)) == least + path.stat().st_size
