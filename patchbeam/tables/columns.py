"""Properties to features: which list each type goes into, and whole Arrow columns to entries.

Numbers and booleans become a float list of one, numeric arrays a flattened float list, text and dates
(ISO 8601) a bytes list; a null is absent (section "Tables" of the format contract).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from patchbeam.errors import EncodeError, JobError
from patchbeam.records.layout import field
from patchbeam.records.scatter import Pieces, SizeClasses
from patchbeam.records.wire import Bytes, Ints
from patchbeam.rounding import rounded_by_float32
from patchbeam.tables.entries import Entries, RaggedEntries, Rows, ScalarEntries, put_ragged

ColumnKind = Literal["number", "numbers", "text", "texts", "json"]
"""One number, a list of numbers, one text, a list of texts, JSON text that may hold nested lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A property of a table.

    Attributes:
        name: of the property and its feature.
        kind: how its values are held.
        type: Arrow's name of its type, for messages.
    """

    name: str
    kind: ColumnKind
    type: str


def column_of(schema_field: pa.Field) -> Column | None:
    """Returns how a property is held, or ``None`` when no feature can hold its type."""
    kind = _kind(schema_field.type)
    return None if kind is None else Column(name=schema_field.name, kind=kind, type=str(schema_field.type))


def _kind(of: pa.DataType) -> ColumnKind | None:
    types = pa.types
    if isinstance(of, pa.BaseExtensionType):
        return "json" if of.extension_name == "arrow.json" else _kind(of.storage_type)
    if types.is_dictionary(of):
        return _kind(of.value_type)
    if _is_number(of):
        return "number"
    if _is_text(of) or types.is_date(of) or types.is_time(of) or types.is_timestamp(of) or types.is_null(of):
        return "text"
    if _is_list(of):
        inner = of.value_type
        while _is_list(inner):
            inner = inner.value_type
        if _is_number(inner):
            return "numbers"
        return "texts" if _is_text(inner) and not _is_list(of.value_type) else None
    return None


def _is_number(of: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_boolean(of) or types.is_integer(of) or types.is_floating(of) or types.is_decimal(of))


def _is_text(of: pa.DataType) -> bool:
    types = pa.types
    text = types.is_string(of) or types.is_large_string(of) or types.is_string_view(of)
    return bool(text or types.is_binary(of) or types.is_large_binary(of) or types.is_fixed_size_binary(of))


def _is_list(of: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of))


def column_entries(column: Column, values: pa.Array, place: Callable[[int], str]) -> tuple[Entries, int]:
    """Returns the entries of one property for every row, and how many integers float32 has rounded.

    Args:
        column: the property.
        values: its values.
        place: names a row, for errors.

    Raises:
        EncodeError: a number overflows float32, or a list holds a null; names property and row.
    """
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if column.kind == "json":
        values = _from_json(column, values, place)
    rows = _present(values)

    def where(row: int) -> str:
        return f"property {column.name!r} of {place(row)}"

    if _is_list(values.type):
        starts, sizes, inner = _flat(values, where, rows)
        if _is_number(inner.type):
            numbers, rounded = _floats(inner, lambda i: where(int(np.searchsorted(starts, i, "right")) - 1))
            data = np.ascontiguousarray(numbers, "<f4").view(np.uint8)
            return RaggedEntries(column.name, "float", data, 4 * starts, 4 * sizes, rows), rounded
        data, ends = _encoded_texts(inner)
        first = ends[starts]
        length = ends[starts + sizes] - first
        return RaggedEntries(column.name, "bytes", data, first, length, rows, many=True), 0
    if _is_number(values.type):
        numbers, rounded = _floats(values, where)
        return ScalarEntries(column.name, numbers, rows), rounded
    data, starts, sizes = texts(as_text(values))
    return RaggedEntries(column.name, "bytes", data, starts, sizes, rows), 0


def _present(values: pa.Array) -> Rows:
    if not values.null_count:
        return None
    return np.flatnonzero(np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))).astype(np.int64)


def _floats(values: pa.Array, where: Callable[[int], str]) -> tuple[NDArray[np.float32], int]:
    """Returns numbers as float32; nulls become 0."""
    valid: NDArray[np.bool_] | None = None
    if values.null_count:
        valid = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
        if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
            values = pc.fill_null(values, pa.scalar(0, values.type))
        else:
            values = pc.fill_null(values, False if pa.types.is_boolean(values.type) else 0)
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    given: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        stored = given.astype(np.float32)
    if given.dtype == np.float64:
        lost = np.isinf(stored) & np.isfinite(given)
        if lost.any():
            row = int(lost.argmax())
            raise EncodeError(
                f"{where(row)}: {float(given[row])!r} is too large for float32 (3.4e38 at the most); scale "
                "it, "
                "or leave the property out with selectors"
            )
    rounded = rounded_by_float32(given, stored, valid) if given.dtype.kind in "iu" else 0
    return stored, rounded


def as_text(values: pa.Array) -> pa.Array:
    """Returns texts as they are; dates and times as ISO 8601, bytes as bytes."""
    of = values.type
    if pa.types.is_timestamp(of):
        plain = values.cast(pa.timestamp(of.unit))
        stamps: Any = plain.to_numpy(zero_copy_only=False).astype(f"datetime64[{of.unit}]")
        text = pa.array(np.datetime_as_string(stamps), pa.string())
        text = pc.replace_substring_regex(text, r"\.?0+$", "") if of.unit != "s" else text
        if of.tz is not None:
            text = pc.binary_join_element_wise(text, "Z", "")  # instants are held in UTC
        return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))
    if pa.types.is_time(of):
        return pc.replace_substring_regex(values.cast(pa.string()), r"\.0+$", "")
    return values if _is_text(of) else values.cast(pa.string())


def texts(values: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """Returns the bytes of texts, and each one's first byte and size; a null has none."""
    if pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    values = values.cast(pa.large_binary())
    _, offsets_buffer, data_buffer = values.buffers()
    if not len(values):
        return np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int64)
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return data, offsets[:-1], np.diff(offsets)


