"""Are all records made alike, and as the manifest says?

The structure of a record is parsed once; of a later record of the same size the bytes between the values
are compared with it, which costs nearly nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord
from patchbeam.manifest import Manifest
from patchbeam.records.parse import Spans, as_view, scan_example
from patchbeam.records.parse_sequence import scan_sequence_example
from patchbeam.spec import DTYPES, feature_spec

Bytes = NDArray[np.uint8]
_KINDS = {dtype: kind for kind, dtype in DTYPES.items()}
_SMALL_BYTES = 1 << 14
_TEMPLATES = 256
"""Structures that are kept: sizes of records with int64 lists differ from record to record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one feature, or one feature list, of a record holds.

    Attributes:
        name: its key.
        kind: ``float``, ``int64``, ``bytes``, or ``none`` when there is no list in it.
        length: numbers, in each step of a feature list; of ``bytes``, bytes.
        steps: steps of a feature list: a number, ``None`` for any, -1 for a feature.
    """

    name: str
    kind: str
    length: int
    steps: int | None = -1

    def __str__(self) -> str:
        steps = (
            "" if self.steps == -1 else f" in each of {'some' if self.steps is None else self.steps} steps"
        )
        return f"{self.name}: {self.length} of {self.kind}{steps}"


Layout = tuple[Shape, ...]


class Template(NamedTuple):
    """What records of one size and structure have in common.

    Attributes:
        columns: places of the bytes that are no values.
        expected: those bytes.
        varints: first byte, bytes and numbers of each int64 list.
    """

    columns: NDArray[np.int64]
    expected: Bytes
    varints: tuple[tuple[int, int, int], ...]


def layout_of(manifest: Manifest) -> Layout:
    """Returns what every record of an export holds, in wire order."""
    spec = feature_spec(manifest)
    context = [
        Shape(name=f.name, kind=_KINDS[f.dtype], length=int(np.prod([n or 0 for n in f.shape], dtype=int)))
        for f in spec.context
    ]
    lists = [
        Shape(
            name=f.name,
            kind=_KINDS[f.dtype],
            length=int(np.prod([n or 0 for n in f.shape[1:]], dtype=int)),
            steps=f.shape[0],
        )
        for f in spec.lists
    ]
    return (*context, *lists)


def found_layout(data: memoryview, *, sequence: bool) -> tuple[Layout, list[Spans]]:
    """Returns what a record holds, and where the values of each list in it lie.

    Raises:
        CorruptRecord: it is no Example, or no SequenceExample.
    """
    if not sequence:
        spans = scan_example(data)
        return tuple(_shape(data, name, values, -1) for name, values in spans.items()), list(spans.values())
    context, lists = scan_sequence_example(data)
    found = [_shape(data, name, values, -1) for name, values in context.items()]
    for name, steps in lists.items():
        shapes = {_shape(data, name, values, len(steps)) for values in steps}
        if len(shapes) > 1:
            raise CorruptRecord(f"the steps of feature list {name!r} are not alike")
        found += shapes or [Shape(name=name, kind="none", length=0, steps=0)]
    return tuple(found), [*context.values(), *(values for steps in lists.values() for values in steps)]


def _shape(data: memoryview, name: str, values: Spans, steps: int) -> Shape:
    size = sum(size for _, size in values.spans)
    if values.kind == "float":
        size //= 4
    elif values.kind == "int64":
        size = sum(int(np.count_nonzero(_bytes(data[at : at + n]) < 0x80)) for at, n in values.spans)
    return Shape(name=name, kind=values.kind or "none", length=size, steps=steps)


def _bytes(data: memoryview) -> Bytes:
    return np.frombuffer(data, np.uint8)


class LayoutCheck:
    """Compares records with the layout that is due, or without one with the first record."""

    def __init__(self, expected: Layout | None, *, sequence: bool, anything: bool = False) -> None:
        """Compares with ``expected``; where it is ``None``, what comes first decides, order apart.

        Args:
            expected: what a record has to hold, in wire order.
            sequence: whether records are SequenceExamples.
            anything: whether records may hold whatever they like; then they are not looked into.
        """
        self.anything = anything
        self.expected = expected
        self.sequence = sequence
        self._ordered = expected is not None
        self._known: dict[int, list[Template]] = {}
        self._lock = threading.Lock()

    def check(self, rows: Bytes) -> list[tuple[int, str]]:
        """Returns the rows that are wrong and why.

        Args:
            rows: uint8 ``(record, byte)``: records of one size, without framing.
        """
        wrong: list[tuple[int, str]] = []
        if self.anything:
            return wrong
        left = np.arange(len(rows))
        for template in self._known.get(rows.shape[1], ()):
            left = left[~_matches(rows, left, template)]
        while left.size:
            at, left = int(left[0]), left[1:]
            text, learnt = self._look(rows[at])
            if text is not None:
                wrong.append((at, text))
            elif learnt is not None:
                left = left[~_matches(rows, left, learnt)]
        return wrong

    def _look(self, row: Bytes) -> tuple[str | None, Template | None]:
        """Parses a record; returns what is wrong with it, or else what its like have in common with it."""
        try:
            found, spans = found_layout(as_view(row), sequence=self.sequence)
        except CorruptRecord as error:
            return f"is no {'SequenceExample' if self.sequence else 'Example'}: {error.what}", None
        with self._lock:
            if self.expected is None:
                self.expected = found
        text = _difference(self.expected, found, ordered=self._ordered)
        # one of a large record with int64 lists would never match again: their sizes are all different
        varying = any(values.kind == "int64" for values in spans)
        if text is not None or (varying and row.size > _SMALL_BYTES):
            return text, None
        template = _template(row, spans)
        with self._lock:
            if sum(map(len, self._known.values())) < _TEMPLATES:
                self._known[row.size] = [*self._known.get(row.size, []), template]
        return None, template


def _template(row: Bytes, spans: Sequence[Spans]) -> Template:
    fixed = np.ones(row.size, np.bool_)
    varints = []
    for values in spans:
        for start, size in values.spans:
            fixed[start : start + size] = False
            if values.kind == "int64":
                varints.append((start, size, int(np.count_nonzero(row[start : start + size] < 0x80))))
    columns = np.flatnonzero(fixed)
    return Template(columns, row[columns], tuple(varints))


def _matches(rows: Bytes, which: NDArray[np.int64], template: Template) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (rows[np.ix_(which, template.columns)] == template.expected).all(axis=1)
    for start, size, count in template.varints:
        last = rows[which, start : start + size] < 0x80
        same &= (last.sum(axis=1) == count) & (last[:, -1] if size else True)
    return same


def _difference(expected: Layout, found: Layout, *, ordered: bool) -> str | None:
    due = {shape.name: shape for shape in expected}
    there = {shape.name: shape for shape in found}
    missing = [name for name in due if name not in there]
    extra = [name for name in there if name not in due]
    if missing or extra:
        parts = [
            f"{what} {', '.join(map(repr, names))}"
            for what, names in (("lacks", missing), ("has also", extra))
            if names
        ]
        return f"{' and '.join(parts)}; due are {_names(expected)}"
    for name, shape in due.items():
        if not _same(shape, there[name]):
            return f"holds {there[name]}; due is {shape}"
    if ordered and [shape.name for shape in expected] != [shape.name for shape in found]:
        return f"has its features in the order {_names(found)}; due is {_names(expected)}"
    return None


def _same(due: Shape, found: Shape) -> bool:
    if due.steps == -1 or found.steps == -1:
        return due == found
    if due.steps is not None and due.steps != found.steps:
        return False
    return found.steps == 0 or (due.kind, due.length) == (found.kind, found.length)


def _names(layout: Sequence[Shape]) -> str:
    names = [shape.name for shape in layout]
    return ", ".join(names[:12]) + (f", … ({len(names)})" if len(names) > 12 else "")
