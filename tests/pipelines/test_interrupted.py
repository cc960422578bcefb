"""Ctrl-C: exit status 130, nothing half-written, what is finished is kept for ``--resume``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import yaml
from rasterio.windows import Window
from refusals import Place, command

from patchbeam import publish as publishing
from pipelines import export_image, import_image

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A raster that takes some seconds to export: 32 Mpx of four bands that compress badly."""
    path = tmp_path_factory.mktemp("scene") / "scene.tif"
    profile = {"width": 8192, "height": 4096, "count": 4, "dtype": "uint16", "tiled": True}
    rng = np.random.default_rng(0)
    values = rng.integers(0, 4000, (4, 512, 8192)).astype(np.uint16)
    with rasterio.open(
        path, "w", driver="GTiff", crs="EPSG:32633", transform=rasterio.Affine(10, 0, 0, 0, -10, 0), **profile
    ) as file:
        for row in range(0, 4096, 512):
            file.write(values, window=Window(0, row, 8192, 512))
    return path


def interrupted(scene: Path, folder: Path, when: Callable[[Path], bool]) -> tuple[int, str, str, set[str]]:
    """Starts an export and presses Ctrl-C once ``when`` holds of the output folder; returns what is left."""
    out = folder / "out"
    job = {
        "job": "export-image",
        "sources": str(scene),
        "formatOptions": {"patchDimensions": 64, "maxFileSize": 50_000_000},
        "blockBytes": 4 << 20,
        "output": str(out / "scene"),
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    # a shell in the background leaves Ctrl-C ignored to all it starts
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipelines", "export-image", str(folder / "job.yaml")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while not when(out) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    return process.returncode, printed, said, {path.name for path in out.rglob("*")}


def pieces(at_least: int) -> Callable[[Path], bool]:
    return lambda out: sum(1 for _ in out.glob(".scene-*.tmp/*-0*")) >= at_least


@pytest.mark.parametrize("at_least", [1, 40])
def test_interrupted_while_it_writes(scene: Path, tmp_path: Path, at_least: int) -> None:
    status, printed, said, left = interrupted(scene, tmp_path, pieces(at_least))
    assert status == 130, said
    assert printed == ""
    assert "patchbeam: interrupted; nothing has been published; what is finished is kept in" in said
    assert "--resume" in said
    assert "Traceback" not in said and "WARNING" not in said and len(said.split("\n\n")) <= 2
    assert not any(name.startswith("scene") or name.endswith(".lock") for name in left)


def test_interrupted_while_it_plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.resolve.resolve_bands", press)
    place = Place(tmp_path)
    outcome = place.export({"job": "export-image", "sources": "scene.tif", "output": "out/scene"})
    assert outcome.status == 130
    assert "patchbeam: interrupted; nothing has been published" in outcome.err
    assert not (tmp_path / "out").exists()


def test_interrupted_while_it_publishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    place = Place(tmp_path)
    path = place.write({**yaml.safe_load(JOB), "output": "out/scene"})
    # shards have their names then, and the mixer and the manifest are missing
    monkeypatch.setattr(publishing, "_index", press)
    outcome = command("export-image", str(path))
    assert outcome.status == 130
    assert "run it again with --resume" in outcome.err
    assert not (tmp_path / "out" / "scene-manifest.json").exists()
    monkeypatch.undo()
    refused = command("export-image", str(path))
    assert refused.status == 2 and "--resume goes on where it stopped" in refused.err
    assert command("export-image", str(path), "--resume").status == 0
    assert not list((tmp_path / "out").glob(".*"))


def test_interrupted_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    # as if another machine ran it: its pieces are not taken away under it
    monkeypatch.setattr(export_image, "ends_with_us", lambda options: False)
    monkeypatch.setattr(publishing, "build_manifest", press)
    place = Place(tmp_path)
    outcome = place.export(JOB)
    assert outcome.status == 130
    assert "the job goes on where it runs and will publish" in outcome.err and "delete " in outcome.err
    assert list((tmp_path / "out").glob(".scene-*.tmp"))


@pytest.mark.parametrize("kind", ["export-image", "import-image"])
@pytest.mark.parametrize("error", [RuntimeError("Socket closed"), KeyboardInterrupt()], ids=repr)
def test_a_runner_that_fails_when_all_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: BaseException
) -> None:
    """The output is whole then: a warning, and after Ctrl-C its status, but no advice to resume."""
    place = Place(tmp_path)
    path = str(place.write(yaml.safe_load(JOB)))
    arguments, module, last = ["export-image", path], export_image, "scene-manifest.json"
    if kind == "import-image":
        assert command(*arguments).status == 0
        arguments = [kind, str(tmp_path / "out" / "scene"), "--output", str(tmp_path / "map" / "m")]
        module, last = import_image, "m-import.json"
    original = module.run_pipeline

    def fails(*given: Any, **options: Any) -> None:
        original(*given, **options)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(module, "run_pipeline", fails)
        outcome = command(*arguments)
    said = "everything had been published before"
    assert said in outcome.err and last in outcome.err and "--resume" not in outcome.err, outcome
    assert outcome.status == (130 if isinstance(error, KeyboardInterrupt) else 0)
    folder = tmp_path / ("map" if kind == "import-image" else "out")
    assert (folder / last).exists() and not list(folder.glob(".*"))


@pytest.mark.parametrize("kind", ["export-image", "import-image"])
def test_a_runner_that_fails_over_an_earlier_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What an earlier run has published is no success of this one."""
    place = Place(tmp_path)
    path = str(place.write(yaml.safe_load(JOB)))
    assert command("export-image", path).status == 0
    arguments, module = ["export-image", path], export_image
    if kind == "import-image":
        arguments = [kind, str(tmp_path / "out" / "scene"), "--output", str(tmp_path / "map" / "m")]
        module = import_image
        assert command(*arguments).status == 0

    def fails(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_pipeline", fails)
    outcome = command(*arguments, "--overwrite")
    assert outcome.status == 130 and "run it again with --resume" in outcome.err, outcome


JOB = "{job: export-image, sources: scene.tif, formatOptions: {patchDimensions: 32}, output: out/scene}"
