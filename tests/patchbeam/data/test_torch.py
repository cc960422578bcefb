"""torch's own DataLoader over databases: worker processes, forked and started afresh, kept and not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_sets import Written, write_export

from patchbeam.data import DataProvider, Epochs, Modality, PatchDatabase

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_CACHE", str(tmp_path / "cache"))


def loader(written: Written, **options: Any) -> Any:
    modalities = {"image": ["B1", "B2"], "label": Modality(bands=("B3",), dtype="int64", squeeze=True)}
    database = PatchDatabase(written.prefix, modalities=modalities)
    return torch.utils.data.DataLoader(database, batch_size=5, num_workers=2, **options)


def check(batches: list[Any], written: Written) -> None:
    images, labels = (torch.cat([batch[at] for batch in batches]).numpy() for at in (0, 1))
    assert [len(batch[0]) for batch in batches] == [5, 5, 2]
    assert images.dtype == np.float32 and (images == written.pixels[:, :2]).all()
    assert labels.dtype == np.int64 and (labels == written.pixels[:, 2]).all()


@pytest.mark.parametrize("gzip", [None, "indexed", "zlib6"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_two_workers_give_every_patch_once_and_in_order(tmp_path: Path, start: str, gzip: str | None) -> None:
    written = write_export(tmp_path, gzip=gzip)
    batches = loader(written, multiprocessing_context=start, persistent_workers=True)
    for _ in range(2):  # the same workers again
        check(list(batches), written)


def test_a_database_that_was_read_before_the_workers_fork(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer")
    batches = loader(written, multiprocessing_context="fork")
    _ = batches.dataset.load_batch([0, 1, 2]), batches.dataset[7]
    check(list(batches), written)
    check(list(batches), written)


def test_shuffled_by_torch_every_patch_comes_once(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6", sidecar="mixer")
    batches = loader(written, shuffle=True, multiprocessing_context="fork")
    orders = []
    for _ in range(2):
        images = torch.cat([images for images, _ in batches]).numpy()
        orders.append([int((written.pixels[:, :2] == image).all((1, 2, 3)).argmax()) for image in images])
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(12)) and orders[0] != orders[1]


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_damage_in_a_worker_names_file_record_and_byte(tmp_path: Path, start: str) -> None:
    written = write_export(tmp_path)
    stored = bytearray(written.files[1].read_bytes())
    size = len(stored) // 5
    stored[2 * size + 60] ^= 1
    written.files[1].write_bytes(stored)
    batches = iter(loader(written, multiprocessing_context=start))
    assert (next(batches)[0].numpy() == written.pixels[:5, :2]).all()
    with pytest.raises(Exception, match=r"CorruptRecord") as caught:
        next(batches)
    said = str(caught.value)
    assert str(written.files[1]) in said and f"record 2, byte {2 * size}" in said and "item 7" in said


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_compose_whole_batches(tmp_path: Path, start: str) -> None:
    """The batches of an epoch are a dataset too: a worker composes each as this library does."""
    written = write_export(tmp_path, gzip="zlib6")
    epoch = Epochs(PatchDatabase(written.prefix), 4, seed=3)[2]
    batches = torch.utils.data.DataLoader(epoch, None, num_workers=2, multiprocessing_context=start)
    found = [batch[0].numpy() for batch in batches]
    assert len(found) == 3 and all((a == b[0]).all() for a, b in zip(found, epoch, strict=True))


def test_batches_become_tensors_without_a_copy_and_are_nobody_elses(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    provider = DataProvider(PatchDatabase(written.prefix), 6)
    first, second = (torch.from_numpy(provider[0][0]) for _ in range(2))
    first.zero_()
    assert (second.numpy() == written.pixels[:6]).all()
