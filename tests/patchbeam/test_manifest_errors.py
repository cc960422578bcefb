"""Manifests of other versions, damaged ones, and what their errors name."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from manifests import full, small, with_splits
from refusals import says_what_to_do

from patchbeam import manifest as sidecar
from patchbeam.errors import JobError
from patchbeam.manifest import (
    Manifest,
)


def test_keys_of_a_newer_minor_version_are_kept() -> None:
    root = json.loads(small().to_text())
    root.update(version="1.7", hue={"a": [1, None]})
    root["shards"][0]["shade"] = 3
    root["formatOptions"]["newOption"] = True
    manifest = Manifest.from_text(json.dumps(root))
    assert manifest.extra == {"hue": {"a": [1, None]}}
    written = json.loads(manifest.to_text())
    assert written["hue"] == {"a": [1, None]} and written["shards"][0]["shade"] == 3
    assert written["version"] == "1.7"
    jsonschema.validate(written, sidecar.schema())


@pytest.mark.parametrize(
    ("version", "what"),
    [("2.0", "another layout"), ("0.9", "another layout"), ("1", "major.minor"), (1.0, "major")],
)
def test_another_major_version_is_refused(version: Any, what: str) -> None:
    root = {"format": sidecar.FORMAT, "version": version}
    with pytest.raises(JobError, match=f"^m.json: version: .*{what}.*; (use|give) "):
        Manifest.from_text(json.dumps(root), "m.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", b"\xff\xfe", "[" * 100_000, '{"format": "else"}'])
def test_what_is_no_manifest_is_refused(text: str | bytes) -> None:
    with pytest.raises(JobError, match=r"^m\.json: .*; give the PREFIX-manifest\.json that an export"):
        Manifest.from_text(text, "m.json")


def changed(root: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    root = copy.deepcopy(root)
    at: Any = root
    *keys, last = [int(key) if key.isdigit() else key for key in path.split("/")]
    for key in keys:
        at = at[key]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return root


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("bands", ..., "bands: missing"),
        ("edge", ..., "edge: missing"),
        ("edge", "padd", "edge: 'padd' is none of 'drop', 'pad' (did you mean 'pad'?)"),
        ("gzip", ..., "gzip: None contradicts formatOptions.compressed = True"),
        ("formatOptions/kernelSize", ..., "formatOptions.kernelSize: missing"),
        ("formatOptions/kernelSize", [1, 0], "formatOptions.kernelSize[1]: 0"),
        ("grid/transform", [1, 0, 0, 0, 1], "grid.transform: [1, 0, 0, 0, 1] has 5 entries, 6 are wanted"),
        ("grid/transform/4", "x", "grid.transform[4]: 'x' is not a number"),
        (
            "grid/transform/4",
            "NaN",
            "grid.transform: [10.0, 0.0, 500000.0, 0.0, nan, 4600000.0] is not finite",
        ),
        ("grid/transform", [1, 2, 0, 2, 4, 0], "grid.transform: [1.0, 2.0, 0.0, 2.0, 4.0, 0.0] is singular"),
        ("grid/width", True, "grid.width: True is not a whole number"),
        ("grid/height", 0, "grid.height: 0"),
        ("grid/crsWkt", 4326, "grid.crsWkt: 4326 is not a text"),
        ("maskBand", "B5", "maskBand: 'B5' is none of the bands"),
        ("bands", {}, "bands: {} is not a list"),
        ("bands/0", 1, "bands[0]: 1 is not an object"),
        ("bands/1/name", "B4", "bands[1].name: 'B4' comes 2 times"),
        ("bands/0/wireType", 3, "bands[0].wireType: 3 is none of"),
        ("bands/0/shape/1", 2.5, "bands[0].shape[1]: 2.5 is not a whole number"),
        ("bands/0/shape/1", 0, "bands[0].shape[1]: 0"),
        ("bands/0/masked", -1, "bands[0].masked: -1 is below 0"),
        ("bands/0/statistics/validCount", ..., "bands[0].statistics.validCount: missing"),
        (
            "bands/0/statistics/min",
            "small",
            "bands[0].statistics.min: 'small' is not a whole number or a number",
        ),
        ("bands/2/classes/0/colour", "blue", "bands[2].classes[0].colour: 'blue' is not #rrggbb"),
        ("patches/dropped", 1, "patches.planned: 8 is not the sum of written (6) and dropped (1)"),
        ("patches/written", -6, "patches.written: -6 is below 0"),
        ("keptPatches", ..., "keptPatches: missing, though 2 patches were dropped"),
        ("keptPatches", 3, "keptPatches: 3 is not a list"),
        ("keptPatches/1", [3], "keptPatches[1]: [3] is not [first, count]"),
        ("keptPatches/1", [3, True], "keptPatches[1]: [3, True] is not [first, count]"),
        ("keptPatches/1", [1, 3], "keptPatches[1]: [1, 3]"),
        ("keptPatches/2", [7, 2], "keptPatches[2]: [7, 2]"),
        ("keptPatches/1", [3, 2], "keptPatches: the ranges hold 5 patches, and 6 were written"),
        ("shards/1/firstRecord", 3, "shards[1].firstRecord: 3 does not follow the 4 records before it"),
        (
            "shards/1/records",
            3,
            "shards: they hold 7 records, and 6 patches written with 1 records each make 6",
        ),
        ("shards/1/name", "scene-00000.tfrecord.gz", "shards[1].name"),
        ("shards/0/crc32c", "AAA=", "shards[0].crc32c: 'AAA='"),
        ("shards/0/crc32c", "....", "shards[0].crc32c: '....'"),
        ("shards/0/split", "train", "shards[0].split: 'train' is none of the splits"),
        ("shards/0/storedBytes", "50", "shards[0].storedBytes: '50' is not a whole number"),
        ("sources/0/files/0/path", ..., "sources[0].files[0].path: missing"),
        ("sources/0/unscale", 0, "sources[0].unscale: 0 is not true or false"),
        ("software/numpy", 2, "software.numpy: 2 is not a text"),
        ("software", [], "software: [] is not an object"),
    ],
)
def test_errors_name_the_key_path(path: str, value: Any, message: str) -> None:
    root = changed(json.loads(full().to_text()), path, value)
    with pytest.raises(JobError) as caught:
        Manifest.from_text(json.dumps(root), "scene-manifest.json")
    assert str(caught.value).startswith(f"scene-manifest.json: {message}")
    assert says_what_to_do(str(caught.value))


def test_errors_of_splits() -> None:
    root = json.loads(with_splits().to_text())
    for path, value, message in [
        ("splits/parts/0/keptPatches", ..., "splits.parts[0].keptPatches: missing"),
        ("splits/parts/0/keptPatches/1", [8, 2], "splits.parts[0].keptPatches[1]: [8, 2]"),
        ("splits/parts/1/keptPatches", [], "splits.parts: their ranges hold 4 patches, and 5 were written"),
        ("shards/2/split", "validation", "shards[2].split: 'validation'"),
        ("splits/block", [8], "splits.block: [8]"),
    ]:
        with pytest.raises(JobError) as caught:
            Manifest.from_text(json.dumps(changed(root, path, value)), "m")
        assert str(caught.value).startswith(f"m: {message}") and says_what_to_do(str(caught.value))
