"""The plan of a table import, and its steps as plain functions; the Beam transforms call these."""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from patchbeam import __version__, counts, storage
from patchbeam.errors import CorruptRecord, CountMismatch, JobError, OutputExists, OutputUnusable, nearest
from patchbeam.records.files import RecordFiles
from patchbeam.retry import retrying
from patchbeam.tables.importing.columns import GeometryColumns, arrow_schema, find_geometry, to_arrow
from patchbeam.tables.importing.decode import Part, decode_records
from patchbeam.tables.importing.infer import ImportColumn, Inferred, choose, look, merge
from patchbeam.tables.importing.write import driver_of, write_table

_BATCH_RECORDS = 1 << 15
_TASK_PARTS = 8


@dataclass(frozen=True, kw_only=True)
class ImportTablePlan:
    """One table import.

    Attributes:
        records: the record files, in order.
        output: the file to write, local or ``gs://``.
        columns: features wanted, in order; ``None`` for all.
        xy: features of x and y; ``None``: longitude and latitude where they are there.
        crs: of x and y.
        geometry: whether geometry is made.
        binary: features whose bytes are no text, or all.
        integers: whether columns of whole numbers become integers.
        layer: name of the layer; ``None``: that of the file.
    """

    records: tuple[str, ...]
    output: str
    columns: tuple[str, ...] | None = None
    xy: tuple[str, str] | None = None
    crs: str | None = None
    geometry: bool = True
    binary: tuple[str, ...] | bool = False
    integers: bool = True
    layer: str | None = None

    def __post_init__(self) -> None:
        if not storage.split(self.output)[1]:
            raise OutputUnusable(f"output: {self.output} is a folder; give a file such as samples.parquet")
        driver_of(self.output, self.suffix)

    @property
    def suffix(self) -> str:
        """Of the output, lower case."""
        return os.path.splitext(self.output)[1].lower()

    @cached_property
    def temporary_folder(self) -> str:
        """Where unfinished files lie: beside the output, named by a digest of the plan."""
        folder, name = storage.split(self.output)
        said = repr((__version__, self.records, self.columns, self.xy, self.crs, self.geometry, self.binary))
        return storage.join(folder, f".{name}-{hashlib.sha256(said.encode()).hexdigest()[:12]}.tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSchema:
    """What all records together are as a table.

    Attributes:
        columns: of the table; those of a geometry are among them.
        geometry: the columns that hold it, or ``None``.
        records: number of records.
    """

    columns: tuple[ImportColumn, ...]
    geometry: GeometryColumns | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePiece:
    """Some consecutive records as columns.

    Attributes:
        path: of the file, Arrow's.
        first: number of the first record.
        records: number of records.
    """

    path: str
    first: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTableReport:
    """What an import has written.

    Attributes:
        output: the file.
        records: number of records, which are rows.
        columns: name → type, for people.
        geometry: where it came from; empty when there is none.
    """

    output: str
    records: int
    columns: dict[str, str]
    geometry: str


def check_import_destination(plan: ImportTablePlan, *, overwrite: bool) -> None:
    """Refuses a destination that cannot take the table.

    Raises:
        OutputUnusable: it cannot be written.
        OutputExists: there is a file and ``overwrite`` is false.
    """
    storage.check_writable(plan.output)
    if storage.exists(plan.output) and not overwrite:
        raise OutputExists(
            f"output: {plan.output} is there already; give another output, or --overwrite to replace it"
        )


def tasks(files: RecordFiles) -> list[tuple[int, int]]:
    """Returns ``(first record, records)`` of each task; none shares a gzip member with another."""
    parts = files.parts(0, len(files))
    groups = [parts[i : i + _TASK_PARTS] for i in range(0, len(parts), _TASK_PARTS)]
    return [(group[0][0], sum(count for _, count in group)) for group in groups]


def _batches(files: RecordFiles, first: int, count: int) -> Iterator[tuple[int, int, list[Part]]]:
    datas: list[memoryview] = []
    at = first
    for data in files.read_range(first, count):
        datas.append(data)
        if len(datas) == _BATCH_RECORDS:
            counts.add("record_bytes", sum(map(len, datas)))
            yield at, len(datas), _decoded(files, at, datas)
            at += len(datas)
            datas = []
    if datas:
        counts.add("record_bytes", sum(map(len, datas)))
        yield at, len(datas), _decoded(files, at, datas)


def _decoded(files: RecordFiles, first: int, datas: Sequence[memoryview]) -> list[Part]:
    try:
        return decode_records(datas)
    except CorruptRecord as error:
        for i, data in enumerate(datas):
            try:
                decode_records([data])
            except CorruptRecord as one:
                number, record = files.locate(first + i)
                raise CorruptRecord(one.what, file=files.files[number].name, record=record) from None
        raise error


def infer_range(files: RecordFiles, first: int, count: int) -> Inferred:
    """Returns what some consecutive records hold.

    Raises:
        CorruptRecord: one of them is damaged.
    """
    return merge([look(parts, at, records) for at, records, parts in _batches(files, first, count)])


def choose_schema(plan: ImportTablePlan, found: Inferred, expected: int) -> TableSchema:
    """Returns the table that the records make.

    Args:
        plan: the import.
        found: over all records, merged in order.
        expected: number of records.

    Raises:
        CountMismatch: the runner lost work.
        JobError: a feature that is named is in no record.
        EncodeError: a column would hold text and numbers, or bytes that are no text.
    """
    if found.records != expected:
        raise CountMismatch(
            f"{found.records} of {expected} records were looked at: the runner lost or repeated work; run "
            "the job again"
        )
    for key, name in zip(("xColumn", "yColumn"), plan.xy or (), strict=False):
        if name not in found.columns:
            raise JobError(
                f"{key}: no record has a feature {name!r}{nearest(name, found.columns)}; features are "
                f"{', '.join(found.columns)}"
            )
    geometry = find_geometry(found, plan.xy, plan.crs) if plan.geometry else None
    wanted = plan.columns
    if wanted is not None and geometry is not None:
        wanted = tuple(dict.fromkeys((*wanted, *geometry.names)))
    columns = choose(
        found,
        columns=wanted,
        binary=plan.binary,
        integers=plan.integers,
        geometry=geometry.names if geometry is not None and geometry.form == "wkb" else (),
    )
    if geometry is not None and geometry.form == "xy":
        for column in columns:
            if column.name in geometry.names and (column.many or column.type in ("text", "binary")):
                raise JobError(
                    f"xColumn, yColumn: feature {column.name!r} holds "
                    f"{'lists' if column.many else column.type}, no "
                    "coordinates; name others, or set geometry: false"
                )
    return TableSchema(columns=columns, geometry=geometry, records=found.records)


def decode_range(
    plan: ImportTablePlan, schema: TableSchema, files: RecordFiles, first: int, count: int
) -> TablePiece:
    """Writes some consecutive records as columns under the temporary prefix."""
    arrow = arrow_schema(schema.columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow) as writer:
        for _, records, parts in _batches(files, first, count):
            writer.write_batch(to_arrow(schema.columns, parts, records))
    path = storage.join(plan.temporary_folder, f"columns-{first:012d}.{uuid.uuid4().hex[:8]}")
    data = memoryview(sink.getvalue())
    retrying(lambda: storage.write_atomic(path, data))
    return TablePiece(path=path, first=first, records=count)


def _stored(pieces: Sequence[TablePiece]) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        with pa.ipc.open_stream(retrying(partial(storage.read_bytes, piece.path))) as reader:
            yield from reader


def publish_table(
    plan: ImportTablePlan, schema: TableSchema, pieces: Sequence[TablePiece]
) -> ImportTableReport:
    """Writes the file from its pieces and puts it in its place.

    Raises:
        CountMismatch: pieces are missing or came twice; nothing is published.
        WriteFailed: the file cannot be written.
    """
    ordered = sorted(pieces, key=lambda piece: piece.first)
    at = 0
    for piece in ordered:
        if piece.first != at:
            break
        at += piece.records
    if at != schema.records:
        raise CountMismatch(
            f"columns of {at} consecutive records came out of the pipeline and {schema.records} are due: "
            "the runner "
            "lost or repeated work; nothing has been published. Run the job again"
        )
    name = storage.split(plan.output)[1]
    layer = plan.layer or os.path.splitext(name)[0]
    driver = driver_of(plan.output, plan.suffix)
    local = None if storage.is_remote(plan.output) else plan.temporary_folder
    with tempfile.TemporaryDirectory(prefix="table-", dir=local) as folder:
        path = os.path.join(folder, name)
        write_table(
            _stored(ordered),
            arrow_schema(schema.columns),
            path,
            driver,
            geometry=schema.geometry,
            layer=layer,
        )
        if local is None:
            retrying(lambda: storage.write_parts(plan.output, storage.read_chunks(path)))
        else:
            retrying(lambda: storage.rename(path, plan.output))
    return ImportTableReport(
        output=plan.output,
        records=schema.records,
        columns={c.name: f"list of {c.type}" if c.many else c.type for c in schema.columns},
        geometry="" if schema.geometry is None else ", ".join(schema.geometry.names),
    )
