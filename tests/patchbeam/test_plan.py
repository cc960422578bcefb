"""The plan says what is then written; its fingerprint knows all that decides a byte."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import export, plan_of, write_tif
from option_scene import JOB, Reference, job_of, write_scene
from pyproj import CRS

from patchbeam.errors import GridError, JobError
from patchbeam.plan import ExportPlan
from patchbeam.rasters.burn import Burn, stand_in
from patchbeam.rasters.quality import Quality


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    write_scene(folder)
    return folder


def options(job: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**job, "formatOptions": {**job["formatOptions"], **more}}


CHANGES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "patchDimensions": lambda job: options(job, patchDimensions=[3, 3]),
    "kernelSize": lambda job: options(job, kernelSize=3),
    "compressed": lambda job: options(job, compressed=False),
    "maxFileSize": lambda job: options(job, maxFileSize=5000),
    "defaultValue": lambda job: options(job, defaultValue=1),
    "tensorDepths": lambda job: options(job, tensorDepths={"s": 2, "k": 2}),
    "sequenceData": lambda job: options(job, sequenceData=True),
    "collapseBands": lambda job: options(job, collapseBands=True),
    "maskedThreshold": lambda job: options(job, maskedThreshold=0.5),
    "numbers": lambda job: {**job, "numbers": "native"},
    "maskBand": lambda job: {**job, "maskBand": "ok"},
    "edge": lambda job: {**job, "edge": "pad"},
    "gzip": lambda job: {**job, "gzip": "zlib6"},
    "naming": lambda job: {**job, "naming": "gcs"},
    "strict": lambda job: {**job, "strict": True},
    "output": lambda job: {**job, "output": "out/y"},
    "blockBytes": lambda job: {**job, "blockBytes": 1 << 16},
    "clip": lambda job: {**job, "grid": job_of("clip")["grid"]},
    "region": lambda job: {**job, "grid": {"region": [500_000, 5_299_930, 500_090, 5_300_000]}},
    "band order": lambda job: {**job, "bands": job["bands"][::-1]},
    "band name": lambda job: {**job, "bands": [{**job["bands"][0], "name": "z"}, *job["bands"][1:]]},
    "band type": lambda job: {**job, "bands": [{**job["bands"][0], "type": "int32"}, *job["bands"][1:]]},
    "band number": lambda job: {**job, "bands": [*job["bands"][:4], {**job["bands"][4], "band": [3, 2]}]},
    "resampling": lambda job: {
        **job,
        "bands": [{**job["bands"][0], "resampling": "mode"}, *job["bands"][1:]],
    },
    "nodata": lambda job: source(job, "a", nodata=7),
    "compose": lambda job: source(job, "a", compose="last"),
    "unscale": lambda job: source(job, "a", unscale=True),
    "maskedObservations": lambda job: source(job, "s", maskedObservations="fill"),
}


def source(job: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    given = job["sources"][name]
    return {
        **job,
        "sources": {
            **job["sources"],
            name: {**(given if isinstance(given, dict) else {"path": given}), **more},
        },
    }


@pytest.mark.parametrize("change", CHANGES)
def test_the_fingerprint_changes_with_what_decides_a_byte(scene: Path, change: str) -> None:
    job = {**JOB, "output": "out/x"}
    one = plan_of(job, scene).fingerprint
    assert one == plan_of(job, scene).fingerprint
    assert plan_of(CHANGES[change](job), scene).fingerprint != one


def test_the_fingerprint_knows_the_files(tmp_path: Path) -> None:
    path = write_tif(tmp_path / "image.tif", np.ones((4, 4), "u1"))
    job = {"sources": "image.tif", "output": "out/x", "formatOptions": {"patchDimensions": 2}}
    one = plan_of(job, tmp_path).fingerprint
    os.utime(path, (1, 1))
    assert plan_of(job, tmp_path).fingerprint != one


def test_the_fingerprint_knows_all_that_is_said_of_a_source(tmp_path: Path) -> None:
    write_tif(tmp_path / "image.tif", np.ones((2, 4, 4), "u1"))
    job = {"sources": "image.tif", "output": "out/x", "formatOptions": {"patchDimensions": 2}}
    plan = plan_of(job, tmp_path)
    (source,) = plan.sources
    (file,) = source.files

    def of(**changes: Any) -> str:
        return replace(plan, sources=(replace(source, **changes),)).fingerprint

    def quality(keep: int) -> Quality:
        return Quality(band="B2", files=source.files, index=2, keep=(keep,))

    found = [
        plan.fingerprint,
        of(quality=quality(1)),
        of(quality=quality(2)),
        of(files=(replace(file, crs_wkt=CRS("EPSG:3857").to_wkt()),)),
        of(files=(replace(file, nodata=(5.0, None)),)),
        of(vector=Burn(path="fields.gpkg", attribute="crop")),
        of(vector=Burn(path="fields.gpkg", attribute="crop", all_touched=True)),
    ]
    assert len(set(found)) == len(found)
    assert of() == plan.fingerprint


def test_the_fingerprint_knows_the_vector_file(tmp_path: Path) -> None:
    path = tmp_path / "fields.gpkg"
    path.write_bytes(b"1")
    burn = Burn(path=str(path), crs_wkt=CRS("EPSG:4326").to_wkt())
    before = stand_in(burn, "x")
    path.write_bytes(b"22")
    assert before.size_bytes == 1 and stand_in(burn, "x") != before


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("kernelSize", "edge"),
        ("collapseBands",),
        ("sequenceData",),
        ("sequenceData", "collapseBands"),
        ("gzip",),
    ],
    ids=" and ".join,
)
def test_fixed_sizes_are_exact(scene: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    job = {**job_of(*names), "output": str(tmp_path / "x")}
    size = plan_of(job, scene).record_size
    assert size[0] == size[1]
    job["formatOptions"] = {**job["formatOptions"], "maxFileSize": 3 * size[0] + 1}
    plan = plan_of(job, scene)
    manifest = export(plan)
    assert plan.bounds.exact
    assert plan.records_per_shard == 3
    assert plan.bounds.shards == (len(manifest.shards),) * 2
    assert plan.bounds.records == (sum(s.records for s in manifest.shards),) * 2
    assert plan.bounds.total_bytes == (sum(s.uncompressed_bytes for s in manifest.shards),) * 2
    assert {s.records for s in manifest.shards[:-1]} == {3}


@pytest.mark.parametrize(
    "names",
    [
        ("numbers",),
        ("own lengths",),
        ("own lengths", "collapseBands", "numbers"),
        ("numbers", "maskedThreshold"),
    ],
    ids=" and ".join,
)
def test_varying_sizes_are_within_bounds(scene: Path, tmp_path: Path, names: tuple[str, ...]) -> None:
    plan = plan_of({**job_of(*names), "output": str(tmp_path / "x")}, scene)
    manifest = export(plan)
    assert not plan.bounds.exact
    assert plan.records_per_shard is None
    low, high = plan.bounds.total_bytes
    assert low <= sum(s.uncompressed_bytes for s in manifest.shards) <= high
    assert low < high


@pytest.mark.parametrize(("value", "reached"), [(0, 0), (-1, 1), (255, 1)])
def test_bounds_of_native_numbers_are_reached(tmp_path: Path, value: int, reached: int) -> None:
    write_tif(tmp_path / "image.tif", np.full((4, 4), value, "i2"))
    job = {"sources": "image.tif", "output": "out/x", "numbers": "native"}
    plan = plan_of({**job, "formatOptions": {"patchDimensions": 4}}, tmp_path)
    (shard,) = export(plan).shards
    low, high = plan.record_size
    if value == 255:
        assert low < shard.uncompressed_bytes < high
    else:
        assert shard.uncompressed_bytes == (low, high)[reached]


def test_a_limit_below_one_record(scene: Path) -> None:
    job = options(JOB, maxFileSize=1000)
    size = plan_of({**job, "formatOptions": JOB["formatOptions"], "output": "x"}, scene).record_size[0]
    at = options(JOB, maxFileSize=size)
    assert plan_of({**at, "output": "x"}, scene).records_per_shard == 1
    with pytest.raises(JobError, match=f"maxFileSize: {size - 1} bytes .* takes \\({size} bytes\\)"):
        plan_of({**options(JOB, maxFileSize=size - 1), "output": "x"}, scene)


def test_a_grid_smaller_than_a_patch_names_pad(scene: Path) -> None:
    job = {**options(JOB, patchDimensions=64), "output": "x"}
    with pytest.raises(GridError, match="edge: pad"):
        plan_of(job, scene)
    assert plan_of({**job, "edge": "pad"}, scene).patches.count == 1


def test_the_plan_is_json(scene: Path) -> None:
    plan = plan_of({**job_of("own lengths", "maskBand"), "output": "x"}, scene)
    told = json.loads(json.dumps(plan.to_json(), allow_nan=False))
    assert told["features"][2] == {"name": "s", "kind": "float", "shape": [-1]}
    assert told["bands"][4]["band"] == [3, 1]
    assert [band["array"] for band in told["bands"]] == [False, False, True, False, True]


def test_manifest_statistics_against_numpy(scene: Path, tmp_path: Path) -> None:
    job = {**job_of("kernelSize", "edge", "numbers"), "output": str(tmp_path / "x"), "blockBytes": 1 << 16}
    plan: ExportPlan = plan_of(job, scene)
    manifest = export(plan)
    reference = Reference(scene, job)
    for band in manifest.bands:
        values = []
        for row in range(9):
            for col in range(11):
                pixel = [v for v in reference.pixel(band.name, row, col) if v is not None]
                values += [v for v in pixel if np.isfinite(v)]
        found = band.statistics
        assert found is not None
        if band.name == "c":  # holds an infinity, which is a value
            assert (found.valid_count, found.min) == (len(values) + 1, -np.inf)
            continue
        numbers = np.array(values, np.float64)
        assert (found.valid_count, found.min, found.max) == (numbers.size, numbers.min(), numbers.max())
        assert found.mean == pytest.approx(numbers.mean())
        assert found.standard_deviation == pytest.approx(numbers.std())


def test_a_block_is_as_small_as_its_padded_arrays_ask(tmp_path: Path) -> None:
    names = [f"d_202401{day:02d}.tif" for day in (1, 2)]
    for name in names:
        write_tif(tmp_path / name, np.ones((64, 64), "u2"))
    job = {
        "sources": {"s": {"path": "d_*.tif", "series": True, "time": "d_%Y%m%d"}},
        "output": "out/x",
        "blockBytes": 1 << 16,
        "formatOptions": {"patchDimensions": 16, "tensorDepths": {"B1": 100}},
    }
    plan = plan_of(job, tmp_path)
    assert plan.pixel_bytes == 2 * 100
    window = plan.blocks.window(0)
    assert window.width * window.height * plan.pixel_bytes <= 1 << 16
