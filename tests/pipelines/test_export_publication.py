"""Publication: whole or not at all, over an earlier export, beside others, with nothing left behind."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import export as eager_export
from eager import write_tif
from exports import write_job

from patchbeam import storage
from patchbeam.errors import EncodeError, OutputExists, ReadFailed, WriteFailed
from patchbeam.plan import ExportPlan
from pipelines.cli import main
from pipelines.export_image import run_export
from pipelines.resolve import load_plan

RECORD = 290  # of 8 x 8 numbers in a band with a name of one letter


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values = np.random.default_rng(4).integers(1, 99, (40, 48)).astype("u2")
    write_tif(tmp_path / "a.tif", values, names=["b"])
    write_tif(tmp_path / "other.tif", values[::-1], names=["b"])
    return tmp_path


def planned(
    folder: Path, *, source: str = "a.tif", name: str = "scene", per_shard: int = 4, **more: Any
) -> ExportPlan:
    """30 patches, so many of them a shard."""
    settings = {"patchDimensions": 8, "maxFileSize": per_shard * RECORD, **more.pop("formatOptions", {})}
    job = {"sources": source, "output": f"out/{name}", "formatOptions": settings, **more}
    return load_plan(str(write_job(folder, job)))


def there(folder: Path) -> dict[str, bytes]:
    """Every file at the destination, hidden ones and those in folders included."""
    out = folder / "out"
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


class Killed(BaseException):
    """What nothing catches."""


def kill(monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> None:
    """Ends the process, so to speak, at the k-th call of a function of storage."""
    original, calls = getattr(storage, name), iter(range(1, 1000))

    def counted(*args: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise Killed
        return original(*args, **options)

    monkeypatch.setattr(storage, name, counted)


@pytest.mark.parametrize("naming", ["drive", "gcs"])
@pytest.mark.parametrize("call", [1, 2, 5, 8])
@pytest.mark.parametrize("before", ["nothing", "an export"])
def test_killed_between_renames(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: int, naming: str, before: str
) -> None:
    plan = planned(folder, naming=naming)
    eager_export(plan)
    expected = there(folder)
    assert len(expected) == 8 + 3
    for path in (folder / "out").iterdir():
        path.unlink()
    if before == "an export":
        eager_export(planned(folder, source="other.tif", per_shard=2, naming=naming))
    with monkeypatch.context() as context, pytest.raises(Killed):
        kill(context, "rename", call)
        eager_export(plan, overwrite=True)
    assert not any(name.endswith("manifest.json") for name in there(folder))
    if before == "an export" or call > 1:
        with pytest.raises(OutputExists):
            eager_export(plan)
    eager_export(plan, overwrite=True)
    assert there(folder) == expected


@pytest.mark.parametrize("call", [1, 2, 3])
def test_killed_before_a_sidecar(folder: Path, monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Index, mixer, manifest: the last is not there before all others."""
    plan = planned(folder)
    with monkeypatch.context() as context, pytest.raises(Killed):
        kill(context, "write_atomic", call)
        eager_export(plan)
    assert "scene-manifest.json" not in there(folder)
    eager_export(plan, overwrite=True)
    assert sum(name.startswith("scene-") for name in there(folder)) == len(there(folder)) == 11


