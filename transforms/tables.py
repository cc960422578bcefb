"""Tables to records: features in batches, encoded, sampled, put in order, written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam

from patchbeam.assemble import AssembledShard, assemble
from patchbeam.elements import Piece, RecordRun
from patchbeam.pieces import PieceWriter
from patchbeam.pool import Pool
from patchbeam.prefetch import prefetched
from patchbeam.shards import Shard
from patchbeam.tables.encode import FeatureEncoder
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.publish import TableSummary, plan_files, publish
from patchbeam.tables.readers import read_batches
from patchbeam.tables.source import INDEX, FeatureBatch, TableSource
from transforms import coders as coders
from transforms.meters import Advance, Reading, counter, distribution
from transforms.write import gather


class _ReadFeatures(beam.DoFn):  # type: ignore[misc]
    def __init__(
        self, source: TableSource, columns: Sequence[str], ids: bool, geometry: bool, batch_rows: int | None
    ) -> None:
        self._source = source
        self._columns = tuple(columns)
        self._wanted = {"ids": ids, "geometry": geometry}
        if batch_rows is not None:
            self._wanted["batch_rows"] = batch_rows

    def setup(self) -> None:
        self._count = counter("features_read")

    def process(self, task: tuple[int, int]) -> Iterator[FeatureBatch]:
        first, rows = task
        batches = read_batches(self._source, self._columns, first=first, rows=rows, **self._wanted)
        for batch in prefetched(batches):
            self._count.inc(batch.rows)
            yield batch


class ReadFeatures(beam.PTransform):  # type: ignore[misc]
    """Reads a table: ``PBegin`` → :class:`~patchbeam.tables.source.FeatureBatch`.

    One task a stretch of features where the format lets readers start anywhere, else one for all.

    Args:
        source: the table.
        columns: properties wanted, in the order wanted; ``None`` for all.
        ids: whether feature ids are wanted.
        geometry: whether geometries are wanted.
        batch_rows: features a batch at the most; ``None`` for the reader's own.
    """

    def __init__(
        self,
        source: TableSource,
        columns: Sequence[str] | None = None,
        *,
        ids: bool = False,
        geometry: bool = False,
        batch_rows: int | None = None,
    ) -> None:
        super().__init__()
        self._tasks = list(source.ranges())
        names = source.names if columns is None else columns
        self._read = _ReadFeatures(source, names, ids, geometry, batch_rows)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[FeatureBatch]:
        """Tasks, dealt out, then batches."""
        return (
            begin
            | "Ranges" >> beam.Create(self._tasks)
            | "Deal" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(self._read)
        )


def features_of(plan: TablePlan, batch_rows: int | None = None) -> ReadFeatures:
    """Returns the reading of everything that a plan exports."""
    return ReadFeatures(
        plan.source,
        [column.name for column in plan.columns],
        ids=INDEX in plan.selectors,
        geometry=plan.needs_geometry,
        batch_rows=batch_rows,
    )


class _Encode(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan

    def setup(self) -> None:
        self._encoder = FeatureEncoder(self._plan)

    def process(self, batch: FeatureBatch) -> Iterator[RecordRun]:
        yield self._encoder.run(batch)


class EncodeFeatures(beam.PTransform):  # type: ignore[misc]
    """Encodes features: ``FeatureBatch`` → :class:`~patchbeam.elements.RecordRun`.

    Args:
        plan: the export.
    """

    def __init__(self, plan: TablePlan) -> None:
        super().__init__()
        self._plan = plan

    def expand(self, batches: beam.PCollection[FeatureBatch]) -> beam.PCollection[RecordRun]:
        """One run a batch."""
        return batches | "Encode" >> beam.ParDo(_Encode(self._plan)).with_output_types(RecordRun)


class _WritePieces(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._writer = PieceWriter(
            self._plan.temporary_folder,
            gzip=self._plan.piece_gzip,
            records_per_shard=None,
            records_per_patch=1,
            pool=self._pool,
        )
        self._records, self._bytes = counter("records_encoded"), counter("bytes_encoded")
        self._stored, self._sizes = counter("bytes_stored"), distribution("piece_bytes")
        self._reading, self._advance = Reading(), Advance("features")

    def process(self, run: RecordRun) -> Iterator[Piece]:
        pieces = list(self._writer.write(run))
        self._reading.take()
        self._records.inc(run.records)
        self._bytes.inc(len(run.data))
        self._advance(run.records, len(run.data))
        for piece in pieces:
            size = int(piece.members[:, 2].sum())
            self._stored.inc(size)
            self._sizes.update(size)
            yield piece

    def teardown(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close()


class _PlanFiles(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan

    def process(self, gathered: tuple[None, Iterable[Piece | None]]) -> Iterator[Shard | TableSummary]:
        yield from plan_files(self._plan, [piece for piece in gathered[1] if piece is not None])


class _Assemble(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan

    def process(self, task: Shard | TableSummary) -> Iterator[AssembledShard | TableSummary]:
        if isinstance(task, Shard):
            yield assemble(task, self._plan.temporary_folder, profile=self._plan.gzip)
        else:
            yield task


class _Publish(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan, overwrite: bool) -> None:
        self._plan = plan
        self._overwrite = overwrite

    def process(self, gathered: tuple[None, Iterable[AssembledShard | TableSummary | None]]) -> Iterator[str]:
        values = [value for value in gathered[1] if value is not None]
        shards = [value for value in values if isinstance(value, AssembledShard)]
        summaries = [value for value in values if isinstance(value, TableSummary)]
        yield publish(self._plan, summaries, shards, overwrite=self._overwrite)


class WriteTable(beam.PTransform):  # type: ignore[misc]
    """Writes records, in order: :class:`~patchbeam.elements.RecordRun` → name of the report.

    One gzip file, or shards of chips.

    Args:
        plan: the export.
        threads: threads inside one element.
        overwrite: whether files of an earlier export with this prefix are replaced.
    """

    def __init__(self, plan: TablePlan, *, threads: int = 1, overwrite: bool = False) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._overwrite = overwrite

    def expand(self, runs: beam.PCollection[RecordRun]) -> beam.PCollection[str]:
        """Pieces, files, publication."""
        plan = self._plan
        pieces = runs | "WritePieces" >> beam.ParDo(_WritePieces(plan, self._threads)).with_output_types(
            Piece
        )
        files = (
            gather(pieces, "Pieces")
            | "PlanFiles" >> beam.ParDo(_PlanFiles(plan))
            | "Deal" >> beam.Reshuffle()
            | "Assemble" >> beam.ParDo(_Assemble(plan))
        )
        return gather(files, "Files") | "Publish" >> beam.ParDo(_Publish(plan, self._overwrite))
