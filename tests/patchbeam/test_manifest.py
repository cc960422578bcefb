from __future__ import annotations

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
from manifests import GRID, full, shard, small, with_splits
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
