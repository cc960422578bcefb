"""Real exported files, decoded and written again byte for byte."""

import gzip
import io

import pytest
from shared import shared_data

from patchbeam.records.example import ExampleDecoder, ExampleLayout, feature_kinds, parse_example
from patchbeam.records.tfrecord import read_records, write_records
from patchbeam.records.zlib6 import Zlib6Writer


@pytest.mark.parametrize(
    ("name", "records", "features", "length"),
    [("image_2021.tfrecord.gz", 1, 8, 65536), ("training.tfrecord.gz", 8316, 9, 1)],
)
def test_a_real_file_comes_back_byte_for_byte(tmp_path, name, records, features, length):
    folder = shared_data()
    path = folder and folder / "earth-engine" / name
    if path is None or not path.exists():
        pytest.skip("no real files on this machine")
    stored = path.read_bytes()
    datas = [bytes(data) for data in read_records(path)]
    assert len(datas) == records
    layout = ExampleLayout(feature_kinds(datas[0]))
    assert [f.length for f in layout.features] == [length] * features
    decoder = ExampleDecoder()
    target = io.BytesIO()
    writer = Zlib6Writer(target)
    for data in datas:
        values = decoder.decode(data)
        assert list(values) == list(parse_example(data))
        record = layout.encode(list(values.values()))
        assert record[12:-4] == data
        writer.write(record)
    writer.close()
    assert target.getvalue() == stored
    indexed = tmp_path / name
    write_records(indexed, datas, "indexed")
    assert gzip.decompress(indexed.read_bytes()) == gzip.decompress(stored)
    assert [bytes(data) for data in read_records(indexed)] == datas