def _encoded_texts(values: pa.Array) -> tuple[Bytes, Ints]:
    """Returns texts as the values of a bytes list, and where each ends, from 0 on."""
    data, starts, sizes = texts(values)
    heads = SizeClasses(sizes, lambda size: field(1, size))
    pieces = Pieces(heads.lengths + sizes)
    heads.put(pieces)
    put_ragged(pieces, data, starts, sizes, None)
    return pieces.buffer, np.concatenate([[0], pieces.ends]).astype(np.int64)


def _flat(values: pa.Array, where: Callable[[int], str], rows: Rows) -> tuple[Ints, Ints, pa.Array]:
    """Returns first value and number of values of each row, and the values of all lists, nesting undone."""
    starts = np.arange(len(values), dtype=np.int64)
    ends = starts + 1
    if rows is not None:
        # what lies under a null list does not count
        ends = starts.copy()
        ends[rows] += 1
    first = True
    while _is_list(values.type):
        if not first:
            _refuse_nulls(values, starts, ends, where)
        if pa.types.is_fixed_size_list(values.type):
            values = values.cast(pa.large_list(values.type.value_type))
        offsets = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        starts, ends = offsets[starts], offsets[ends]
        values = values.values
        first = False
    _refuse_nulls(values, starts, ends, where)
    return starts, ends - starts, values


def _refuse_nulls(values: pa.Array, starts: Ints, ends: Ints, where: Callable[[int], str]) -> None:
    if not values.null_count:
        return
    before = np.concatenate([[0], np.cumsum(~_valid(values))])
    wrong = before[ends] > before[starts]
    if wrong.any():
        raise EncodeError(
            f"{where(int(wrong.argmax()))}: a null inside an array has no place in a list of numbers or "
            "texts; fill it in the table, or leave the property out with selectors"
        )


def _valid(values: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))


def json_kind(text: str) -> Literal["number", "numbers", "text"]:
    """Returns what a JSON text holds; a text that is no JSON is text, and so is a map."""
    try:
        value = json.loads(text)
    except ValueError:
        return "text"
    if isinstance(value, list):
        return "numbers" if _numeric(value) else "text"
    return "number" if isinstance(value, int | float) else "text"


def _numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(_numeric(item) for item in value)
    return isinstance(value, int | float)


def _flatten(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for item in value for number in _flatten(item)]
    return [float(value)]


def _from_json(column: Column, values: pa.Array, place: Callable[[int], str]) -> pa.Array:
    """Turns nested lists of numbers into lists, and leaves everything else as text.

    Formats with nested values (GeoJSON) hand them over as JSON text; there is no vectorised parser.
    """
    given = values.to_pylist()
    kinds = {json_kind(text) for text in given if text is not None}
    if len(kinds) > 1:
        row = next(i for i, t in enumerate(given) if t is not None and json_kind(t) != json_kind(_one(given)))
        raise mixed(column.name, str(_one(given)), str(given[row]), place(row))
    if kinds == {"numbers"}:
        lists = [None if text is None else _flatten(json.loads(text)) for text in given]
        return pa.array(lists, pa.large_list(pa.float64()))
    if kinds == {"number"}:
        return pa.array([None if text is None else float(text) for text in given], pa.float64())
    return values


def _one(given: list[str | None]) -> str:
    return next(text for text in given if text is not None)


def mixed(name: str, first: str, other: str, place: str) -> JobError:
    """Returns the error for a property that holds values of several types."""
    return JobError(
        f"features: property {name!r} holds values of several types: {first[:60]!r}, and {other[:60]!r} in "
        f"{place}; make them one type in the table, say it with types: {{{name}: string}} (CSV), or leave "
        "the "
        "property out with selectors"
    )
