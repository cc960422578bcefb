"""Tables as items: one Example a feature of a table export, such as sampled points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, digest
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.exports import Source, open_export
from patchbeam.data.values import Columns, resolve_columns, typed
from patchbeam.errors import nearest
from patchbeam.records.parse import Values, parse_example


class TableDatabase(Database):
    """The rows of a table export, in the order of the file.

    Attributes:
        columns: of the first row, in wire order.
    """

    def __init__(
        self,
        source: Source,
        *,
        modalities: Mapping[str, str | Sequence[str]] | None = None,
        dtypes: Mapping[str, str] | None = None,
        missing: float | None = None,
        cache: str | Path | None = None,
        offline: bool | None = None,
    ) -> None:
        """Opens the file and reads its first row.

        Args:
            source: prefix, record file, or files in order.
            modalities: name → one column, or several numeric ones that become one vector. Default: a
                modality a column of the first row. A single number is an array without axes; text is
                ``str``, bytes that are no UTF-8 stay ``bytes``.
            dtypes: modality → NumPy type, such as ``{"label": "int64"}``.
            missing: what stands for a number that a row has not; by default that is an error.
            cache: folder of the cache.
            offline: whether nothing may be fetched.

        Raises:
            JobError: there is no such file or column.
            EmptyDatabase: there are no rows.
            CorruptRecord: the file is damaged; with file, record and byte.
        """
        export = open_export(source, cache=cache, offline=offline, sidecars=False)
        self.records = export.records
        if not len(self.records):
            raise EmptyDatabase(f"{export.name}: the table has no rows; give one that holds some")
        first = parse_example(self.records[0])
        self.columns = tuple(first)
        wanted = modalities if modalities is not None else {name: name for name in self.columns}
        # columns that are null in the first row are not in it
        self._wanted = resolve_columns(wanted, self.columns, dtypes, export.name, closed=False)
        self._missing = missing

    @property
    def modalities(self) -> tuple[str, ...]:
        """Names of the modalities."""
        return tuple(wanted.name for wanted in self._wanted)

    def __len__(self) -> int:
        return len(self.records)

    def load(self, index: int) -> Item:
        """Returns the values of a row, new in memory."""
        row = parse_example(self.records[index])
        return tuple(self._value(wanted, row, index) for wanted in self._wanted)

    def _value(self, wanted: Columns, row: dict[str, Values], index: int) -> Any:
        if wanted.alone:
            values = row.get(wanted.columns[0])
            if isinstance(values, list):
                return _text(values)
            numbers = self._numbers(wanted.columns[0], row, index)
            numbers = numbers.reshape(()) if numbers.size == 1 else numbers
        else:
            numbers = np.concatenate([self._numbers(column, row, index) for column in wanted.columns])
        return typed(numbers, wanted.dtype, f"{self.records.where(index)}, modality {wanted.name!r}")

    def _numbers(self, column: str, row: dict[str, Values], index: int) -> NDArray[Any]:
        values = row.get(column)
        if isinstance(values, list):
            raise DataError(
                f"{self.records.where(index)}, column {column!r}: text cannot be part of a vector; make it a "
                "modality of its own"
            )
        if values is not None:
            return values
        if self._missing is None:
            raise DataError(
                f"{self.records.where(index)}: no value in column {column!r}{nearest(column, row)}; give "
                "missing= for "
                "what stands in its place"
            )
        return np.array([self._missing], np.float32)

    @property
    def fingerprint(self) -> str:
        """A digest of the records."""
        return digest("table", self.records.fingerprint)


def _text(values: list[bytes]) -> Any:
    texts: list[str | bytes] = []
    for value in values:
        try:
            texts.append(value.decode())
        except UnicodeDecodeError:
            texts.append(value)
    return texts[0] if len(texts) == 1 else tuple(texts)
