"""Tables and pixel sequences as items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared import shared_data
from training_sets import AFFINE

from patchbeam.data import (
    DataError,
    DataProvider,
    EmptyDatabase,
    Epochs,
    PadCollate,
    PatchDatabase,
    SequenceDatabase,
    TableDatabase,
    split,
)
from patchbeam.errors import CorruptRecord, JobError
from patchbeam.mixer import Mixer
from patchbeam.records.layout import ExampleLayout, Feature
from patchbeam.records.tfrecord import write_records


def example(**values: object) -> bytes:
    features, arrays = [], []
    for name, value in values.items():
        if isinstance(value, str | bytes):
            raw = value.encode() if isinstance(value, str) else value
            features.append(Feature(name, "bytes", len(raw)))
            arrays.append(np.frombuffer(raw, np.uint8))
        else:
            numbers = np.atleast_1d(np.asarray(value))
            kind = "int64" if numbers.dtype.kind == "i" else "float"
            features.append(Feature(name, kind, numbers.size))
            arrays.append(numbers.astype("<i8" if kind == "int64" else "<f4"))
    return bytes(ExampleLayout(features).encode(arrays))[12:-4]


@pytest.fixture
def table(tmp_path: Path) -> str:
    rows = [
        example(B2=0.1 * i, B3=float(i), spectrum=[i, i + 0.5], name=f"p{i}", landcover=i % 3)
        for i in range(10)
    ]
    write_records(tmp_path / "points.tfrecord.gz", rows, "zlib6")
    return str(tmp_path / "points")


def test_columns_are_modalities_until_told_otherwise(table: str) -> None:
    database = TableDatabase(table)
    assert database.modalities == ("B2", "B3", "spectrum", "name", "landcover") == database.columns
    b2, b3, spectrum, name, landcover = database[4]
    assert (b2.shape, b3, spectrum.tolist(), name, landcover) == ((), 4.0, [4.0, 4.5], "p4", 1)
    assert b2.dtype == np.float32 and landcover.dtype == np.int64
    batch = DataProvider(database, 4)[2]
    assert batch[2].shape == (2, 2) and batch[3] == ["p8", "p9"] and batch[4].tolist() == [2, 0]


def test_columns_become_vectors_and_types(table: str) -> None:
    database = TableDatabase(
        table, modalities={"x": ["B3", "spectrum"], "y": "landcover"}, dtypes={"y": "int32", "x": "float64"}
    )
    x, y = DataProvider(database, 10)[0]
    assert x.dtype == np.float64 and x.tolist() == [[i, i, i + 0.5] for i in range(10)]
    assert y.dtype == np.int32 and y.tolist() == [i % 3 for i in range(10)]
    parts = split(database, {"train": 0.7, "test": 0.3}, 1, stratify=y.tolist())
    assert [len(part) for part in parts.values()] == [7, 3]


def test_missing_values_are_told_or_replaced(tmp_path: Path) -> None:
    write_records(tmp_path / "t.tfrecord.gz", [example(a=1.0, b=2.0), example(a=3.0)], "indexed")
    database = TableDatabase(tmp_path / "t")
    assert database[0][1] == 2
    with pytest.raises(DataError, match=r"t.tfrecord.gz, record 1: no value in column 'b'.*missing="):
        _ = database[1]
    assert np.isnan(TableDatabase(tmp_path / "t", missing=np.nan)[1][1])
    later = TableDatabase(tmp_path / "t.tfrecord.gz", modalities={"only": ["a", "zone"]}, missing=-1)
    assert later[1][0].tolist() == [3, -1]


def test_what_is_not_there_is_refused(table: str, tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"no 'landcove' in .*did you mean 'landcover'"):
        TableDatabase(table, modalities={"y": "landcove"})
    with pytest.raises(JobError, match=r"dtypes: no modality 'z'"):
        TableDatabase(table, modalities={"y": "B2"}, dtypes={"z": "int32"})
    with pytest.raises(DataError, match=r"column 'name': text cannot be part of a vector"):
        _ = TableDatabase(table, modalities={"x": ["B2", "name"]})[0]
    with pytest.raises(DataError, match=r"record 1, modality 'B2': .* is no int32"):
        _ = TableDatabase(table, modalities={"B2": "B2"}, dtypes={"B2": "int32"})[1]
    write_records(tmp_path / "none.tfrecord.gz", [], "zlib6")
    with pytest.raises(EmptyDatabase):
        TableDatabase(tmp_path / "none")
    (tmp_path / "bad.tfrecord.gz").write_bytes(b"not a record file at all")
    with pytest.raises(CorruptRecord, match=r"bad.tfrecord.gz, record 0, byte 0"):
        TableDatabase(tmp_path / "bad")


def test_a_real_table_of_earth_engine() -> None:
    folder = shared_data()
    if folder is None or not (folder / "earth-engine" / "training.tfrecord.gz").exists():
        pytest.skip("no real files here")
    path = folder / "earth-engine" / "training.tfrecord.gz"
    database = TableDatabase(path)
    assert len(database) > 1 and len(database.columns) == 9
    *bands, label = database.columns
    typed = TableDatabase(path, modalities={"x": bands, "y": label}, dtypes={"y": "int64"})
    x, y = Epochs(typed, 8, seed=1)[0][0]
    assert x.shape == (8, 8) and np.isfinite(x).all() and y.dtype == np.int64


def pixels(lengths: list[int]) -> list[bytes]:
    tf = pytest.importorskip("tensorflow")
    found = []
    for i, length in enumerate(lengths):
        record = tf.train.SequenceExample()
        for name, value in (("elevation", float(i)), ("slope", i / 2)):
            record.context.feature[name].float_list.value.append(value)
        for name in ("ndvi", "evi"):
            for step in range(length):
                record.feature_lists.feature_list[name].feature.add().float_list.value.append(step + i * 10)
        found.append(record.SerializeToString())
    return found


def test_pixels_with_equal_sequences(tmp_path: Path) -> None:
    write_records(tmp_path / "s-00000.tfrecord", pixels([3] * 24))
    mixer = Mixer(
        crs="EPSG:4326", affine=AFFINE, patch_width_height=(3, 2), patches_per_row=2, total_patches=4
    )
    (tmp_path / "s-mixer.json").write_text(mixer.to_text())
    database = SequenceDatabase(
        tmp_path / "s", modalities={"context": ["slope", "elevation"], "sequence": ["ndvi", "evi"]}
    )
    context, sequence = DataProvider(database, 24)[0]
    assert context.tolist() == [[i / 2, i] for i in range(24)]
    assert sequence.shape == (24, 3, 2) and sequence[5, :, 0].tolist() == [50, 51, 52]
    assert database.position(17) == (2, 1, 2) and database.key(0) == (0, 0, 0)
    alone = SequenceDatabase(tmp_path / "s", modalities={"ndvi": "ndvi", "slope": "slope"})
    assert alone[2][0].tolist() == [20, 21, 22] and alone[2][1] == 1.0 and alone[2][1].shape == ()
    assert set(SequenceDatabase(tmp_path / "s").modalities) == {"context", "sequence"}
    with pytest.raises(JobError, match=r"cannot be one array"):
        SequenceDatabase(tmp_path / "s", modalities={"x": ["ndvi", "slope"]})
    with pytest.raises(JobError, match=r"did you mean 'ndvi'"):
        SequenceDatabase(tmp_path / "s", modalities={"x": "ndvl"})


def test_pixels_with_sequences_of_their_own_length_are_padded(tmp_path: Path) -> None:
    write_records(tmp_path / "s.tfrecord.gz", pixels([2, 0, 5]), "indexed")
    database = SequenceDatabase(tmp_path / "s.tfrecord.gz", modalities={"ndvi": "ndvi"})
    provider = DataProvider(database, 3, collate=PadCollate(value=-9, lengths=True))
    values, lengths = provider[0]
    assert values.tolist() == [[0, 1, -9, -9, -9], [-9] * 5, [20, 21, 22, 23, 24]]
    assert lengths.tolist() == [[2], [0], [5]]
    assert database.key(1) == 1
    with pytest.raises(DataError, match=r"give mixer="):
        database.position(1)


def test_image_patches_and_sequences_are_not_mixed_up(tmp_path: Path) -> None:
    write_records(tmp_path / "s-00000.tfrecord", [example(B1=np.zeros(6, np.float32))] * 4)
    with pytest.raises(JobError, match=r"no SequenceExample of one pixel; .* PatchDatabase"):
        SequenceDatabase(tmp_path / "s")
    mixer = Mixer(
        crs="EPSG:4326", affine=AFFINE, patch_width_height=(3, 2), patches_per_row=2, total_patches=4
    )
    (tmp_path / "s-mixer.json").write_text(mixer.to_text())
    assert PatchDatabase(tmp_path / "s")[0][0].shape == (1, 2, 3)
