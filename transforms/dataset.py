"""Any database to TFRecord shards: ranges of items, dealt out, written, packed, published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam

from patchbeam.assemble import AssembledShard, assemble
from patchbeam.data.convert import RangeWriter, SetPlan
from patchbeam.data.convert_publish import plan_shards, publish_set
from patchbeam.elements import Piece
from patchbeam.pool import Pool
from patchbeam.shards import Shard
from patchbeam.summary import Summary
from transforms import coders as coders
from transforms.meters import Advance, counter, distribution
from transforms.write import gather


class _WriteRanges(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: SetPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._writer = RangeWriter(self._plan, self._pool)
        self._items, self._bytes = counter("items_written"), counter("bytes_encoded")
        self._stored, self._sizes = counter("bytes_stored"), distribution("piece_bytes")
        self._advance = Advance("items")

    def process(self, task: tuple[int, int]) -> Iterator[Piece]:
        pieces = list(self._writer.write(*task))
        encoded = sum(int(piece.members[:, 1].sum()) for piece in pieces)
        self._items.inc(task[1])
        self._bytes.inc(encoded)
        self._advance(task[1], encoded)
        for piece in pieces:
            size = int(piece.members[:, 2].sum())
            self._stored.inc(size)
            self._sizes.update(size)
            yield piece

    def teardown(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close()


class _PlanShards(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: SetPlan) -> None:
        self._plan = plan

    def process(self, gathered: tuple[None, Iterable[Piece | None]]) -> Iterator[Shard | Summary]:
        yield from plan_shards(self._plan, [piece for piece in gathered[1] if piece is not None])


class _Assemble(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: SetPlan) -> None:
        self._plan = plan

    def process(self, task: Shard | Summary) -> Iterator[AssembledShard | Summary]:
        if isinstance(task, Shard):
            yield assemble(task, self._plan.temporary_folder, profile=self._plan.gzip)
        else:
            yield task


class _Publish(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: SetPlan, overwrite: bool) -> None:
        self._plan = plan
        self._overwrite = overwrite

    def process(self, gathered: tuple[None, Iterable[AssembledShard | Summary | None]]) -> Iterator[str]:
        values = [value for value in gathered[1] if value is not None]
        shards = [value for value in values if isinstance(value, AssembledShard)]
        summaries = [value for value in values if isinstance(value, Summary)]
        yield publish_set(self._plan, summaries, shards, overwrite=self._overwrite)


class DatabaseToTFRecords(beam.PTransform):  # type: ignore[misc]
    """Writes the items of a database as records, in order: ``PBegin`` → name of the manifest.

    The database is opened on each worker from the plan's recipe; no data travels with the job. The same
    bytes are written whatever the number of workers.

    Args:
        plan: from :func:`patchbeam.data.convert.plan_set`.
        threads: threads inside one element.
        overwrite: whether files of an earlier set with this prefix are replaced.
    """

    def __init__(self, plan: SetPlan, *, threads: int = 1, overwrite: bool = False) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._overwrite = overwrite

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        """Ranges, pieces, shards, publication."""
        plan = self._plan
        pieces = (
            begin
            | "Ranges" >> beam.Create(plan.ranges)
            | "DealRanges" >> beam.Reshuffle()
            | "WriteRanges" >> beam.ParDo(_WriteRanges(plan, self._threads)).with_output_types(Piece)
        )
        shards = (
            gather(pieces, "Pieces")
            | "PlanShards" >> beam.ParDo(_PlanShards(plan))
            | "DealShards" >> beam.Reshuffle()
            | "Assemble" >> beam.ParDo(_Assemble(plan))
        )
        return gather(shards, "Shards") | "Publish" >> beam.ParDo(_Publish(plan, self._overwrite))
