"""Types of columns, found over all records: kinds, list lengths, whole numbers, text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from patchbeam.errors import EncodeError, JobError, nearest
from patchbeam.records.layout import Kind
from patchbeam.tables.importing.decode import Part, Values

ColumnType = Literal["int64", "float32", "float64", "text", "binary"]

_WHOLE_LIMIT = 2.0**53
_NO_RECORD = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one feature holds in the records looked at.

    Attributes:
        kinds: its lists, with the first record of each.
        present: records that have it.
        longest: values in the longest list.
        whole: whether every number is whole, finite, not -0 and below 2**53.
        not_text: first record with bytes that are no UTF-8; -1 when there is none.
        wkb: whether every value looks like a geometry in WKB.
        geojson: whether every value looks like a geometry in GeoJSON.
    """

    kinds: tuple[tuple[Kind, int], ...] = ()
    present: int = 0
    longest: int = 0
    whole: bool = True
    not_text: int = _NO_RECORD
    wkb: bool = True
    geojson: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Inferred:
    """What all features hold in the records looked at.

    Attributes:
        records: looked at.
        columns: feature → what it holds, in the order of the records.
    """

    records: int
    columns: Mapping[str, Seen]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportColumn:
    """A column of the table made from records.

    Attributes:
        name: of the feature.
        type: of its values.
        many: whether each value is a list.
    """

    name: str
    type: ColumnType
    many: bool


def look(parts: Iterable[Part], first: int, records: int) -> Inferred:
    """Returns what a batch of records holds.

    Args:
        parts: the decoded batch.
        first: number of its first record.
        records: number of records.
    """
    columns: dict[str, Seen] = {}
    for part in sorted(parts, key=lambda part: int(part.rows[0])):
        at = first + part.rows
        _insert(columns, list(part.values))
        for name, values in part.values.items():
            columns[name] = _joined(columns[name], _seen(values, at))
    return Inferred(records=records, columns=columns)


def merge(found: Iterable[Inferred]) -> Inferred:
    """Returns what batches hold together; they are given in order."""
    columns: dict[str, Seen] = {}
    records = 0
    for one in found:
        records += one.records
        _insert(columns, list(one.columns))
        for name, seen in one.columns.items():
            columns[name] = _joined(columns[name], seen)
    return Inferred(records=records, columns=columns)


def _insert(columns: dict[str, Seen], names: Sequence[str]) -> None:
    """Adds names that are new, each after the one that it follows, so that nulls do not change the order."""
    if all(name in columns for name in names):
        return
    order = list(columns)
    for i, name in enumerate(names):
        if name not in columns:
            order.insert(order.index(names[i - 1]) + 1 if i else 0, name)
            columns[name] = Seen()
    for name in order:
        columns[name] = columns.pop(name)


def _seen(values: Values, records: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Seen:
    first = int(records[0])
    if values.numbers is not None:
        numbers = values.numbers
        whole = True
        if values.kind == "float":
            with np.errstate(invalid="ignore"):
                exact = (np.floor(numbers) == numbers) & (np.abs(numbers) < _WHOLE_LIMIT)
            whole = bool((exact & ~((numbers == 0) & np.signbit(numbers))).all())
        return Seen(
            kinds=((values.kind, first),),
            present=len(numbers),
            longest=values.length,
            whole=whole,
            wkb=False,
            geojson=False,
        )
    not_text = _NO_RECORD
    for row, texts in enumerate(values.texts):
        if not all(map(_is_text, texts)):
            not_text = int(records[row])
            break
    return Seen(
        kinds=(("bytes", first),),
        present=len(values.texts),
        longest=max(map(len, values.texts), default=0),
        whole=False,
        not_text=not_text,
        wkb=all(len(texts) == 1 and len(texts[0]) >= 5 and texts[0][0] in (0, 1) for texts in values.texts),
        geojson=all(len(texts) == 1 and texts[0].startswith(b"{") for texts in values.texts),
    )


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _joined(a: Seen, b: Seen) -> Seen:
    kinds = dict(a.kinds)
    for kind, record in b.kinds:
        kinds[kind] = min(record, kinds.get(kind, record))
    wrong = [record for record in (a.not_text, b.not_text) if record != _NO_RECORD]
    return replace(
        a,
        kinds=tuple(sorted(kinds.items(), key=lambda item: item[1])),
        present=a.present + b.present,
        longest=max(a.longest, b.longest),
        whole=a.whole and b.whole,
        not_text=min(wrong, default=_NO_RECORD),
        wkb=a.wkb and b.wkb,
        geojson=a.geojson and b.geojson,
    )


def choose(
    found: Inferred,
    *,
    columns: Sequence[str] | None,
    binary: Sequence[str] | bool,
    integers: bool,
    geometry: Sequence[str] = (),
) -> tuple[ImportColumn, ...]:
    """Returns the columns of the table.

    Args:
        found: over all records.
        columns: features wanted, in order; ``None`` for all.
        binary: features whose bytes are no text, or all.
        integers: whether whole numbers become integers.
        geometry: features that hold geometries in WKB, whose bytes are no text.

    Raises:
        JobError: a feature that is named is in no record, or stands twice.
        EncodeError: a feature is text in one record and numbers in another, or its bytes are no UTF-8 and
            it is not said to be binary; names feature and record.
    """
    names = list(found.columns)
    for key, wanted in (("columns", columns or ()), ("binary", () if isinstance(binary, bool) else binary)):
        for i, name in enumerate(wanted):
            if name in wanted[:i]:
                raise JobError(f"{key}[{i}]: {name!r} stands twice; name each feature once")
            if name not in names:
                raise JobError(
                    f"{key}[{i}]: no record has a feature {name!r}{nearest(name, names)}; features are "
                    f"{', '.join(names)}"
                )
    return tuple(
        _choose(name, found.columns[name], binary=binary, integers=integers, free=name in geometry)
        for name in (names if columns is None else columns)
    )


def _choose(
    name: str, seen: Seen, *, binary: Sequence[str] | bool, integers: bool, free: bool
) -> ImportColumn:
    kinds = dict(seen.kinds)
    many = seen.longest > 1
    if "bytes" in kinds and len(kinds) > 1:
        other = next(kind for kind in kinds if kind != "bytes")
        raise EncodeError(
            f"feature {name!r} holds bytes in record {kinds['bytes']} and {other} numbers in record "
            f"{kinds[other]}: "
            "one column cannot hold both; leave it out with columns"
        )
    if "bytes" in kinds:
        as_binary = binary if isinstance(binary, bool) else name in binary
        if not as_binary and not free and seen.not_text != _NO_RECORD:
            raise EncodeError(
                f"feature {name!r} of record {seen.not_text}: its bytes are no UTF-8 text; say binary: "
                f"[{name}] to keep "
                "them as bytes, or leave it out with columns"
            )
        return ImportColumn(name=name, type="binary" if as_binary or free else "text", many=many)
    if "float" not in kinds or (seen.whole and integers):
        return ImportColumn(name=name, type="int64", many=many)
    return ImportColumn(name=name, type="float64" if "int64" in kinds else "float32", many=many)
