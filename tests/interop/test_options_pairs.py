"""Every format option and every pair: TensorFlow reads what plain loops over the rasters say."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from eager import export, plan_of, shard_paths
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from option_scene import OPTIONS, Reference, job_of, write_scene

from patchbeam.errors import JobError
from patchbeam.inspect import common_spec, inspect_file
from patchbeam.manifest import Manifest, from_ranges
from patchbeam.plan import ExportPlan
from patchbeam.rasters.header import read_header
from patchbeam.records.tfrecord import read_records
from patchbeam.spec import feature_spec

REFUSED = {
    ("kernelSize", "sequenceData"): "no neighbourhood",
    ("kernelSize", "own lengths"): "no neighbourhood",
    ("compressed", "gzip"): "compressed: false",
}
"""Pairs that cannot go together, and a part of the reason given."""

SAME = {("tensorDepths", "own lengths"), ("sequenceData", "own lengths")}
"""Pairs that set one thing twice."""

PAIRS = [pair for pair in combinations(OPTIONS, 2) if pair not in SAME]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("options")
    write_scene(folder)
    with pytest.MonkeyPatch.context() as patch:
        # one scene, well over a hundred exports: headers are read once
        patch.setattr("patchbeam.rasters.source.read_header", cache(read_header))
        yield folder


def planned(scene: Path, names: tuple[str, ...], output: Path) -> tuple[ExportPlan, Reference]:
    job = {**job_of(*names), "output": str(output / "x")}
    if job["formatOptions"].get("maxFileSize") == "some":
        free = {**job["formatOptions"], "maxFileSize": 1 << 30}
        plan = plan_of({**job, "formatOptions": free}, scene)
        # two records and a half, or a patch and a half of pixels
        limit = plan.record_size[1] * max(5, 3 * plan.records_per_patch) // 2
        job["formatOptions"] = {**free, "maxFileSize": limit}
    return plan_of(job, scene), Reference(scene, job)


def by_tensorflow(plan: ExportPlan, manifest: Manifest) -> list[dict[str, np.ndarray]]:
    """Parses all shards with the printed spec."""
    program: dict = {}
    exec(feature_spec(manifest).to_python(), program)
    paths = [str(path) for path in shard_paths(plan, manifest)]
    if not paths:
        return []
    kind = "GZIP" if plan.options.compressed else ""
    return list(tf.data.TFRecordDataset(paths, kind).map(program["parse"]).as_numpy_iterator())


def check_shards(plan: ExportPlan, manifest: Manifest) -> None:
    """No shard is over the limit, and none but the last has room for the record that follows it."""
    sizes = [[len(record) + 16 for record in read_records(path)] for path in shard_paths(plan, manifest)]
    limit = plan.options.max_file_size_bytes
    assert [len(s) for s in sizes] == [shard.records for shard in manifest.shards]
    assert [sum(s) for s in sizes] == [shard.uncompressed_bytes for shard in manifest.shards]
    assert all(sum(s) <= limit for s in sizes)
    assert all(sum(s) + after[0] > limit for s, after in pairwise(sizes))
    low, high = plan.record_size
    assert all(low <= size <= high for s in sizes for size in s)
    assert plan.bounds.shards[0] <= len(sizes) <= plan.bounds.shards[1]


def check_export(scene: Path, names: tuple[str, ...], output: Path) -> None:
    plan, reference = planned(scene, names, output)
    manifest = export(plan)
    expected = reference.records()
    found = by_tensorflow(plan, manifest)
    assert len(found) == len(expected) == sum(shard.records for shard in manifest.shards)
    for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours.keys() == theirs.keys()
        for name, values in theirs.items():
            assert ours[name].dtype == values.dtype, name
            np.testing.assert_array_equal(ours[name], values, f"record {i}, {name}", strict=True)
    check_shards(plan, manifest)
    kept = [index for index, _ in reference.patches]
    if manifest.kept_patches is not None:
        assert from_ranges(manifest.kept_patches).tolist() == kept
    else:
        assert kept == list(range(plan.patches.count))
    threshold = reference.options["maskedThreshold"]
    mixers = {"x-mixer.json", "x.json", "xmixer.json"}.intersection(path.name for path in output.iterdir())
    assert len(mixers) == (threshold == 1)
    if found:
        looked = [inspect_file(str(path)) for path in shard_paths(plan, manifest)[:2]]
        assert common_spec(looked) == feature_spec(manifest)
        assert [f.name for f in looked[0].features] == [f.name for f in feature_spec(manifest).features]


@pytest.mark.parametrize("name", OPTIONS)
def test_one_option(scene: Path, tmp_path: Path, name: str) -> None:
    check_export(scene, (name,), tmp_path)


def test_no_option(scene: Path, tmp_path: Path) -> None:
    check_export(scene, (), tmp_path)


@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_options(scene: Path, tmp_path: Path, pair: tuple[str, str]) -> None:
    if pair in REFUSED:
        with pytest.raises(JobError, match=REFUSED[pair]):
            planned(scene, pair, tmp_path)
        return
    check_export(scene, pair, tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        ("sequenceData", "collapseBands", "numbers", "maskBand", "edge", "maxFileSize"),
        ("own lengths", "collapseBands", "numbers", "maskBand", "defaultValue", "maskedThreshold", "clip"),
        ("kernelSize", "collapseBands", "edge", "maskBand", "defaultValue", "tensorDepths", "maxFileSize"),
        ("kernelSize", "numbers", "maskedThreshold", "maskedObservations", "gzip", "maxFileSize", "clip"),
    ],
    ids=" and ".join,
)
def test_many_options(scene: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    check_export(scene, names, tmp_path)


@pytest.mark.long
@given(names=st.sets(st.sampled_from(sorted(OPTIONS)), min_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_options(scene: Path, tmp_path_factory: pytest.TempPathFactory, names: set[str]) -> None:
    pairs = list(combinations([name for name in OPTIONS if name in names], 2))
    assume(not any(pair in REFUSED or pair in SAME for pair in pairs))
    check_export(scene, tuple(name for name in OPTIONS if name in names), tmp_path_factory.mktemp("any"))
