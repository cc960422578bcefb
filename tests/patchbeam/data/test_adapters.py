"""Other frameworks, the real ones: TensorFlow, torch, grain; and an import without any of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shared import ROOT
from training_sets import Numbers, write_export

from patchbeam.data import DataProvider, Epochs, Loader, Modality, PatchDatabase, as_tf, feature_spec
from patchbeam.records.tfrecord import read_records

HEAVY = (
    "apache_beam",
    "rasterio",
    "osgeo",
    "odc",
    "pyproj",
    "shapely",
    "tensorflow",
    "torch",
    "grain",
    "PIL",
)


def test_import_is_fast_and_brings_in_nothing_heavy() -> None:
    program = (
        "import sys, time, json, numpy; start = time.process_time(); import patchbeam.data;"
        f"print(json.dumps([time.process_time() - start, sorted(set({HEAVY!r}) & set(sys.modules)),"
        "'google.cloud.storage' in sys.modules]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    seconds, heavy, store = json.loads(run.stdout)
    assert heavy == [] and not store
    assert seconds < 1.0  # about 0.2 on a quiet machine


def test_a_manifest_is_read_and_a_batch_composed_without_anything_heavy(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="indexed")
    program = (
        "import sys; from patchbeam.data import *;"
        f"d = PatchDatabase({written.prefix!r}, normalize=True); b = Epochs(d, 4, seed=1)[0][0];"
        "block_split(d, {'a': 0.5, 'b': 0.5}, 1, block=(1, 1)); d.transform(3);"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("kinds", [["float"] * 3, ["bytes", "int64", "float"]])
@pytest.mark.parametrize("sidecar", ["manifest", "mixer"])
def test_feature_spec_parses_the_export(tmp_path: Path, kinds: list[str], sidecar: str) -> None:
    tf = pytest.importorskip("tensorflow")
    written = write_export(tmp_path, kinds=kinds, sidecar=sidecar, kernel=(3, 3))
    database = PatchDatabase(written.prefix)
    spec = feature_spec(database)
    assert list(spec) == ["B1", "B2", "B3"]
    data = next(iter(read_records(written.files[0])))
    parsed = tf.io.parse_single_example(bytes(data), spec)
    for channel, (band, kind) in enumerate(zip(("B1", "B2", "B3"), kinds, strict=True)):
        value = parsed[band]
        if kind == "bytes":
            value = tf.reshape(tf.io.decode_raw(value, tf.uint8), (10, 10))
        assert (value.numpy() == written.pixels[0, channel]).all()


def test_as_tf_gives_items_batches_and_endless_epochs(tmp_path: Path) -> None:
    tf = pytest.importorskip("tensorflow")
    written = write_export(tmp_path)
    database = PatchDatabase(
        written.prefix,
        modalities={"x": ["B1", "B2"], "y": Modality(bands=("B3",), dtype="int32", squeeze=True)},
    )
    items = as_tf(database)
    assert [spec.shape.as_list() for spec in items.element_spec] == [[2, 8, 8], [8, 8]]
    assert items.element_spec[1].dtype == tf.int32 and len(list(items)) == 12
    batches = as_tf(DataProvider(database, 5, layout="NHWC"))
    assert [spec.shape.as_list() for spec in batches.element_spec] == [[None, 8, 8, 2], [None, 8, 8]]
    got = list(batches.as_numpy_iterator())
    assert [len(x) for x, _ in got] == [5, 5, 2]
    assert (np.concatenate([y for _, y in got]) == written.pixels[:, 2]).all()
    epochs = Epochs(database, 4, seed=2)
    endless = [x for x, _ in as_tf(epochs).take(7).as_numpy_iterator()]
    assert all((a == b[0]).all() for a, b in zip(endless, (b for e in epochs for b in e), strict=False))
    loader = Loader(epochs, threads=2)
    assert all(
        (a == b).all() for a, (b, _) in zip(endless, as_tf(loader).take(3).as_numpy_iterator(), strict=False)
    )


def test_a_database_is_a_source_of_grain() -> None:
    grain = pytest.importorskip("grain")
    database = Numbers(20)
    dataset = grain.MapDataset.source(database).shuffle(seed=1).batch(5)
    seen = [int(n) for at in range(len(dataset)) for n in dataset[at][1]]
    assert sorted(seen) == list(range(20)) and dataset[0][0].shape == (5, 2, 3, 3)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_database_is_a_dataset_of_torch(tmp_path: Path, workers: int) -> None:
    torch = pytest.importorskip("torch")
    written = write_export(tmp_path, gzip="zlib6")
    loader = torch.utils.data.DataLoader(
        PatchDatabase(written.prefix, cache=tmp_path / "cache"), batch_size=5, num_workers=workers
    )
    batches = [batch[0] for batch in loader]
    assert (torch.cat(batches).numpy() == written.pixels).all()


def test_worker_processes_read_what_torch_workers_would(tmp_path: Path) -> None:
    """What torch's DataLoader does with ``spawn``: the database is pickled, workers take index lists."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    written = write_export(tmp_path, gzip="zlib6")
    database = PatchDatabase(written.prefix, cache=tmp_path / "cache")
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(database.load_batch, [[0, 5, 11], [3, 4]]))
    assert (found[0][0] == written.pixels[[0, 5, 11]]).all() and (found[1][0] == written.pixels[[3, 4]]).all()
