"""CSV: types are found over the whole file, since no block of it speaks for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from patchbeam import storage
from patchbeam.errors import JobError, ReadFailed, nearest
from patchbeam.tables.columns import Column, mixed
from patchbeam.tables.source import INDEX, TableSource
from patchbeam.tables.xy import check_xy

_NUMBER = r"^\s*([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?([nN][aA][nN]|inf|Inf|infinity))\s*$"
_INTEGER = r"^\s*[+-]?\d{1,18}\s*$"
_CODE = r"^\s*0\d+\s*$"
_BLOCK_BYTES = 4 << 20
_ARROW = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
_Batch = tuple[pa.RecordBatch, pa.Array | None, pa.Array | None]


@dataclass(slots=True)
class _Seen:
    """What the values of one column are, so far."""

    integers: bool = True
    number: str | None = None
    text: str | None = None
    text_row: int = 0
    booleans: bool = True
    codes: bool = False

    def add(self, values: pa.Array, first: int) -> None:
        there = values.drop_null()
        if not len(there):
            return
        numeric = pc.match_substring_regex(values, _NUMBER)
        if pc.any(numeric).as_py():
            self.booleans = False
            self.number = self.number or there.filter(pc.match_substring_regex(there, _NUMBER))[0].as_py()
            if self.integers:
                self.integers = bool(pc.all(pc.match_substring_regex(there, _INTEGER)).as_py())
            self.codes = self.codes or bool(pc.any(pc.match_substring_regex(there, _CODE)).as_py())
        if self.text is None or self.booleans:
            others = pc.fill_null(pc.invert(numeric), False)
            if pc.any(others).as_py():
                row = pc.index(others, True).as_py()
                if self.text is None:
                    self.text, self.text_row = values[row].as_py(), first + row
                if self.booleans:
                    lower = pc.utf8_lower(values.filter(others))
                    self.booleans = bool(pc.all(pc.is_in(lower, pa.array(["true", "false"]))).as_py())

    def type_of(self, name: str) -> str:
        if self.text is not None:
            if self.number is not None and not self.codes:
                raise mixed(name, self.number, self.text, f"row {self.text_row}")
            return "boolean" if self.booleans else "string"
        if self.codes:  # 00501 is no number: its zeros would be lost
            return "string"
        if self.number is None:
            return "string"
        return "integer" if self.integers else "number"


def open_csv(
    path: str,
    *,
    xy: tuple[str, str] | None,
    crs: str | None,
    types: Mapping[str, str],
    null_values: Sequence[str],
) -> TableSource:
    """Reads a CSV file once, to know its columns' types and its rows.

    Raises:
        JobError: it has no header or ragged rows, or a column holds numbers and text.
    """
    nulls = tuple(null_values)
    seen: dict[str, _Seen] = {}
    rows = 0
    try:
        for batch in _batches(path, None, nulls):
            for field, values in zip(batch.schema, batch.columns, strict=True):
                seen.setdefault(field.name, _Seen()).add(values, rows)
            rows += batch.num_rows
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        raise JobError(
            f"features: {path}: not a CSV table that can be read: {error}; save "
            "it as UTF-8 text with a line of names"
        ) from None
    names = list(seen)
    for name, given in types.items():
        if name not in names:
            raise JobError(
                f"types.{name}: is not a column; columns are {', '.join(names)}{nearest(name, names)}"
            )
        if given not in ("string", "number"):
            raise JobError(
                f"types.{name}: {given!r} is not string or number{nearest(given, ('string', 'number'))}"
            )
    found = {name: types.get(name) or seen[name].type_of(name) for name in names}
    columns = [Column(name=n, kind="text" if t == "string" else "number", type=t) for n, t in found.items()]
    places = check_xy(xy, names, path, required=False)
    if places is not None and any(found[name] == "string" for name in places):
        text = next(name for name in places if found[name] == "string")
        raise JobError(
            f"features: {path}: column {text!r} is to hold coordinates and holds text; name "
            "the columns of numbers"
        )
    return TableSource(
        path=path,
        format="csv",
        driver="CSV",
        layer=None,
        columns=tuple(columns),
        rows=rows,
        geometry_type="Point" if places else "None",
        xy=places,
        crs=crs or ("EPSG:4326" if places else None),
        id_column=INDEX if INDEX in names else None,
        options=(("types", tuple(found.items())), ("nulls", nulls)),
    )


def _batches(path: str, types: Mapping[str, str] | None, nulls: Sequence[str]) -> Iterator[pa.RecordBatch]:
    delimiter = "\t" if path.lower().endswith(".tsv") else ","
    parse = pcsv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    read = pcsv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
    with storage.open_read(path) as file:
        names = pcsv.open_csv(file, read, parse).schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise JobError(
            f"features: {path}: columns share the name {', '.join(map(repr, twice))}; rename one of each"
        )
    convert = pcsv.ConvertOptions(
        column_types={name: _ARROW[types[name]] if types else pa.string() for name in names},
        null_values=["", *nulls],
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with storage.open_read(path) as file:
        yield from pcsv.open_csv(file, read, parse, convert)


def read(
    source: TableSource, columns: list[str], geometry: bool, first: int, rows: int, batch_rows: int
) -> Iterator[_Batch]:
    """Yields consecutive rows; those before the first are read too."""
    options = dict(source.options)
    at = 0
    try:
        for block in _batches(source.path, dict(options["types"]), options["nulls"]):
            for start in range(0, block.num_rows, batch_rows):
                batch = block.slice(start, batch_rows)
                begin, end = max(first - at, 0), min(first + rows - at, batch.num_rows)
                at += batch.num_rows
                if begin < end:
                    yield batch.slice(begin, end - begin).select(columns), None, None
    except (pa.ArrowException, OSError) as error:
        raise ReadFailed(f"{source.path}: rows from number {first} on cannot be read: {error}") from error
