"""Records to tables: types found in one parallel pass, columns made in another, one file written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import apache_beam as beam

from patchbeam import counts, storage
from patchbeam.records.files import RecordFiles
from patchbeam.tables.importing.infer import Inferred, merge
from patchbeam.tables.importing.plan import (
    ImportTablePlan,
    TablePiece,
    TableSchema,
    choose_schema,
    decode_range,
    infer_range,
    publish_table,
    tasks,
)
from transforms.meters import Advance
from transforms.write import gather

REPORT = "report.json"

_Range = tuple[int, int]


class _Infer(beam.DoFn):  # type: ignore[misc]
    def __init__(self, files: RecordFiles) -> None:
        self._files = files

    def setup(self) -> None:
        self._advance = Advance("records_looked_at")

    def process(self, task: _Range) -> Iterator[tuple[int, Inferred]]:
        inferred = infer_range(self._files, *task)
        self._advance(task[1], counts.take("record_bytes"))
        yield task[0], inferred


class InferColumns(beam.PTransform):  # type: ignore[misc]
    """Finds out what records hold: ``PBegin`` → one :class:`~patchbeam.tables.importing.infer.Inferred`.

    Args:
        files: the records, indexed.
    """

    def __init__(self, files: RecordFiles) -> None:
        super().__init__()
        self._files = files

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[Inferred]:
        """Ranges of records, looked at apart, merged in order."""
        found = (
            begin
            | "Ranges" >> beam.Create(tasks(self._files))
            | "Deal" >> beam.Reshuffle()
            | "Infer" >> beam.ParDo(_Infer(self._files))
        )
        return gather(found, "Inferred") | "Merge" >> beam.Map(_merged)


def _merged(gathered: tuple[None, Iterable[tuple[int, Inferred] | None]]) -> Inferred:
    found = sorted((one for one in gathered[1] if one is not None), key=lambda one: one[0])
    return merge([inferred for _, inferred in found])


class _Choose(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportTablePlan, files: RecordFiles) -> None:
        self._plan = plan
        self._files = files

    def process(self, found: Inferred) -> Iterator[tuple[TableSchema, _Range]]:
        schema = choose_schema(self._plan, found, len(self._files))
        for task in tasks(self._files):
            yield schema, task


class _Decode(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportTablePlan, files: RecordFiles) -> None:
        self._plan = plan
        self._files = files

    def setup(self) -> None:
        self._advance = Advance("records")

    def process(self, task: tuple[TableSchema, _Range]) -> Iterator[tuple[TableSchema, TablePiece]]:
        schema, (first, count) = task
        piece = decode_range(self._plan, schema, self._files, first, count)
        self._advance(count, counts.take("record_bytes"))
        yield schema, piece


class _Write(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ImportTablePlan) -> None:
        self._plan = plan

    def process(
        self, gathered: tuple[None, Iterable[tuple[TableSchema, TablePiece] | None]]
    ) -> Iterator[str]:
        found = [one for one in gathered[1] if one is not None]
        schema = found[0][0] if found else TableSchema(columns=(), geometry=None, records=-1)
        report = publish_table(self._plan, schema, [piece for _, piece in found])
        name = storage.join(self._plan.temporary_folder, REPORT)
        storage.write_atomic(name, json.dumps(asdict(report)).encode())
        yield name


class RecordsToTable(beam.PTransform):  # type: ignore[misc]
    """Makes a table of records: ``PBegin`` → name of the report, under the temporary prefix.

    Args:
        plan: the import.
        files: its records, indexed.
    """

    def __init__(self, plan: ImportTablePlan, files: RecordFiles) -> None:
        super().__init__()
        self._plan = plan
        self._files = files

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        """Types, columns, one file."""
        pieces = (
            begin
            | "InferColumns" >> InferColumns(self._files)
            | "Choose" >> beam.ParDo(_Choose(self._plan, self._files))
            | "DealRanges" >> beam.Reshuffle()
            | "Decode" >> beam.ParDo(_Decode(self._plan, self._files))
        )
        return gather(pieces, "Columns") | "Write" >> beam.ParDo(_Write(self._plan))