def test_a_disk_that_fails_while_publishing_ends_the_run_without_a_manifest(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(folder)
    original, calls = storage.rename, iter(range(1, 1000))

    def full(source: str, destination: str) -> None:
        if next(calls) == 3:
            failure = WriteFailed(f"{destination}: cannot move: disk full")
            failure.errno = errno.ENOSPC
            raise failure
        original(source, destination)

    with monkeypatch.context() as context, pytest.raises(WriteFailed, match="disk full"):
        context.setattr(storage, "rename", full)
        run_export(plan, workers=1)
    assert "scene-manifest.json" not in there(folder)
    assert run_export(plan, workers=1, overwrite=True).patches.written == 30
    assert not any(name.startswith(".") for name in there(folder))


@pytest.mark.parametrize("naming", ["drive", "gcs"])
def test_neighbours_are_left_alone(folder: Path, naming: str) -> None:
    for name in ("scene2", "scene-b", "scen", "scene_"):
        eager_export(planned(folder, source="other.tif", name=name, naming=naming))
    (folder / "out" / "scene.tif").write_bytes(b"a raster")
    (folder / "out" / "scene-notes.json").write_bytes(b"{}")
    before = there(folder)
    plan = planned(folder, naming=naming)
    eager_export(plan)
    assert before.items() <= there(folder).items()
    with pytest.raises(OutputExists, match="11 files of an earlier export"):
        eager_export(plan)
    eager_export(planned(folder, per_shard=30, naming=naming), overwrite=True)
    after = there(folder)
    assert before.items() <= after.items()
    assert len(after) == len(before) + 4


@pytest.mark.parametrize(
    ("old", "new"), [("drive", "drive"), ("gcs", "gcs"), ("drive", "gcs"), ("gcs", "drive")]
)
@pytest.mark.parametrize(("more", "fewer"), [(2, 7), (2, 30), (30, 2)])
def test_overwriting_leaves_only_the_new_export(
    folder: Path, old: str, new: str, more: int, fewer: int
) -> None:
    eager_export(planned(folder, source="other.tif", per_shard=more, naming=old))
    manifest = eager_export(planned(folder, per_shard=fewer, naming=new), overwrite=True)
    after = there(folder)
    shards = {shard.name for shard in manifest.shards}
    assert len(shards) == -(-30 // fewer)
    assert {name for name in after if ".tfrecord" in name} == shards
    assert len(after) == len(shards) + 3


def test_overwriting_takes_what_the_new_export_has_not(folder: Path) -> None:
    """No mixer when patches may be dropped, no index when files are not indexed, other suffixes."""
    eager_export(planned(folder))
    plain = {"compressed": False, "maskedThreshold": 0.9}
    eager_export(planned(folder, formatOptions=plain), overwrite=True)
    names = {name for name in there(folder) if ".tfrecord" not in name}
    assert names == {"scene-manifest.json"}
    assert all(name.endswith(".tfrecord") for name in there(folder) if ".tfrecord" in name)


@pytest.mark.parametrize("naming", ["drive", "gcs"])
def test_a_json_file_that_is_no_mixer_stays(folder: Path, naming: str) -> None:
    """Job files, regions and features may be called as the output is."""
    (folder / "out").mkdir()
    mine = folder / "out" / "scene.json"
    mine.write_text('{"type": "FeatureCollection", "features": []}')
    if naming == "drive":
        run_export(planned(folder), workers=1)
    else:
        with pytest.raises(OutputExists, match=r"scene\.json"):
            run_export(planned(folder, naming=naming), workers=1)
    run_export(planned(folder, naming=naming), workers=1, overwrite=True)
    run_export(
        planned(folder, naming=naming, formatOptions={"maskedThreshold": 0.9}), workers=1, overwrite=True
    )
    assert mine.read_text().startswith('{"type"')


def test_the_mixer_of_one_shard_is_taken_away(folder: Path) -> None:
    eager_export(planned(folder, naming="gcs", per_shard=99))
    assert "scene.json" in there(folder)
    eager_export(planned(folder), overwrite=True)
    assert "scene.json" not in there(folder) and "scene-mixer.json" in there(folder)


def test_another_export_that_was_faster_is_not_overwritten(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is published between our check at the start and our publication."""
    from patchbeam import publish

    other = planned(folder, source="other.tif")
    compare = publish._compare

    def meanwhile(*args: Any) -> None:
        monkeypatch.setattr(publish, "_compare", compare)
        eager_export(other)
        compare(*args)

    monkeypatch.setattr(publish, "_compare", meanwhile)
    with pytest.raises(OutputExists, match="another run has published"):
        run_export(planned(folder), workers=1)
    monkeypatch.undo()
    found = there(folder)
    assert len(found) == 11 and "scene-manifest.json" in found
    eager_export(other, overwrite=True)
    assert there(folder) == found


def test_nothing_temporary_is_left_on_success(folder: Path) -> None:
    for more in ({}, {"gzip": "zlib6"}, {"numbers": "native"}):
        manifest = run_export(planned(folder, **more), workers=2, overwrite=True)
        assert len(there(folder)) == len(manifest.shards) + (2 if "gzip" in more else 3)
        assert not any(path.name.startswith(".") for path in (folder / "out").rglob("*"))


def test_nothing_is_left_when_a_source_turns_out_broken(folder: Path) -> None:
    random = np.random.default_rng(5)
    path = write_tif(
        folder / "broken.tif",
        random.integers(0, 9000, (256, 256)).astype("u2"),
        tiled=True,
        blockxsize=64,
        blockysize=64,
        compress="deflate",
    )
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 3000] = b"\xff" * 3000
    path.write_bytes(data)
    with pytest.raises(ReadFailed, match=r"broken\.tif.*rows \d+ to \d+ cannot be read"):
        run_export(planned(folder, source="broken.tif"), workers=2)
    assert there(folder) == {}


def test_nothing_is_left_when_pixels_cannot_be_encoded(folder: Path) -> None:
    values = np.zeros((40, 48))
    values[30, 30] = 1e300
    write_tif(folder / "huge.tif", values)
    with pytest.raises(EncodeError, match="beyond float32"):
        run_export(planned(folder, source="huge.tif"), workers=2)
    assert there(folder) == {}


def test_exit_status_and_message_of_an_export_that_stands_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(
        folder, {"sources": "a.tif", "output": "out/scene", "formatOptions": {"patchDimensions": 8}}
    )
    assert main(["export-image", str(job)]) == 0
    before = there(folder)
    assert main(["export-image", str(job)]) == 2
    assert "--overwrite to replace" in capsys.readouterr().err
    assert main(["export-image", str(job), "--overwrite"]) == 0
    assert there(folder) == before


def test_an_attempt_whose_success_got_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner runs the last step again, when everything has its name and the temporary files are gone."""
    from transforms import write

    original = write.publish
    calls = []

    def twice(*args: Any, **options: Any) -> str:
        calls.append(original(*args, **options))
        calls.append(original(*args, **options))
        return calls[-1]

    monkeypatch.setattr(write, "publish", twice)
    run_export(planned(folder), workers=1)
    assert len(set(calls)) == 1 and len(calls) == 2
    found = there(folder)
    assert len(found) == 11
    monkeypatch.undo()
    run_export(planned(folder), workers=1, overwrite=True)
    assert there(folder) == found
