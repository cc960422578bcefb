"""Records decoded many at once are what the plain parser reads, whatever their headers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.parse import parse_example
from patchbeam.tables.importing.columns import to_arrow
from patchbeam.tables.importing.decode import decode_records
from patchbeam.tables.importing.infer import choose, look, merge

floats = st.lists(st.floats(width=32, allow_nan=False), max_size=4)
ints = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)
rows = st.fixed_dictionaries({}, optional={"f": floats, "g": floats, "i": ints, "t": st.text(max_size=5)})


def encode(row: dict[str, Any]) -> bytes:
    features, values = [], []
    for name, value in row.items():
        if isinstance(value, str):
            array: Any = np.frombuffer(value.encode(), np.uint8)
            features.append(Feature(name, "bytes", array.size))
        else:
            array = np.array(value, np.int64 if name == "i" else np.float32)
            features.append(Feature(name, "int64" if name == "i" else "float", array.size))
        values.append(array)
    return bytes(ExampleLayout(features).encode(values)[12:-4])


@given(st.lists(rows, min_size=1, max_size=40))
def test_decoding_agrees_with_the_parser(given_rows: list[dict[str, Any]]) -> None:
    datas = [encode(row) for row in given_rows]
    seen: dict[int, dict[str, Any]] = {}
    for part in decode_records(datas):
        for k, row in enumerate(part.rows.tolist()):
            assert row not in seen
            seen[row] = {
                name: values.texts[k] if values.numbers is None else values.numbers[k].tolist()
                for name, values in part.values.items()
            }
    assert sorted(seen) == list(range(len(datas)))
    for i, data in enumerate(datas):
        expected = parse_example(data)
        plain = {n: v if isinstance(v, list) else v.tolist() for n, v in expected.items() if v is not None}
        assert seen[i] == plain and list(seen[i]) == list(plain)


@given(st.lists(rows, min_size=1, max_size=30), st.integers(0, 30))
def test_what_batches_hold_together_does_not_depend_on_the_cut(
    given_rows: list[dict[str, Any]], cut: int
) -> None:
    datas = [encode(row) for row in given_rows]
    whole = look(decode_records(datas), 0, len(datas))
    parts = [look(decode_records(p), at, len(p)) for at, p in ((0, datas[:cut]), (cut, datas[cut:])) if p]
    both = merge(parts)
    assert dict(both.columns) == dict(whole.columns) and both.records == whole.records
    columns = choose(both, columns=sorted(both.columns), binary=False, integers=True)
    batch = to_arrow(columns, decode_records(datas), len(datas))
    for column in columns:
        found = batch.column(column.name).to_pylist()
        for row, value in zip(given_rows, found, strict=True):
            given_value = row.get(column.name)
            if isinstance(given_value, str):
                assert value == given_value
            elif given_value is None:
                assert value is None
            elif column.many:
                assert value == given_value
            else:
                assert value == (given_value[0] if given_value else None)


def test_types_as_arrow() -> None:
    datas = [encode({"f": [1.0, 2.5], "t": "é"}), encode({"t": ""})]
    found = look(decode_records(datas), 0, 2)
    columns = choose(found, columns=None, binary=["t"], integers=True)
    batch = to_arrow(columns, decode_records(datas), 2)
    assert batch.schema.types == [pa.list_(pa.float32()), pa.binary()]
    assert batch.to_pydict() == {"f": [[1.0, 2.5], None], "t": ["é".encode(), b""]}
