from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from affine import Affine
from hypothesis import given
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox

from patchbeam import manifest as sidecar
from patchbeam.errors import JobError
from patchbeam.manifest import (
    BandStatistics,
    Manifest,
    ManifestBand,
    ManifestClass,
    ManifestFile,
    ManifestGrid,
    ManifestKeep,
    ManifestPatches,
    ManifestSample,
    ManifestShard,
    ManifestSource,
    ManifestSplit,
    ManifestSplits,
    from_ranges,
    to_ranges,
)
from patchbeam.manifest.jsonform import Entry, camel, keys_of
from patchbeam.options import FormatOptions
from patchbeam.statistics import EMPTY, measure

GRID = GeoBox((600, 1024), Affine(10.0, 0, 500000, 0, -10, 4600000), "EPSG:32633")


def shard(number: int, records: int, first: int, split: str | None = None) -> ManifestShard:
    return ManifestShard(
        name=f"scene-{number:05d}.tfrecord.gz",
        split=split,
        records=records,
        first_record=first,
        uncompressed_bytes=records * 100,
        stored_bytes=records * 50,
        crc32c="4waSgw==",
    )


def full() -> Manifest:
    """A manifest in which everything is used, but for splits."""
    return Manifest(
        grid=ManifestGrid.from_geobox(GRID),
        format_options=FormatOptions(
            kernel_width_height=(64, 64), tensor_depths={"ndvi": 12}, default_value=-1.5
        ),
        edge="drop",
        numbers="float",
        gzip="indexed",
        naming="drive",
        mask_band="valid",
        clip=True,
        bands=(
            ManifestBand(
                name="B4",
                type="uint16",
                wire_type="float",
                shape=(320, 320),
                nodata=0,
                description="Rot – sichtbar",
                source="s2",
                source_band=4,
                resampling="nearest",
                statistics=BandStatistics(
                    valid_count=9, min=0, max=65535, mean=12.5, standard_deviation=1e-300
                ),
                masked=3,
                rounded_values=0,
            ),
            ManifestBand(
                name="ndvi",
                type="float32",
                wire_type="float",
                shape=(12, 320, 320),
                source_bands=(3, 1, 2),
                times=("2021-05-01T00:00:00Z", "2021-06-01T00:00:00Z"),
                nodata=math.nan,
                statistics=BandStatistics(
                    valid_count=2, min=-math.inf, max=math.inf, mean=math.nan, standard_deviation=math.nan
                ),
            ),
            ManifestBand(
                name="landcover",
                type="uint8",
                wire_type="float",
                shape=(320, 320),
                classes=(ManifestClass(value=1, name="water", colour="#0000ff"), ManifestClass(value=2)),
                statistics=BandStatistics(valid_count=0),
            ),
            ManifestBand(name="valid", type="uint8", wire_type="float", shape=(320, 320)),
        ),
        patches=ManifestPatches(planned=8, written=6, dropped=2),
        kept_patches=((0, 2), (3, 3), (7, 1)),
        shards=(shard(0, 4, 0), shard(1, 2, 4)),
        index="scene-index.npz",
        sources=(
            ManifestSource(
                name="s2",
                compose="median",
                nodata=math.nan,
                unscale=False,
                masked_observations="fill",
                files=(
                    ManifestFile(path="s2/a.tif", size_bytes=10, modified="2023-11-14T22:13:20.123456789Z"),
                ),
            ),
            ManifestSource(name="url", files=(ManifestFile(path="https://host/x.tif"),)),
        ),
        software={"patchbeam": "0.1.0", "numpy": "2.4.6"},
    )


def small(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "format_options": FormatOptions(),
        "edge": "pad",
        "numbers": "native",
        "gzip": "zlib6",
        "naming": "gcs",
        "bands": (ManifestBand(name="B1", type="uint8", wire_type="bytes", shape=(256, 256)),),
        "patches": ManifestPatches(planned=2, written=2, dropped=0),
        "shards": (shard(0, 2, 0),),
    }
    return Manifest(**{**values, **changes})


