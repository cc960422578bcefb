"""Manifest, mixer, index and sources that do not agree with the shards are found and named."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from crc32c import crc32c as crc_of
from small_export import copy_of, found, make, run, shard

from patchbeam.look import look
from patchbeam.look.overview import SPLITS

MIXER_EDITS: dict[str, tuple[str, str, str]] = {
    "patchesPerRow": ('"patchesPerRow": 3', '"patchesPerRow": 9', "patchesPerRow: 9"),
    "totalPatches": ('"totalPatches": 9', '"totalPatches": 12', "totalPatches: 12"),
    "patchDimensions": ("[16, 16]", "[16, 32]", "patchDimensions: [16, 32]"),
    "affine": ("500000.0", "500010.0", "doubleMatrix"),
    "crs": ("EPSG:32633", "EPSG:32634", "projection.crs"),
    "no CRS": ("EPSG:32633", "EPSG:1", "projection.crs"),
    "no JSON": ("{", "[", "not JSON"),
    "no key": ("totalPatches", "patches", "totalPatches: missing"),
}


@pytest.mark.parametrize("name", MIXER_EDITS)
def test_a_wrong_mixer(tmp_path: Path, name: str) -> None:
    old, new, text = MIXER_EDITS[name]
    prefix = copy_of("indexed", tmp_path)
    path = Path(f"{prefix}-mixer.json")
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    findings = found(run(prefix), about="mixer", file=str(path))
    assert any(text in f.text for f in findings), findings


def test_no_mixer(tmp_path: Path) -> None:
    prefix = copy_of("indexed", tmp_path)
    Path(f"{prefix}-mixer.json").unlink()
    assert found(run(prefix), about="mixer")


def edit_manifest(prefix: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path(f"{prefix}-manifest.json")
    root = json.loads(path.read_text())
    change(root)
    path.write_text(json.dumps(root))


def set_(*keys: Any) -> Callable[[dict[str, Any]], None]:
    *path, last, value = keys

    def change(root: Any) -> None:
        for key in path:
            root = root[key]
        root[last] = value

    return change


OTHER_CRC = base64.b64encode(crc_of(b"x").to_bytes(4, "big")).decode()
MANIFEST_EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], str, str]] = {
    "storedBytes": (set_("shards", 1, "storedBytes", 5), "stored", "5"),
    "crc32c": (set_("shards", 1, "crc32c", OTHER_CRC), "stored", OTHER_CRC),
    "uncompressedBytes": (set_("shards", 1, "uncompressedBytes", 5), "shards", "5"),
    "records": (set_("shards", 1, "records", 4), "manifest", "shards[2].firstRecord"),
    "name": (set_("shards", 1, "name", "scene-00007.tfrecord.gz"), "manifest", "shards[1].name"),
    "planned": (set_("patches", {"planned": 12, "written": 9, "dropped": 3}), "manifest", "keptPatches"),
    "width": (set_("grid", "width", 70), "manifest", "patches.planned"),
    "transform": (set_("grid", "transform", 0, 20.0), "mixer", "doubleMatrix"),
    "crs": (set_("grid", "crsWkt", "nonsense"), "manifest", "nonsense"),
    "kernel": (set_("formatOptions", "kernelSize", [4, 4]), "manifest", "bands[0].shape"),
    "limit": (set_("formatOptions", "maxFileSize", 4000), "stored", "maxFileSize"),
    "shape": (set_("bands", 0, "shape", [24, 25]), "manifest", "bands[0].shape"),
    "wireType": (set_("bands", 0, "wireType", "int64"), "layout", "int64"),
    "band": (set_("bands", 0, "name", "rot"), "layout", "'rot'"),
    "order": (lambda root: root["bands"].insert(0, root["bands"].pop()), "layout", "order"),
    "gzip": (set_("gzip", "zlib6"), "stored", "stream"),
    "maskedThreshold": (set_("formatOptions", "maskedThreshold", 0.5), "mixer", "dropped"),
    "version": (set_("version", "2.0"), "manifest", "version"),
    "format": (set_("format", "x"), "manifest", "format"),
}


@pytest.mark.parametrize("name", MANIFEST_EDITS)
def test_an_edited_manifest(tmp_path: Path, name: str) -> None:
    change, about, text = MANIFEST_EDITS[name]
    prefix = copy_of("indexed", tmp_path)
    edit_manifest(prefix, change)
    findings = found(run(prefix), about=about)
    assert any(text in f.text for f in findings), run(prefix).findings


def test_splits(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    names = ["scene-train-00000.tfrecord", "scene-train-00001.tfrecord", "scene-test-00000.tfrecord"]
    for number, name in enumerate(names):
        shard(prefix, number).rename(prefix.parent / name)
    Path(f"{prefix}-mixer.json").unlink()

    def change(root: dict[str, Any]) -> None:
        for entry, name in zip(root["shards"], names, strict=True):
            entry.update(name=name, split=name.split("-")[1])
        root["shards"][2]["firstRecord"] = 0
        parts = [("train", [[0, 6]]), ("test", [[6, 3]])]
        root["splits"] = {
            "block": [3, 1],
            "seed": 1,
            "guard": 0,
            "parts": [{"name": name, "fraction": 0.5, "keptPatches": kept} for name, kept in parts],
        }

    edit_manifest(prefix, change)
    # all is in order but that these splits have no guard
    (finding,) = run(prefix, sources=9).findings
    assert finding.text == (
        "splits: patch 4 of train and patch 6 of test share pixels through their margins of 4 × 4"
    )
    colours = {tuple(c) for c in look(str(prefix)).reshape(-1, 3).tolist()}
    assert set(SPLITS[:2]) <= colours and SPLITS[2] not in colours
    (prefix.parent / names[1]).unlink()
    (finding,) = found(run(prefix), about="shards")
    assert finding.file == str(prefix.parent / names[1])


def test_an_index_that_is_of_another_export(tmp_path: Path) -> None:
    prefix = copy_of("indexed", tmp_path)
    path = Path(f"{prefix}-index.npz")
    with np.load(path) as table:
        arrays = {key: table[key].copy() for key in table}
    arrays["memberBytes"][1] += 1
    np.savez_compressed(path, **arrays)
    (finding,) = run(prefix).findings
    assert (finding.about, finding.file) == ("index", str(path))
    assert "member 0 of" in finding.text or "member 1 of" in finding.text
    path.write_bytes(path.read_bytes()[:50])
    assert found(run(prefix), about="index", file=str(path))
    path.unlink()
    assert found(run(prefix), about="index", file=str(path))


def test_pixels_that_are_not_those_of_the_sources(tmp_path: Path) -> None:
    prefix = make(tmp_path)
    assert run(prefix, sources=9).ok
    with rasterio.open(tmp_path / "scene.tif", "r+") as file:
        values = file.read()
        values[1, 20, 30] += 1
        file.write(values)
    findings = found(run(prefix, sources=9), about="sources")
    changed = [f for f in findings if f.file == str(tmp_path / "scene.tif")]
    wrong = [f for f in findings if f.patch is not None]
    assert changed and {f.patch for f in wrong} >= {4}
    text = next(f.text for f in wrong if f.patch == 4)
    assert "band 'nir': 1 of 576 pixels" in text and "row 8, column 18" in text
    (tmp_path / "scene.tif").unlink()
    (finding,) = run(prefix, sources=9).findings
    assert finding.about == "sources" and "scene.tif" in finding.text


JOBS: dict[str, dict[str, Any]] = {
    "native": {"numbers": "native"},
    "collapsed": {"formatOptions": {"collapseBands": True}},
    "pad": {"formatOptions": {"patchDimensions": [20, 20]}, "edge": "pad"},
    "dropped": {"formatOptions": {"maskedThreshold": 0.01}},
    "per pixel": {"formatOptions": {"sequenceData": True, "kernelSize": [1, 1]}},
    "one shard": {"formatOptions": {"maxFileSize": 1 << 30}, "naming": "gcs"},
    "arrays": {
        "bands": [{"name": "both", "source": "image", "band": [2, 1]}],
        "formatOptions": {"tensorDepths": {"both": 3}},
    },
    "clip": {
        "grid": {
            "region": {
                "type": "Polygon",
                "coordinates": [[[500010, 5299990], [500470, 5299990], [500470, 5299530], [500010, 5299990]]],
            },
            "regionCrs": "EPSG:32633",
            "clip": True,
        }
    },
}


@pytest.mark.parametrize("name", JOBS)
def test_exports_of_every_kind(tmp_path: Path, name: str) -> None:
    prefix = make(tmp_path, **JOBS[name])
    report = run(prefix, sources=50)
    assert report.ok, report.findings
    assert "sources" in report.checked
