"""Export, predict over the unshuffled provider, import: the map is the model applied to the raster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
import yaml

from patchbeam.data import DataProvider, Loader, PatchDatabase, write_predictions
from patchbeam.scene import write_scene
from pipelines.cli import main


def model(pixels: np.ndarray) -> np.ndarray:
    """Of ``(…, channel, row, col)``: a mean of 3 × 3 pixels of the first band's share; 2 pixels are lost."""
    share = pixels[..., 0, :, :] / np.maximum(pixels.sum(axis=-3), 1)
    rows = share[..., :-2, :] + share[..., 1:-1, :] + share[..., 2:, :]
    return (rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]) / np.float32(9)


def run(tmp_path: Path, name: str, job: dict) -> None:
    path = tmp_path / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job))
    assert main([name, str(path)]) in (0, None)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_predict_loop_gives_the_map_of_the_model(tmp_path: Path, compressed: bool) -> None:
    scene = str(tmp_path / "scene.tif")
    write_scene(scene, width=200, height=140, seed=3, class_map=False, block_size=64)
    run(
        tmp_path,
        "export-image",
        {
            "job": "export-image",
            "sources": {"s2": {"path": scene}},
            "formatOptions": {
                "patchDimensions": [32, 32],
                "kernelSize": [3, 3],
                "maxFileSize": 200_000,
                "compressed": compressed,
            },
            "output": str(tmp_path / "out"),
        },
    )
    database = PatchDatabase(tmp_path / "out")
    assert len(database) == 24 and len(database.records.shards) > 1
    provider = DataProvider(database, 7)
    predictions = (model(images)[:, None] for (images,) in Loader(provider, threads=2))
    assert write_predictions(tmp_path / "predicted-00000.tfrecord.gz", predictions, "share") == 24
    run(
        tmp_path,
        "import-image",
        {
            "job": "import-image",
            "records": str(tmp_path / "predicted-*.tfrecord.gz"),
            "manifest": str(tmp_path / "out-manifest.json"),
            "output": str(tmp_path / "map"),
        },
    )
    with rasterio.open(scene) as source, rasterio.open(tmp_path / "map.tif") as made:
        pixels = np.pad(source.read().astype(np.float32), ((0, 0), (1, 1), (1, 1)))
        assert (made.width, made.height, made.transform) == (192, 128, source.transform)
        assert (made.read(1) == model(pixels)[:128, :192]).all()
        assert made.descriptions == ("share",)
