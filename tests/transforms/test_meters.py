"""What Beam counts of a run: reads, bytes, warps, retries, masked patches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.metrics.metric import MetricsFilter
from eager import plan_of, write_tif

from patchbeam import counts, retry
from patchbeam.errors import ReadFailed
from patchbeam.plan import ExportPlan
from patchbeam.rasters.reader import ImageReader
from pipelines.beam_options import LOCAL_RUNNER
from pipelines.export_image import build
from pipelines.resolve_import import load_import
from transforms.import_image import RecordsToTiles
from transforms.meters import NAMESPACE


def measured(wire: Callable[[beam.Pipeline], object]) -> dict[str, Any]:
    """Runs a pipeline; returns its counters, and its distributions as (count, sum, least, greatest)."""
    for name in ("reads", "warps"):
        counts.take(name)
    retry.take_count()
    counts.begin()
    pipeline = beam.Pipeline(LOCAL_RUNNER)
    wire(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
    numbers: dict[str, Any] = {}
    for one in found["counters"]:
        name = one.key.metric.name
        numbers[name] = numbers.get(name, 0) + one.committed
    for one in found["distributions"]:
        data = one.committed.data if hasattr(one.committed, "data") else one.committed
        numbers[one.key.metric.name] = (data.count, data.sum, data.min, data.max)
    return numbers


def exported(plan: ExportPlan) -> dict[str, Any]:
    return measured(lambda pipeline: build(pipeline, plan, threads=2, overwrite=False))


@pytest.fixture()
def scene(tmp_path: Path) -> Iterator[Path]:
    values = np.random.default_rng(1).integers(1, 4000, (2, 64, 96)).astype(np.uint16)
    values[:, :3, :5] = 0  # in the first patch
    values[:, 32:, 64:] = 0  # the whole of the last one
    write_tif(tmp_path / "scene.tif", values, names=["red", "nir"], nodata=0)
    yield tmp_path


def plan(folder: Path, **job: Any) -> ExportPlan:
    options = {"patchDimensions": [32, 32], "compressed": False, **job.pop("formatOptions", {})}
    return plan_of({"sources": "scene.tif", "formatOptions": options, "output": "out/scene", **job}, folder)


def test_counters_of_an_export(scene: Path) -> None:
    wanted = replace(plan(scene, formatOptions={"maskedThreshold": 0.9}), block_bytes=32 * 96 * 4)
    assert wanted.blocks.count == 3
    found = exported(wanted)
    pixels, record = 64 * 96 * 2 * 2, wanted.record_size[0]
    assert found["blocks_read"] == 3
    assert found["reads"] >= 3
    assert found["warps"] == found["retries"] == 0
    assert found["bytes_read"] == pixels
    assert found["block_bytes"] == (3, pixels, pixels // 3, pixels // 3)
    assert found["block_read_ms"][0] == 3
    assert found["patches_masked"] == 2
    assert found["block_patches_masked"] == (3, 2, 0, 1)
    assert found["patches_dropped"] == 1
    assert found["records_encoded"] == 5
    assert found["bytes_encoded"] == found["bytes_stored"] == found["patches_done_bytes"] == 5 * record
    assert found["run_bytes"] == (6, 5 * record, 0, record)
    assert found["piece_bytes"] == (6, 5 * record, 0, record)
    assert found["patches_done"] == 6
    assert found["shards_done"] == 1
    assert counts.progress() == {
        "patches": counts.Done(6, 5 * record),
        "shards": counts.Done(1, 5 * record),
    }


def test_warps_are_counted(scene: Path) -> None:
    for resampling in ("nearest", "bilinear", "cubic"):
        job = {"bands": [{"source": "image", "band": 1, "resampling": resampling}]}
        found = exported(plan(scene, grid={"scale": 13}, output=f"out/{resampling}", **job))
        assert found["warps"] >= 1, resampling
        assert found["reads"] >= 1, resampling


def test_retries_are_counted(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, failures = ImageReader.read, [1, 1]

    def flaky(self: ImageReader, *arguments: Any) -> Any:
        if failures:
            failures.pop()
            failure = ReadFailed("the share was away")
            failure.errno = 5
            raise failure
        return original(self, *arguments)

    monkeypatch.setattr(ImageReader, "read", flaky)
    monkeypatch.setattr(retry, "sleep", lambda _: None)
    assert exported(plan(scene))["retries"] == 2


def test_pixels_beyond_the_grid_are_masked(tmp_path: Path) -> None:
    write_tif(tmp_path / "scene.tif", np.ones((1, 70, 40), np.uint8))
    found = exported(plan(tmp_path, edge="pad"))
    assert found["patches_done"] == 6
    assert found["patches_masked"] == 4


def test_counters_of_an_import(scene: Path) -> None:
    exported(plan(scene))
    wanted = load_import(str(scene / "out" / "scene"), ["tileSize=256"], str(scene / "out" / "map"))
    found = measured(lambda pipeline: pipeline | RecordsToTiles(wanted))
    assert found["records_indexed"] == found["patches_placed"] == 6
    assert found["files_done"] == 1
    assert found["tiles_made"] == found["tiles_done"] == 1
    assert found["tile_bytes"][:2] == (1, found["bytes_stored"])
    assert found["tiles_done_bytes"] == 64 * 96 * 2 * 2


def test_advancing_costs_little() -> None:
    import time

    best = min(timed(time.perf_counter) for _ in range(5))
    assert best < 20e-6  # a fraction of a microsecond a patch in a run of many; generous on a busy machine


def timed(clock: Callable[[], float]) -> float:
    begun = clock()
    for _ in range(1000):
        counts.advance("test", 64, 1 << 20)
    return (clock() - begun) / 1000
