"""``onMissing``: a source that cannot be read ends the run, or is masked where it failed and listed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from eager import plan_of, records_of, write_tif
from maps import import_plan
from refusals import Outcome, command

from patchbeam.errors import JobError
from patchbeam.manifest import Manifest
from patchbeam.rasters import pieces as reading
from patchbeam.records.parse import parse_example
from patchbeam.verify import verify

SIDE = 96


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("patchbeam.retry.sleep", lambda seconds: None)
    values = np.random.default_rng(1).integers(1, 200, (2, SIDE, SIDE)).astype("f4")
    options = {"tiled": True, "blockxsize": 32, "blockysize": 32, "compress": "deflate"}
    write_tif(tmp_path / "a.tif", values[:1], names=["a"], **options)
    write_tif(tmp_path / "b.tif", values[1:], names=["b"], **options)
    return tmp_path


def job_of(**more: object) -> dict[str, object]:
    options = {"patchDimensions": 32, "defaultValue": -1}
    sources = {"a": {"path": ["a.tif", "b.tif"]}, "b": "b.tif"}
    bands = [{"source": "a", "band": 1, "name": "x"}, {"source": "b", "band": 1, "name": "y"}]
    return {
        "sources": sources,
        "bands": bands,
        "formatOptions": options,
        "maskBand": "valid",
        "blockBytes": 1 << 16,
        "output": "out/scene",
        **more,
    }


def export(folder: Path, *arguments: str, **more: object) -> Outcome:
    (folder / "job.yaml").write_text(yaml.safe_dump({"job": "export-image", **job_of(**more)}))
    return command("export-image", str(folder / "job.yaml"), "--workers", "1", *arguments)


def damage(path: Path, tile: int) -> None:
    import rasterio

    with rasterio.open(path) as file:
        offset = file.get_tag_item(f"BLOCK_OFFSET_{tile % 3}_{tile // 3}", "TIFF", bidx=1)
    with open(path, "r+b") as raw:
        raw.seek(int(offset))
        raw.write(b"\xff" * 20)


def test_an_error_unless_said_otherwise(folder: Path) -> None:
    damage(folder / "a.tif", 4)
    outcome = export(folder)
    assert outcome.status == 1 and "a.tif" in outcome.err
    assert not (folder / "out" / "scene-manifest.json").exists()


def test_masked_where_it_failed_and_listed(folder: Path) -> None:
    import rasterio

    with rasterio.open(folder / "a.tif") as a, rasterio.open(folder / "b.tif") as b:
        first, second = a.read(1), b.read(1)
    damage(folder / "a.tif", 4)
    outcome = export(folder, onMissing="mask")
    assert outcome.status == 0, outcome.err
    assert "a.tif" in outcome.err and "is masked in block" in outcome.err
    plan = plan_of(job_of(onMissing="mask"), folder)
    manifest = Manifest.from_text((folder / "out" / "scene-manifest.json").read_text())
    damaged = [file for source in manifest.sources for file in source.files if file.masked_windows]
    assert {Path(file.path).name for file in damaged} == {"a.tif"}
    ((column, row, width, height),) = damaged[0].masked_windows
    lost = np.zeros((SIDE, SIDE), bool)
    lost[row : row + height, column : column + width] = True
    assert lost[32:64, 32:64].all() and not lost.all()
    want = np.where(lost, second, first)  # the next file of the composite stands in
    for i, record in enumerate(records_of(plan, manifest)):
        y, x = divmod(i, 3)
        at = np.s_[y * 32 : y * 32 + 32, x * 32 : x * 32 + 32]
        found = parse_example(record)
        np.testing.assert_array_equal(found["x"].reshape(32, 32), want[at])
        assert (found["valid"] == 1).all()


def test_pixels_that_nothing_stands_in_for_are_masked(folder: Path) -> None:
    damage(folder / "b.tif", 0)
    outcome = export(folder, onMissing="mask", sources={"a": "a.tif", "b": "b.tif"})
    assert outcome.status == 0, outcome.err
    plan = plan_of(job_of(onMissing="mask", sources={"a": "a.tif", "b": "b.tif"}), folder)
    manifest = Manifest.from_text((folder / "out" / "scene-manifest.json").read_text())
    first = parse_example(next(iter(records_of(plan, manifest))))
    assert (first["y"] == -1).all() and (first["valid"] == 0).all() and (first["x"] > 0).all()
    assert manifest.bands[1].masked and manifest.bands[0].masked == 0


def test_what_can_be_read_at_the_next_try_is_not_masked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, calls = reading.file_valid, iter(range(10**6))

    def flaky(*arguments: object) -> object:
        from rasterio.errors import RasterioIOError

        if next(calls) == 2:
            raise RasterioIOError("read timed out")
        return original(*arguments)

    monkeypatch.setattr(reading, "file_valid", flaky)
    assert export(folder, onMissing="mask").status == 0
    text = (folder / "out" / "scene-manifest.json").read_text()
    assert "maskedWindows" not in text
    monkeypatch.undo()
    assert not list((folder / "out").glob(".*"))


def test_values_that_do_not_fit_are_never_masked(folder: Path) -> None:
    write_tif(folder / "a.tif", np.full((1, SIDE, SIDE), 1e9, "f4"))
    bands = [{"source": "a", "band": 1, "name": "x", "type": "uint8"}]
    outcome = export(folder, onMissing="mask", sources={"a": "a.tif"}, bands=bands)
    assert outcome.status == 1 and "does not fit" in outcome.err


def test_what_could_not_be_read_is_no_mask_of_the_sources_and_no_finding(folder: Path) -> None:
    whole = (folder / "b.tif").read_bytes()
    damage(folder / "b.tif", 0)
    assert export(folder, onMissing="mask").status == 0
    (folder / "b.tif").write_bytes(whole)  # the share is back
    job = {"records": "out/scene", "mask": "sources", "output": "map/m"}
    with pytest.raises(JobError, match=r"b\.tif could not be read by the export.*maskBand"):
        import_plan(job, folder)
    report = verify(str(folder / "out" / "scene"), threads=1, sources=9)
    assert report.ok, report.findings
    assert report.checked["sources"].split()[0] in ("3", "6")  # whole blocks are left out
