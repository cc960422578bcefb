"""What is sent to workers is small, whatever the size of the job; every block is dealt out once."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import rasterio
from affine import Affine
from apache_beam.internal import pickler
from apache_beam.testing.util import assert_that, equal_to
from eager import plan_of, write_tif

from patchbeam.blocks import BlockGrid
from patchbeam.patches import PatchGrid
from patchbeam.plan import ExportPlan
from pipelines.beam_options import LOCAL_RUNNER, beam_options
from pipelines.export_image import build
from transforms.blocks import CreateReadBlocks


def huge(path: Path, side: int) -> Path:
    """A raster of side × side pixels that takes no room: its tiles are not written."""
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=side,
        height=side,
        count=4,
        dtype="uint16",
        crs="EPSG:32633",
        transform=Affine(10, 0, 0, 0, -10, 9_000_000),
        tiled=True,
        blockxsize=4096,
        blockysize=4096,
        SPARSE_OK=True,
        BIGTIFF="YES",
    ):
        pass
    return path


def typical(folder: Path) -> Mapping[str, Any]:
    """Three sources, ten bands, a region: what a real job has."""
    write_tif(folder / "s2.tif", np.ones((8, 100, 100), "u2"), names=[f"B{i}" for i in range(1, 9)])
    write_tif(
        folder / "dem.tif", np.ones((30, 30), "f4"), transform=Affine(40, 0, 499_900, 0, -40, 5_300_100)
    )
    write_tif(folder / "classes.tif", np.ones((100, 100), "u1"))
    ring = [[500_500 + 400 * np.cos(t), 5_299_500 + 400 * np.sin(t)] for t in np.linspace(0, 2 * np.pi, 200)]
    ring[-1] = ring[0]
    region = {"type": "Polygon", "coordinates": [[[float(x), float(y)] for x, y in ring]]}
    return {
        "sources": {
            "s2": "s2.tif",
            "dem": {"path": "dem.tif", "resampling": "bilinear"},
            "classes": "classes.tif",
        },
        "grid": {"region": region, "regionCrs": "EPSG:32633", "clip": True},
        "maskBand": "valid",
        "formatOptions": {"patchDimensions": 16, "kernelSize": 8},
        "output": str(folder / "out" / "scene"),
    }


def message(plan: ExportPlan) -> bytes:
    """The whole job as a runner is given it."""
    options, threads = beam_options(["--runner", LOCAL_RUNNER])
    pipeline = beam.Pipeline(options=options)
    build(pipeline, plan, threads=threads, overwrite=False)
    return bytes(pipeline.to_runner_api().SerializeToString())


def test_the_plan_of_a_typical_job_is_small(tmp_path: Path) -> None:
    plan = plan_of(typical(tmp_path), tmp_path)
    for dumps in (pickle.dumps, pickler.dumps):
        assert len(dumps(plan)) < 100_000
    assert len(message(plan)) < 1_000_000


def test_the_plan_is_the_same_on_the_other_side(tmp_path: Path) -> None:
    plan = plan_of(typical(tmp_path), tmp_path)
    assert plan.blocks.count  # what has been worked out already may travel or not
    there = pickle.loads(pickle.dumps(plan))
    assert there.fingerprint == plan.fingerprint
    assert there.to_json() == plan.to_json()
    assert there.record_size == plan.record_size and there.blocks == plan.blocks


def test_ten_million_patches_make_no_larger_a_job(tmp_path: Path) -> None:
    output = {"output": str(tmp_path / "out" / "scene"), "formatOptions": {"patchDimensions": 64}}
    few = plan_of({"sources": str(huge(tmp_path / "few.tif", 4096)), **output}, tmp_path)
    many = plan_of({"sources": str(huge(tmp_path / "many.tif", 204_800)), **output}, tmp_path)
    assert (few.patches.count, many.patches.count) == (4096, 10_240_000)
    assert many.blocks.count > 4000
    assert abs(len(pickle.dumps(many)) - len(pickle.dumps(few))) < 1000
    # the ranges of block numbers are bounded, and all that grows
    assert len(message(many)) < len(message(few)) + 64_000


def blocks_of(columns: int, rows: int, columns_rows: tuple[int, int]) -> BlockGrid:
    patches = PatchGrid(
        width=columns, height=rows, patch_width_height=(1, 1), kernel_width_height=(1, 1), edge="drop"
    )
    return BlockGrid(patches=patches, columns_rows=columns_rows, run_patches=4)


@pytest.mark.parametrize(
    ("columns", "rows", "columns_rows"),
    [(1, 1, (1, 1)), (7, 5, (2, 3)), (100, 10, (1, 1)), (1001, 1, (1, 1)), (77, 53, (1, 1)), (5, 5, (9, 9))],
)
def test_every_block_once(tmp_path: Path, columns: int, rows: int, columns_rows: tuple[int, int]) -> None:
    write_tif(tmp_path / "a.tif", np.ones((4, 4), "u1"))
    plan = plan_of({"sources": "a.tif", "output": "x", "formatOptions": {"patchDimensions": 1}}, tmp_path)
    grid = blocks_of(columns, rows, columns_rows)
    plan.__dict__["blocks"] = grid
    options, _ = beam_options(["--runner", LOCAL_RUNNER])
    with beam.Pipeline(options=options) as pipeline:
        blocks = list(range(grid.count))
        assert_that(pipeline | "One" >> CreateReadBlocks(plan), equal_to([(b,) for b in blocks]), "EqualOne")
        numbers = pipeline | "Many" >> CreateReadBlocks(plan, threads=2) | beam.FlatMap(list)
        assert_that(numbers, equal_to(blocks), "EqualMany")
    # and every patch is in one run of one block
    patches = [
        p for b in range(grid.count) for run in grid.runs(b) for p in range(run.first, run.first + run.count)
    ]
    assert sorted(patches) == list(range(columns * rows))
