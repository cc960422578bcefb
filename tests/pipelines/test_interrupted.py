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
from patchbeam import storage
from patchbeam.errors import CountMismatch, ReadFailed, WriteFailed
from pipelines import export_image, export_table, import_image

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


def arguments_of(kind: str, folder: Path) -> tuple[list[str], Any, Path]:
    """A small job of a kind, its module, the folder of its output; what an import reads is made first."""
    place = Place(folder)
    if kind in ("export-image", "import-image"):
        path = str(place.write(yaml.safe_load(JOB)))
        if kind == "export-image":
            return [kind, path], export_image, folder / "out"
        assert command("export-image", path).status == 0
        given = [kind, str(folder / "out" / "scene"), "--output", str(folder / "map" / "m")]
        return given, import_image, folder / "map"
    if kind == "build-dataset":
        job: dict[str, Any] = {"database": {"generated": {"count": 5, "size": 8}}, "output": "out/set"}
        return [kind, str(place.write({"job": kind, **job}))], export_table, folder / "out"
    (folder / "points.csv").write_text("x,y,value\n1,2,3\n4,5,6\n")
    path = str(place.write({"job": "export-table", "features": "points.csv", "output": "out/table"}))
    if kind == "export-table":
        return [kind, path], export_table, folder / "out"
    assert command("export-table", path).status == 0
    job = {"job": kind, "records": "out/table.tfrecord.gz", "output": "csv/table.csv"}
    return [kind, str(place.write(job))], export_table, folder / "csv"


ALL = ["export-image", "import-image", "export-table", "import-table", "build-dataset"]
LAST = ["scene-manifest.json", "m-import.json", "table*.tfrecord.gz", "table.csv", "set-manifest.json"]
MOVES = {
    "export-image": "patchbeam.publish._move",
    "import-image": "patchbeam.mosaic.publish._move",
    "export-table": "patchbeam.tables.publish._move",
    "build-dataset": "patchbeam.data.convert_publish._move",
}


def raised(error: BaseException) -> Callable[..., None]:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    return fails


@pytest.mark.parametrize(("kind", "last"), zip(ALL, LAST, strict=True))
@pytest.mark.parametrize("error", [RuntimeError("Socket closed"), KeyboardInterrupt()], ids=repr)
def test_a_runner_that_fails_when_all_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, last: str, error: BaseException
) -> None:
    """The output is whole then: a warning, and after Ctrl-C its status, but no advice to resume."""
    arguments, module, folder = arguments_of(kind, tmp_path)
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
    assert "nothing has been published" not in outcome.err.lower()
    assert list(folder.glob(last)) and not list(folder.glob(".*"))


@pytest.mark.parametrize("kind", ALL)
def test_a_runner_that_fails_over_an_earlier_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """What an earlier run has published is no success of this one."""
    arguments, module, folder = arguments_of(kind, tmp_path)
    assert command(*arguments).status == 0
    before = {path: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(module, "run_pipeline", raised(KeyboardInterrupt()))
    outcome = command(*arguments, "--overwrite")
    assert outcome.status == 130 and "interrupted; nothing has been published; " in outcome.err, outcome
    assert ("run it again with --resume" in outcome.err) == kind.endswith("-image")
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), CountMismatch("this file has gone"), RuntimeError("Socket closed")],
    ids=repr,
)
def test_a_run_that_fails_while_it_publishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: BaseException
) -> None:
    """That something may have its name by then is said, and how to go on works."""
    arguments, module, folder = arguments_of(kind, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(MOVES[kind], raised(error))
        patch.setattr(module, "is_local", lambda options: False)  # where a runner's own error is told
        outcome = command(*arguments)
    assert outcome.status == (130 if isinstance(error, KeyboardInterrupt) else 1), outcome
    said = outcome.err.lower()
    if kind != "import-image":  # whose first tile has not been moved
        assert "publication had begun, and what stands at" in said and "is not complete; " in said, outcome
        assert "nothing has been published" not in said
    resumes = kind.endswith("-image") and not isinstance(error, CountMismatch)
    again = "--resume" if resumes else "--overwrite"
    assert f"run it again with {again}" in said or kind == "import-image", outcome
    assert bool(list(folder.glob(".*"))) == resumes
    assert command(*arguments, again).status == 0
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("kind", ALL)
def test_temporary_files_that_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """When all is published they are warned of; the run has not failed."""
    arguments, _, folder = arguments_of(kind, tmp_path)
    original, last = storage.delete_tree, LAST[ALL.index(kind)]

    def fails(path: str) -> None:
        if list(folder.glob(last)) and path.startswith(str(folder)):
            raise WriteFailed(f"{path}: cannot delete: Permission denied (EACCES)")
        original(path)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete_tree", fails)
        outcome = command(*arguments)
    assert outcome.status == 0 and "temporary files are" in outcome.err and "EACCES" in outcome.err, outcome
    assert "nothing has" not in outcome.err and "not complete" not in outcome.err
    assert list(folder.glob(".*")) and not list(folder.glob(".*.lock"))
    assert command(*arguments, "--overwrite").status == 0
    assert list(folder.glob(last)) and not list(folder.glob(".*"))


@pytest.mark.parametrize("kind", ["export-table", "build-dataset"])
def test_a_storage_that_cannot_be_asked_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    arguments, module, _ = arguments_of(kind, tmp_path)
    monkeypatch.setattr(module, "run_pipeline", raised(KeyboardInterrupt()))
    name = (
        "pipelines.export_table.is_published"
        if kind == "export-table"
        else "pipelines.build_dataset.is_published"
    )
    monkeypatch.setattr(name, raised(ReadFailed("gone")))
    outcome = command(*arguments)
    assert outcome.status == 130 and "what has been published cannot be seen" in outcome.err


JOB = "{job: export-image, sources: scene.tif, formatOptions: {patchDimensions: 32}, output: out/scene}"
