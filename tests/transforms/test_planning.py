"""Planning 10 million patches of 10,000 sources: under half a minute, and a job message under a megabyte."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import rasterio
import yaml
from affine import Affine
from apache_beam import Pipeline

from patchbeam.export import temporary_folder
from patchbeam.leftovers import note_plan
from patchbeam.staged import stage_catalogues
from pipelines.beam_options import LOCAL_RUNNER, beam_options
from pipelines.export_image import build
from pipelines.plan_text import plan_text
from pipelines.resolve import load_plan

SCENES = 10_000
ACROSS = 100
SIDE = 2048
"""Pixels of a scene: 100 × 100 of them make a map of 204,800 × 204,800."""
LEFT, TOP = 100_000, 9_000_000
PATCHES = 10_240_000
MOST_S = 30.0
MOST_BYTES = 1_000_000


def transform(number: int) -> Affine:
    row, col = divmod(number, ACROSS)
    return Affine(10, 0, LEFT + 10 * SIDE * col, 0, -10, TOP - 10 * SIDE * row)


def item(number: int) -> dict[str, Any]:
    told = {
        "proj:epsg": 32633,
        "proj:shape": [SIDE, SIDE],
        "proj:transform": list(transform(number))[:6],
        "raster:bands": [{"data_type": "uint16", "nodata": 0}],
    }
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "id": f"S2A_{number:05d}_20240615",
        "geometry": None,
        "properties": {"datetime": f"2024-06-{1 + number % 28:02d}T10:00:00Z", "eo:cloud_cover": number % 90},
        "links": [],
        "assets": {name: {"href": f"data/{number:05d}/{name}.tif", **told} for name in ("B04", "B08", "SCL")},
    }


def catalogue(folder: Path) -> dict[str, Any]:
    document = {"type": "FeatureCollection", "features": [item(n) for n in range(SCENES)]}
    (folder / "scenes.json").write_text(json.dumps(document))
    return {"path": "scenes.json", "assets": ["B04", "B08"], "mask": {"band": "SCL", "keep": [4, 5]}}


def tile_index(folder: Path) -> dict[str, Any]:
    """Files that are there, each of one tile that has not been written."""
    features = []
    for number in range(SCENES):
        with rasterio.open(
            folder / f"{number}.tif", "w", driver="GTiff", width=SIDE, height=SIDE, count=1, dtype="uint16",
            crs="EPSG:32633", transform=transform(number), tiled=True, blockxsize=SIDE, blockysize=SIDE,
            SPARSE_OK=True,
        ):  # fmt: skip
            features.append(
                {"type": "Feature", "properties": {"location": f"{number}.tif"}, "geometry": None}
            )
    (folder / "index.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return {"path": "index.geojson"}


def message(plan: Any) -> bytes:
    options, threads = beam_options(["--runner", LOCAL_RUNNER])
    pipeline = Pipeline(options=options)
    build(pipeline, plan, threads=threads, overwrite=False)
    return bytes(pipeline.to_runner_api().SerializeToString())


JOBS: dict[str, dict[str, Any]] = {
    "composite": {},
    "split": {"split": {"train": 0.8, "validation": 0.1, "test": 0.1, "seed": 1}},
    "drawn": {"sample": {"patches": 100_000, "seed": 1}},
    "clipped": {"clip": True},
}


def planned(folder: Path, source: dict[str, Any], **more: Any) -> tuple[float, int, int]:
    """Seconds, patches and bytes of the message, from the job file to what a runner is given."""
    right, bottom = LEFT + 10 * SIDE * ACROSS, TOP - 10 * SIDE * ACROSS
    corners = [[LEFT, TOP], [right, TOP], [right, bottom], [LEFT, bottom], [LEFT, TOP]]
    clip = more.pop("clip", False)
    region: Any = {"type": "Polygon", "coordinates": [corners]} if clip else [LEFT, bottom, right, TOP]
    job = {
        "job": "export-image",
        "sources": {"s2": source},
        "grid": {"crs": "EPSG:32633", "scale": 10, "region": region, "regionCrs": "EPSG:32633", "clip": clip},
        "formatOptions": {"patchDimensions": 64},
        "output": "out/scene",
        **more,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    begin = time.process_time()
    plan = load_plan(str(path))
    assert plan_text(plan)
    note_plan(plan)
    data = message(stage_catalogues(plan, temporary_folder(plan)))
    return time.process_time() - begin, plan.patches.count, len(data)


@pytest.mark.parametrize("kind", ["composite", "split"])
def test_a_catalogue(tmp_path: Path, kind: str) -> None:
    seconds, patches, size = planned(tmp_path, catalogue(tmp_path), **JOBS[kind])
    assert patches == PATCHES
    assert seconds < MOST_S and size < MOST_BYTES, (seconds, size)


@pytest.mark.long
@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.parametrize("source", [catalogue, tile_index], ids=["catalogue", "tile_index"])
def test_every_kind_of_plan(tmp_path: Path, kind: str, source: Any) -> None:
    seconds, patches, size = planned(tmp_path, source(tmp_path), **JOBS[kind])
    assert patches == PATCHES
    assert seconds < MOST_S and size < MOST_BYTES, (seconds, size)
