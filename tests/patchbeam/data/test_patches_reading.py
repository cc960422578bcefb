"""What is read of patches and when: laziness, damage, pickles, memory."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shared import ROOT, shared_data
from training_sets import write_export

from patchbeam.data import DataError, DataProvider, Epochs, Loader, Modality, PatchDatabase
from patchbeam.errors import CorruptRecord, CountMismatch, JobError
from patchbeam.records.tfrecord import read_records, write_records


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_CACHE", str(tmp_path / "cache"))


def test_nothing_is_read_before_a_batch_with_a_manifest(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    hidden = [file.rename(file.with_suffix(".hidden")) for file in written.files]
    database = PatchDatabase(written.prefix)
    batches = Epochs(database, 4, seed=1)[1000]
    assert len(database) == 12 and len(batches) == 3 and len(batches.indices(0)) == 4
    for file, name in zip(hidden, written.files, strict=True):
        file.rename(name)
    assert (batches[0][0] == written.pixels[batches.indices(0)]).all()
    # only the shard that holds the item is opened
    single = PatchDatabase(written.prefix)
    _ = single[7]
    assert [opened is not None for opened in single.records._open] == [False, True, False]


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    with pytest.raises(JobError, match=r"no band 'b1' .*did you mean 'B1'"):
        PatchDatabase(written.prefix, modalities={"image": ["b1"]})
    with pytest.raises(JobError, match=r"modalities.image: no bands"):
        PatchDatabase(written.prefix, modalities={"image": []})
    with pytest.raises(JobError, match=r"squeeze: 2 channels"):
        PatchDatabase(written.prefix, modalities={"x": Modality(bands=("B1", "B2"), squeeze=True)})
    with pytest.raises(JobError, match=r"'flot32' is no NumPy type"):
        PatchDatabase(written.prefix, modalities={"x": Modality(bands=("B1",), dtype="flot32")})
    with pytest.raises(JobError, match=r"1 means and 1 deviations for 3 channels"):
        PatchDatabase(written.prefix, normalize=([1], [1]))
    with pytest.raises(JobError, match=r"must be above 0"):
        PatchDatabase(written.prefix, normalize=([1] * 3, [0] * 3))
    with pytest.raises(JobError, match=r"no record files with this prefix"):
        PatchDatabase(str(tmp_path / "nothing"))
    with pytest.raises(JobError, match=r"has no splits"):
        PatchDatabase(written.prefix, split="train")
    with pytest.raises(JobError, match=r"leave them out"):
        PatchDatabase(written.prefix, kernel_size=3)
    narrow = PatchDatabase(written.prefix, modalities={"x": Modality(bands=("B1",), dtype="uint8")})
    with pytest.raises(DataError, match=r"record 0, feature 'B1': np.float32\(\d+.0\) is no uint8"):
        _ = narrow[0]
    mixed = write_export(tmp_path / "mixer", sidecar="mixer")
    with pytest.raises(JobError, match=r"no statistics of B1, B2, B3 \(only a manifest"):
        PatchDatabase(mixed.prefix, normalize=True)
    mixed.files[2].unlink()
    with pytest.raises(
        CountMismatch, match=r"10 records \(.*00000.tfrecord: 5, .*\), but the mixer says 12 patches"
    ):
        PatchDatabase(mixed.prefix)


def test_damage_is_an_error_at_its_batch_with_file_record_and_byte(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    file = written.files[1]
    stored = bytearray(file.read_bytes())
    size = len(stored) // 5
    stored[2 * size + 300] ^= 1
    file.write_bytes(stored)
    database = PatchDatabase(written.prefix)
    loader = Loader(DataProvider(database, 3), threads=2)
    got = []
    with pytest.raises(CorruptRecord) as caught:
        for batch in loader:
            got.append(batch)
    error = caught.value
    assert (error.file, error.record, error.byte) == (str(file), 2, 2 * size) and len(got) == 2
    assert "item 7 (patch 7)" in error.__notes__[0]
    file.write_bytes(stored[: 4 * size])
    with pytest.raises(
        CountMismatch, match=rf"00001.tfrecord: has {4 * size} bytes, its manifest says {5 * size}"
    ):
        _ = PatchDatabase(written.prefix)[7]


def test_a_record_unlike_the_others_is_named(tmp_path: Path) -> None:
    one, other = write_export(tmp_path / "a"), write_export(tmp_path / "b", bands=["B1", "B2", "X"])
    datas = [list(read_records(file)) for file in one.files]
    datas[1][3] = next(iter(read_records(other.files[0])))
    write_records(one.files[1], datas[1])
    database = PatchDatabase(one.prefix, modalities={"image": ["B1", "B3"]})
    assert len(database) == 12
    with (
        pytest.raises(CountMismatch, match=r"bytes, its manifest says")
        if one.files[1].stat().st_size != one.manifest.shards[1].stored_bytes
        else pytest.raises(DataError, match=r"record 3: no feature 'B3'; it has B1, B2, X")
    ):
        _ = database[8]


def test_pickles_to_a_process_that_starts_afresh(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6")
    database = PatchDatabase(written.prefix)
    _ = database[0]
    (tmp_path / "it").write_bytes(pickle.dumps(Epochs(database, 4, seed=1)))
    program = f"import pickle; print(pickle.load(open({str(tmp_path / 'it')!r}, 'rb'))[3][1][0].sum())"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(run.stdout) == Epochs(database, 4, seed=1)[3][1][0].sum()


def test_one_stream_gzip_is_inflated_once_and_kept(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6")
    _ = PatchDatabase(written.prefix)[0]
    copies = sorted((tmp_path / "cache" / "inflated").glob("*.tfrecord"))
    assert len(copies) == 1
    before = copies[0].stat().st_mtime_ns
    again = PatchDatabase(written.prefix)
    assert (again[0][0] == written.pixels[0]).all() and copies[0].stat().st_mtime_ns == before
    assert (again[11][0] == written.pixels[11]).all()
    assert len(list((tmp_path / "cache" / "inflated").glob("*.tfrecord"))) == 2
    assert list((tmp_path / "cache" / "inflated").glob("part-*")) == []


def test_real_records_of_earth_engine_train_from_their_mixer_alone() -> None:
    folder = shared_data()
    if folder is None or not (folder / "earth-engine" / "image_2021.tfrecord.gz").exists():
        pytest.skip("no real files here")
    database = PatchDatabase(folder / "earth-engine" / "image_2021")
    assert len(database) == 1 and database.mixer is not None
    assert database.specs["image"].shape == (8, 256, 256) and database.specs["image"].dtype == "float32"
    assert database.place is not None and database.place.margin_width_height == (0, 0)
    (batch,) = next(iter(DataProvider(database, 32)))
    assert batch.shape == (1, 8, 256, 256) and np.isfinite(batch).all()
    from patchbeam.records.example import parse_example

    data = next(iter(read_records(folder / "earth-engine" / "image_2021.tfrecord.gz")))
    for at, values in enumerate(parse_example(data).values()):
        assert (batch[0, at].reshape(-1) == values).all()


def test_memory_stays_bounded_over_a_set_larger_than_may_be_taken(tmp_path: Path) -> None:
    written = write_export(tmp_path, patch=(256, 256), columns_rows=(8, 16), bands=["B1", "B2"], per_shard=40)
    total = sum(file.stat().st_size for file in written.files)
    limit = 48 << 20
    assert total > 60 << 20
    program = f"""
import resource, json
from patchbeam.data import Epochs, Loader, PatchDatabase
loader = Loader(Epochs(PatchDatabase({written.prefix!r}), 8, seed=1).prefix(2), threads=1)
have = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (have + {limit}, have + {limit}))
print(json.dumps([sum(len(b[0]) for b in loader)]))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [256]