def with_splits() -> Manifest:
    parts = (
        ManifestSplit(name="train", fraction=0.75, kept_patches=((0, 3), (8, 1))),
        ManifestSplit(name="test", fraction=0.25, kept_patches=((4, 1),)),
    )
    return small(
        patches=ManifestPatches(planned=9, written=5, dropped=4),
        splits=ManifestSplits(block=(8, 8), seed=-1, guard=1, parts=parts),
        shards=(shard(0, 3, 0, "train"), shard(1, 1, 3, "train"), shard(2, 1, 0, "test")),
    )


EXAMPLES = {"full": full, "small": small, "splits": with_splits}


def same(first: Any, second: Any) -> bool:
    """Equality that takes NaN for NaN."""
    return repr(first) == repr(second)


@pytest.mark.parametrize("name", EXAMPLES)
def test_round_trip_and_schema(name: str) -> None:
    manifest = EXAMPLES[name]()
    text = manifest.to_text()
    again = Manifest.from_text(text)
    assert same(again, manifest)
    assert again.to_text() == text
    assert text.endswith("}\n")
    root = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    jsonschema.Draft202012Validator.check_schema(sidecar.schema())
    jsonschema.validate(root, sidecar.schema(), cls=jsonschema.Draft202012Validator)
    assert Manifest.from_text(json.dumps(root).encode("utf-8-sig")).to_text() == text


def test_every_attribute_is_in_the_schema_and_the_other_way_round() -> None:
    schema = sidecar.schema()
    kinds: dict[str, type[Entry]] = {
        "grid": ManifestGrid,
        "class": ManifestClass,
        "statistics": BandStatistics,
        "band": ManifestBand,
        "patches": ManifestPatches,
        "split": ManifestSplit,
        "splits": ManifestSplits,
        "shard": ManifestShard,
        "file": ManifestFile,
        "source": ManifestSource,
        "keep": ManifestKeep,
        "sample": ManifestSample,
    }
    assert list(schema["properties"]) == list(keys_of(Manifest))
    for name, kind in kinds.items():
        assert list(schema["$defs"][name]["properties"]) == list(keys_of(kind)), name
    options = schema["$defs"]["formatOptions"]
    assert list(options["properties"]) == options["required"] == list(FormatOptions().to_mapping())


def test_keys_and_numbers_as_they_stand_in_the_text() -> None:
    root = json.loads(full().to_text())
    assert root["grid"]["crsCode"] == "EPSG:32633"
    assert root["grid"]["transform"] == [10.0, 0.0, 500000.0, 0.0, -10.0, 4600000.0]
    assert (root["grid"]["width"], root["grid"]["height"]) == (1024, 600)
    assert root["formatOptions"]["defaultValue"] == -1.5
    assert root["bands"][1]["nodata"] == "NaN"
    assert root["bands"][1]["statistics"]["min"] == "-Infinity"
    assert root["bands"][2]["statistics"] == {"validCount": 0}
    assert root["keptPatches"] == [[0, 2], [3, 3], [7, 1]]
    assert "splits" not in root and "split" not in root["shards"][0]
    assert '"max": 65535,' in full().to_text()  # integers stay integers, of any size
    assert camel("crc32c") == "crc32c" and camel("first_record") == "firstRecord"


def test_nan_as_default_value() -> None:
    text = small(format_options=FormatOptions(default_value=math.nan)).to_text()
    assert json.loads(text)["formatOptions"]["defaultValue"] == "NaN"
    jsonschema.validate(json.loads(text), sidecar.schema())
    assert math.isnan(Manifest.from_text(text).format_options.default_value)


def test_the_grid_comes_back() -> None:
    grid = Manifest.from_text(full().to_text()).grid
    assert grid is not None and grid.geobox() == GRID
    odd = GeoBox(
        (2, 3), Affine(0.1, 0.02, 1 / 3, 0, -0.1, 1e-7), "+proj=laea +lat_0=10 +lon_0=-81 +datum=WGS84"
    )
    entry = ManifestGrid.from_geobox(odd)
    assert entry.crs_code is None
    manifest = Manifest.from_text(small(grid=entry).to_text())
    assert manifest.grid is not None and manifest.grid.geobox() == odd
    with pytest.raises(JobError, match="no CRS"):
        ManifestGrid.from_geobox(GeoBox((2, 3), Affine.identity(), None))


