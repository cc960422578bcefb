"""Patches to arrays, a model, arrays to a map: inside one pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
import rasterio
from apache_beam.options.pipeline_options import PipelineOptions
from eager import export, plan_of, write_tif
from maps import import_plan

from patchbeam import storage
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.plan import read_sidecar
from pipelines.beam_options import LOCAL_RUNNER
from transforms.patches import ReadPatches
from transforms.predictions import PredictionsToTiles

VALUES = np.random.default_rng(0).integers(0, 1000, (2, 100, 140)).astype(np.uint16)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tif(tmp_path / "in.tif", VALUES, names=("red", "nir"))
    export(export_plan(tmp_path))
    return tmp_path


def export_plan(folder: Path) -> Any:
    options = {"patchDimensions": [20, 16], "kernelSize": [6, 6]}
    return plan_of(
        {"sources": "in.tif", "formatOptions": options, "edge": "pad", "output": "e/scene"}, folder
    )


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(options=PipelineOptions(["--runner", LOCAL_RUNNER]))


def model(element: tuple[int, dict[str, np.ndarray]]) -> tuple[int, dict[str, np.ndarray]]:
    patch, bands = element
    total = bands["red"].astype(np.float32) + bands["nir"].astype(np.float32)
    return patch, {"sum": total, "pair": np.stack([bands["red"], bands["nir"]]).astype(np.int32)}


@pytest.mark.parametrize("source", ["sources", "records"])
def test_a_model_stands_between(folder: Path, source: str) -> None:
    plan = export_plan(folder)
    if source == "records":
        plan = import_plan({"records": "e/scene", "output": "tmp/x"}, folder)
    layout, _ = read_sidecar(str(folder / "e" / "scene-manifest.json"))
    with pipeline() as p:
        made = p | ReadPatches(plan, threads=2) | beam.Map(model)
        made | PredictionsToTiles(layout, str(folder / "map" / "m"), ImportOptions(tile_size=256), threads=2)
    with rasterio.open(folder / "map" / "m.tif") as made_map:
        assert made_map.descriptions == ("pair_1", "pair_2", "sum")
        want = np.stack([VALUES[0], VALUES[1], VALUES.sum(axis=0)])
        np.testing.assert_array_equal(made_map.read(), want)
    assert not list((folder / "map").glob(".*"))


def test_cropped_predictions_in_any_order(folder: Path) -> None:
    layout, _ = read_sidecar(str(folder / "e" / "scene-mixer.json"))
    count = layout.patches.count
    with pipeline() as p:
        patches = p | beam.Create(np.random.default_rng(1).permutation(count).tolist())
        arrays = patches | beam.Map(lambda i: (i, np.full((16, 20), i, np.uint8)))
        arrays | PredictionsToTiles(layout, str(folder / "m"))
    with rasterio.open(folder / "m.tif") as made:
        assert made.dtypes == ("uint8",) and made.descriptions == ("prediction",)
        assert made.read(1)[::16, ::20].ravel().tolist() == list(range(count))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([0, 1, 2, 2], "1 patches came twice: 2"),
        ([0, 1, 3], "46 of 49 patches are missing: 2, 4, 5"),
        ([0, 400], r"patch 400 is not in 0\.\.48"),
    ],
)
def test_what_does_not_add_up_makes_no_map(folder: Path, given: list[int], text: str) -> None:
    layout, _ = read_sidecar(str(folder / "e" / "scene-mixer.json"))
    tiles = PredictionsToTiles(layout, str(folder / "m"))
    with pytest.raises(Exception, match=text), pipeline() as p:
        p | beam.Create(given) | beam.Map(lambda i: (i, np.zeros((16, 20), np.uint8))) | tiles
    assert not list(folder.glob("m*"))
    storage.delete_tree(tiles.temporary_folder)


def test_patches_may_be_missing_when_asked_for(folder: Path) -> None:
    layout, _ = read_sidecar(str(folder / "e" / "scene-mixer.json"))
    options = ImportOptions(nodata=255)
    with pipeline() as p:
        arrays = p | beam.Create([3, 4, 9]) | beam.Map(lambda i: (i, np.full((16, 20), i, np.uint8)))
        arrays | PredictionsToTiles(layout, str(folder / "m"), options, allow_missing=True)
    with rasterio.open(folder / "m.tif") as made:
        corners = made.read(1)[::16, ::20].ravel()
    assert {int(v): int(np.count_nonzero(corners == v)) for v in np.unique(corners)} == {
        3: 1,
        4: 1,
        9: 1,
        255: 46,
    }
