"""Tables as TensorFlow sees them, by the spec that Earth Engine's guide types; and a real table export."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
from shared import shared_data
from table_jobs import export_table, import_table, points, write_vector

from patchbeam.records.parse import parse_example
from patchbeam.records.tfrecord import read_records

NAMES = ["B2", "B3", "B4", "B5", "B6", "B7", "landcover"]


def test_the_guides_spec_parses_a_geopackage(tmp_path: Path) -> None:
    import tensorflow as tf

    random = np.random.default_rng(0)
    n = 300
    table = pa.table(
        {name: random.random(n) for name in NAMES[:-1]} | {"landcover": random.integers(0, 3, n)}
    )
    path = write_vector(tmp_path / "t.gpkg", table, points(random.random(n), random.random(n)), "GPKG")
    report = export_table(tmp_path, features="t.gpkg", selectors=NAMES)
    columns = [tf.io.FixedLenFeature(shape=[1], dtype=tf.float32) for _ in NAMES]
    spec = dict(zip(NAMES, columns, strict=True))
    records = tf.data.TFRecordDataset(list(report.files), compression_type="GZIP")
    parsed = list(records.map(lambda r: tf.io.parse_single_example(r, spec)).as_numpy_iterator())
    _, read = pyogrio.read_arrow(path, read_geometry=False)
    assert len(parsed) == n
    for name in NAMES:
        expected = read.column(name).to_numpy().astype(np.float32)
        assert np.array_equal(np.stack([row[name] for row in parsed])[:, 0], expected)


def test_arrays_and_texts_parse_with_their_shape(tmp_path: Path) -> None:
    import tensorflow as tf

    cubes = np.arange(4 * 6, dtype=np.float64).reshape(4, 2, 3)
    names = ["a", "é", "", "日本"]
    pq.write_table(pa.table({"cube": cubes.tolist(), "name": names}), tmp_path / "t.parquet")
    report = export_table(tmp_path, features="t.parquet")
    spec = {
        "cube": tf.io.FixedLenFeature([2, 3], tf.float32),
        "name": tf.io.FixedLenFeature([], tf.string),
        "system:index": tf.io.FixedLenFeature([], tf.string),
    }
    records = tf.data.TFRecordDataset(list(report.files), compression_type="GZIP")
    parsed = list(records.map(lambda r: tf.io.parse_single_example(r, spec)).as_numpy_iterator())
    assert np.array_equal([row["cube"] for row in parsed], cubes)
    assert [row["name"].decode() for row in parsed] == names
    assert [row["system:index"] for row in parsed] == [b"0", b"1", b"2", b"3"]


def real_table() -> Path:
    folder = shared_data()
    path = None if folder is None else folder / "earth-engine" / "training.tfrecord.gz"
    if path is None or not path.exists():
        pytest.skip("no real table export on this machine")
    return path


def test_a_real_table_comes_back_byte_for_byte(tmp_path: Path) -> None:
    path = real_table()
    first = parse_example(next(iter(read_records(path))))
    report = import_table(tmp_path, records=str(path), output="t.parquet")
    assert list(report.columns) == list(first)
    assert report.columns["class"] == "int64" and report.columns["nir_during"] == "float32"
    table = pq.read_table(tmp_path / "t.parquet")
    assert table.num_rows == report.records == sum(1 for _ in read_records(path))
    assert {name: table.column(name)[0].as_py() for name in first} == {
        n: float(v[0]) for n, v in first.items()
    }
    again = export_table(tmp_path, features="t.parquet", selectors=list(first), gzip="zlib6")
    stored = Path(again.files[0]).read_bytes()
    assert gzip.decompress(stored) == gzip.decompress(path.read_bytes())
    assert stored == path.read_bytes()
