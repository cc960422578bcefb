"""The command import-image: what it writes, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from import_jobs import COUNT, IMAGE, LAYOUT, job, one, write_all
from maps import cut, mixer, write_patches

from patchbeam.records.tfrecord import read_records, write_records
from pipelines.cli import main


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_all(tmp_path)


def refused(folder: Path, path: str, capsys: pytest.CaptureFixture[str], status: int = 2) -> str:
    """Runs the command, which must fail and leave nothing."""
    before = {str(p) for p in folder.rglob("*") if p.is_file()}
    assert main(["import-image", path, "--workers", "2"]) == status
    after = {str(p) for p in folder.rglob("*") if p.is_file()}
    assert after == before, after - before
    assert not [p for p in folder.rglob(".*.tmp")]
    return capsys.readouterr().err


def test_it_writes_a_map_and_marks_it_complete(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-image", job(folder), "--workers", "2"]) == 0
    said = capsys.readouterr().out
    assert "54 placed" in said and "does not say whether the export padded" in said
    with rasterio.open(folder / "map" / "m.tif") as dataset:
        np.testing.assert_array_equal(dataset.read(1), IMAGE)
    report = json.loads((folder / "map" / "m-import.json").read_text())
    assert report["format"] == "patchbeam-import" and report["patchesPlaced"] == COUNT
    assert not list(folder.rglob(".*"))
    assert main(["import-image", job(folder)]) == 2
    assert "files of an earlier map stand at" in capsys.readouterr().err
    assert main(["import-image", job(folder, tileSize=512, scale=0.5), "--overwrite"]) == 0
    with rasterio.open(folder / "map" / "m.tif") as dataset:
        np.testing.assert_array_equal(dataset.read(1), np.rint(IMAGE / 2))


def test_another_layout_of_tiles_takes_the_old_ones_away(folder: Path) -> None:
    write_patches(folder, 9 * 20, lambda i: {"p": np.ones((16, 32), np.float32)}, stem="big")
    (folder / "big-mixer.json").write_text(mixer(9, 20).to_text())
    path = job(folder, records="big-*", mixer="big-mixer.json")
    assert main(["import-image", path]) == 0
    assert len(list(folder.glob("map/m-*.tif"))) == 4
    assert main(["import-image", path, "--set", "tileSize=512", "--overwrite"]) == 0
    assert [p.name for p in folder.glob("map/*.tif")] == ["m.tif"]
    assert [p.name for p in folder.glob("map/*.stac.json")] == ["m.stac.json"]


def test_a_raster_of_the_same_name_is_not_taken_for_a_tile(folder: Path) -> None:
    write_patches(folder, 9 * 20, lambda i: {"p": np.ones((16, 32), np.float32)}, stem="big")
    (folder / "big-mixer.json").write_text(mixer(9, 20).to_text())
    (folder / "map").mkdir()
    (folder / "map" / "m.tif").write_bytes(b"the raster that was exported")
    path = job(folder, records="big-*", mixer="big-mixer.json")
    assert main(["import-image", path]) == 2
    assert main(["import-image", path, "--overwrite"]) == 0
    assert (folder / "map" / "m.tif").read_bytes() == b"the raster that was exported"
    assert len(list(folder.glob("map/m-*.tif"))) == 4


def test_records_that_do_not_add_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    middle = folder / "pred-00001.tfrecord.gz"
    kept = middle.read_bytes()
    middle.unlink()
    said = refused(folder, job(folder), capsys)
    assert "1 are missing: number 1" in said
    middle.write_bytes(kept)
    (folder / "pred-1.tfrecord.gz").write_bytes(kept)
    assert "have the same number 1" in refused(folder, job(folder), capsys)
    (folder / "pred-1.tfrecord.gz").unlink()
    datas = [bytes(data) for data in read_records(middle)]
    for changed, text in ((datas[1:], "53 records"), ([*datas, datas[0]], "55 records")):
        write_records(middle, changed, "indexed")
        said = refused(folder, job(folder), capsys)
        assert text in said and f"pred-00001.tfrecord.gz has {len(changed)} where 18 are due" in said
        assert "or these are records of another export: give its mixer or manifest" in said
    middle.write_bytes(kept)
    names = ["pred-00000.tfrecord.gz", "pred-00002.tfrecord.gz", "pred-00001.tfrecord.gz"]
    assert "against the order of their numbers" in refused(folder, job(folder, records=names), capsys)


@pytest.mark.parametrize("gzip", [None, "indexed", "zlib6"])
def test_damaged_files(folder: Path, gzip: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    names = write_patches(folder, COUNT, one, files=3, gzip=gzip, stem="bad")
    path = job(folder, records="bad-*")
    damaged = Path(names[1])
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) * 2 // 3 - 7])
    said = refused(folder, path, capsys, status=1)
    assert f"{damaged}, record " in said and ", byte " in said
    assert "patchbeam verify tells of all damage; fetch or write the file again" in said
    damaged.write_bytes(whole[:2000] + bytes([whole[2000] ^ 4]) + whole[2001:])
    said = refused(folder, path, capsys, status=1)
    assert f"{damaged}, record " in said and ", byte " in said
    assert "patchbeam verify tells of all damage; fetch or write the file again" in said


def test_wrong_jobs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"bands": ["q"]}, 2, "the records have no 'q'"),
        ({"mixer": None}, 2, "mixer: give the export's mixer"),
        ({"mixer": "sceen-mixer.json"}, 2, "sceen-mixer.json; check the path"),
        ({"mixer": None, "manifest": "no.json"}, 2, "no.json; check the path"),
        ({"bands": ["p", "p"]}, 2, "bands: 'p' stands twice; name each band once"),
        ({"argmax": ["p", "p"]}, 2, "argmax: 'p' stands twice; name each band once"),
        ({"scale": math.nan}, 2, "scale: nan is not finite; give a number, or leave scale out"),
        ({"offset": math.inf}, 2, "offset: inf is not finite"),
        ({"clip": [5, 1]}, 2, "clip: [5.0, 1.0]: the first number must not be above the second; give [least"),
        ({"clip": [0, math.nan]}, 2, "the first number must not be above the second"),
        ({"datetime": "yesterday"}, 2, "datetime: 'yesterday' is no ISO 8601 time; give one such as 2024-"),
        (
            {"type": "float32", "scale": 1e300},
            1,
            "is outside of float32; choose a larger type, scale or clip",
        ),
        ({"type": "float32", "scale": 3e38}, 1, "is outside of float32"),
        ({"type": "float32", "offset": -1e39}, 1, "-1e+39 is outside of float32"),
        ({"records": "prod-*"}, 2, "nothing matches"),
        ({"tileSize": 300}, 2, "tileSize: 300 is not a positive multiple of 256"),
        ({"kernelSize": [3, 3], "overlap": {"blend": "box"}}, 2, "overlap"),
        ({"overlap": {"blend": "hann"}}, 2, "have no margin that overlaps"),
        ({"nodata": 300}, 2, "nodata: 300 is no value of uint8 (0 to 255)"),
        ({"mask": "valid"}, 2, "mask: 'valid' is no band of the records"),
        ({"mask": "sources"}, 2, "give the manifest"),
        ({"argmax": True}, 2, "argmax: the records have one band"),
        ({"scale": 10}, 1, "band p, patch "),
        ({"outptu": "x"}, 2, "outptu: unknown key"),
        ({"output": "map/"}, 2, "ends in a folder"),
    ]
    for changes, status, text in cases:
        assert text in refused(folder, job(folder, **changes), capsys, status), changes


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_scaled_values_beyond_float32_are_clipped_or_saturated(folder: Path) -> None:
    for changes, most in (
        ({"scale": 1e300, "clip": [0, 7]}, 7),
        ({"scale": 3e38, "saturate": True}, np.finfo(np.float32).max),
        ({"scale": 1e300, "clip": [0, math.inf], "saturate": True}, np.finfo(np.float32).max),
        ({"scale": 1e300, "type": "float64"}, 199e300),
    ):
        assert main(["import-image", job(folder, **{"type": "float32", **changes}), "--overwrite"]) == 0
        with rasterio.open(folder / "map" / "m.tif") as dataset:
            assert dataset.read(1).max() == pytest.approx(most) and dataset.read(1).min() == 0


def test_a_mixer_that_contradicts_itself(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "scene-mixer.json").read_text()
    (folder / "scene-mixer.json").write_text(text.replace('"totalPatches": 54', '"totalPatches": 53'))
    said = refused(folder, job(folder), capsys)
    assert "totalPatches: 53 is not a whole number of rows" in said


def test_nan_in_an_integer_map(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = IMAGE.copy()
    image[40, 70] = np.nan
    write_patches(folder, COUNT, lambda i: {"p": cut(image, LAYOUT.patches, i, margin=False)}, stem="nan")
    said = refused(folder, job(folder, records="nan-*"), capsys, status=1)
    assert "band p, patch 14: NaN cannot be held by uint8; give nodata" in said


def test_a_prefix_with_wrong_settings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for setting, text in (
        ("tileSize=abc", 'tileSize: "abc" is not a whole number'),
        ("typ=uint8", "typ: unknown key"),
    ):
        assert main(["import-image", str(folder / "scene"), "--set", setting]) == 2
        assert text in capsys.readouterr().err


def test_a_prefix_is_enough(folder: Path) -> None:
    for i in range(3):
        (folder / f"pred-{i:05d}.tfrecord.gz").rename(folder / f"scene-{i:05d}.tfrecord.gz")
    assert main(["import-image", str(folder / "scene"), "--set", "type=uint8"]) == 0
    with rasterio.open(folder / "scene-map.tif") as dataset:
        np.testing.assert_array_equal(dataset.read(1), IMAGE)
    assert main(["import-image", str(folder / "scene"), "--output", str(folder / "o" / "x")]) == 0
    assert (folder / "o" / "x-import.json").exists()
