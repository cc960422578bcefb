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
from patchbeam.errors import LockHeld
from patchbeam.lock import OutputLock
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


def test_the_same_bytes_as_a_local_import(bucket: str, tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(9, 17))
    image = np.random.default_rng(1).integers(0, 9, (272, 288)).astype(np.float32)
    write_patches(
        tmp_path,
        layout.patches.count,
        lambda i: {"p": cut(image, layout.patches, i, margin=False)},
        files=3,
        gzip="indexed",
        stem="scene",
    )
    (tmp_path / "scene-mixer.json").write_text(mixer(9, 17).to_text())
    folder = f"{bucket}/same"
    for path in tmp_path.iterdir():
        storage.write_atomic(f"{folder}/{path.name}", path.read_bytes())
    settings = ["tileSize=256", "type=uint8", "nodata=255"]
    for place in (str(tmp_path), folder):
        run_import(load_import(f"{place}/scene", settings, f"{place}/map/m"), workers=2)
    names = [path.name for path in (tmp_path / "map").iterdir()]
    assert sorted(names) == [storage.split(name)[1] for name in storage.list_names(f"{folder}/map/")]
    tiles = [name for name in names if name.endswith(".tif")]
    assert len(tiles) == 4
    for name in [*tiles, "m.vrt"]:
        assert storage.read_bytes(f"{folder}/map/{name}") == (tmp_path / "map" / name).read_bytes()


def test_one_import_at_a_time(bucket: str, tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(9, 17))
    image = np.zeros((272, 288), np.float32)
    count = layout.patches.count
    write_patches(tmp_path, count, lambda i: {"p": cut(image, layout.patches, i, margin=False)}, stem="scene")
    (tmp_path / "scene-mixer.json").write_text(mixer(9, 17).to_text())
    for output in (str(tmp_path / "map" / "m"), f"{bucket}/one/m"):
        plan = load_import(str(tmp_path / "scene"), [], output)
        with OutputLock(output, take_over=False), pytest.raises(LockHeld, match="another run"):
            run_import(plan, workers=1, resume=True)
        assert run_import(plan, workers=1)["patchesPlaced"] == count
        assert not storage.exists(OutputLock(output, take_over=False).ticket.path)
