"""Records in Cloud Storage to a map in Cloud Storage, in every form of file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import rasterio
from maps import cut, mixer, write_patches
from storage_emulator import emulated_bucket

from patchbeam import storage
from patchbeam.mosaic.layout import MapLayout
from pipelines.import_image import run_import
from pipelines.resolve_import import load_import


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with emulated_bucket() as url:
        yield url


@pytest.mark.parametrize("gzip", [None, "indexed", "zlib6"])
def test_a_map_from_bucket_to_bucket(bucket: str, tmp_path: Path, gzip: str | None) -> None:
    layout = MapLayout.from_mixer(mixer(9, 17))
    image = np.random.default_rng(0).normal(size=(272, 288)).astype(np.float32)
    folder = f"{bucket}/{gzip}"
    files = write_patches(
        tmp_path,
        layout.patches.count,
        lambda i: {"p": cut(image, layout.patches, i, margin=False)},
        files=2,
        gzip=gzip,
        stem="scene",
    )
    for name in files:
        storage.concat([name], f"{folder}/{Path(name).name}")
    storage.write_atomic(f"{folder}/scene-mixer.json", mixer(9, 17).to_text().encode())
    plan = load_import(f"{folder}/scene", ["tileSize=256"], f"{folder}/map/m")
    report = run_import(plan, workers=2)
    assert report["patchesPlaced"] == layout.patches.count
    names = [storage.split(name)[1] for name in storage.list_names(f"{folder}/map/")]
    tiles = [f"m-{y:010d}-{x:010d}" for y in (0, 256) for x in (0, 256)]
    want = [
        "m-collection.json",
        "m-import.json",
        "m.vrt",
        *(f"{t}{s}" for t in tiles for s in (".tif", ".stac.json")),
    ]
    assert names == sorted(want)
    assert not storage.list_names(f"{plan.temporary_folder}/")
    # fetched first: GDAL would wait for an emulator that runs in this process
    for name in storage.list_names(f"{folder}/map/m"):
        (tmp_path / storage.split(name)[1]).write_bytes(storage.read_bytes(name))
    with rasterio.open(tmp_path / "m.vrt") as made:
        np.testing.assert_array_equal(made.read(1), image)