def test_statistics_from_moments() -> None:
    found = BandStatistics.from_moments(measure(np.array([1.0, 2.0, 3.0, 4.0])))
    assert (found.valid_count, found.min, found.max, found.mean) == (4, 1.0, 4.0, 2.5)
    assert found.standard_deviation == pytest.approx(math.sqrt(1.25))
    assert BandStatistics.from_moments(EMPTY) == BandStatistics(valid_count=0)


def test_numpy_numbers_are_written() -> None:
    manifest = small(
        patches=ManifestPatches(planned=np.int64(3), written=np.int64(2), dropped=np.int64(1)),  # type: ignore[arg-type]
        kept_patches=tuple(map(tuple, to_ranges(np.array([0, 2])))),
        bands=(
            replace(
                small().bands[0],
                nodata=np.float32(0.5),  # type: ignore[arg-type]
                statistics=BandStatistics(valid_count=1, min=np.uint8(3), mean=np.float64(3)),  # type: ignore[arg-type]
            ),
        ),
    )
    again = Manifest.from_text(manifest.to_text())
    assert again.patches == ManifestPatches(planned=3, written=2, dropped=1)
    assert again.kept_patches == ((0, 1), (2, 1))
    statistics = again.bands[0].statistics
    assert statistics is not None and (statistics.min, statistics.mean) == (3, 3.0)


def test_what_is_no_json_is_refused_on_writing() -> None:
    with pytest.raises(TypeError, match=r"bands\[0\]\.nodata: a complex"):
        small(bands=(replace(small().bands[0], nodata=1j),)).to_text()  # type: ignore[arg-type]


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
    with pytest.raises(JobError, match=f"^m.json: version: .*{what}"):
        Manifest.from_text(json.dumps(root), "m.json")


@pytest.mark.parametrize("text", ["", "[]", "{}", "3", b"\xff\xfe", "[" * 100_000, '{"format": "else"}'])
def test_what_is_no_manifest_is_refused(text: str | bytes) -> None:
    with pytest.raises(JobError, match=r"^m\.json: "):
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
        assert str(caught.value).startswith(f"m: {message}")


def test_a_record_a_pixel() -> None:
    options = FormatOptions(sequence_data=True, patch_width_height=(4, 3))
    bands = (ManifestBand(name="ndvi", type="float32", wire_type="float", shape=(None,)),)
    manifest = small(format_options=options, bands=bands, shards=(shard(0, 20, 0), shard(1, 4, 20)))
    assert manifest.records_per_patch == 12
    assert Manifest.from_text(manifest.to_text()).bands[0].shape == (None,)
    jsonschema.validate(json.loads(manifest.to_text()), sidecar.schema())


def test_nothing_written() -> None:
    manifest = small(patches=ManifestPatches(planned=2, written=0, dropped=2), kept_patches=(), shards=())
    assert Manifest.from_text(manifest.to_text()).kept_patches == ()


@given(st.sets(st.integers(0, 200)))
def test_ranges(indices: set[int]) -> None:
    rising = np.array(sorted(indices), np.int64)
    ranges = to_ranges(rising)
    assert ranges.shape[1] == 2 and ranges.dtype == np.int64
    assert from_ranges(ranges).tolist() == rising.tolist()
    gaps = ranges[1:, 0] - ranges[:-1].sum(axis=1)
    assert (gaps > 0).all() and (ranges[:, 1] > 0).all()
    assert from_ranges([tuple(pair) for pair in ranges.tolist()]).tolist() == rising.tolist()


def test_ranges_must_rise() -> None:
    with pytest.raises(ValueError, match="index 3 follows 3"):
        to_ranges(np.array([1, 3, 3]))


floats = st.one_of(st.none(), st.floats(), st.integers(-(2**70), 2**70))


@given(floats, floats, st.none() | st.floats(), st.integers(0, 2**63))
def test_any_statistics_survive(low: Any, high: Any, mean: float | None, count: int) -> None:
    statistics = BandStatistics(valid_count=count, min=low, max=high, mean=mean)
    manifest = small(bands=(replace(small().bands[0], statistics=statistics),))
    text = manifest.to_text()
    assert same(Manifest.from_text(text), manifest)
    jsonschema.validate(json.loads(text), sidecar.schema())
