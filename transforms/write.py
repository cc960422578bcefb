"""Runs of records to shards, mixer and manifest.

Runs are compressed and stored as pieces where they are made; only what describes a piece is gathered.
One task then packs pieces into shards, tasks assemble them side by side, and a last one counts
everything against the plan and publishes.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

import apache_beam as beam

from patchbeam.assemble import AssembledShard, assemble
from patchbeam.elements import Piece, RecordRun
from patchbeam.export import piece_writer, plan_shards, temporary_folder
from patchbeam.finished import write_run
from patchbeam.lock import LockTicket
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from patchbeam.publish import publish
from patchbeam.shards import Shard
from patchbeam.summary import Summary, in_order, summarize
from transforms import coders as coders
from transforms.blocks import FinishedPieces
from transforms.meters import Advance, Reading, counter, distribution


class _WritePieces(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int, laid: str | None) -> None:
        self._plan = plan
        self._threads = threads
        self._laid = laid

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._writer = piece_writer(self._plan, self._pool, self._laid)
        self._folder = temporary_folder(self._plan)
        self._stored, self._sizes = counter("bytes_stored"), distribution("piece_bytes")
        self._reading, self._advance = Reading(), Advance("patches")

    def process(self, run: RecordRun) -> Iterator[Piece]:
        pieces = list(self._writer.write(run))
        write_run(self._folder, pieces)
        self._reading.take()
        self._advance(run.patches, len(run.data))
        for piece in pieces:
            size = int(piece.members[:, 2].sum())
            self._stored.inc(size)
            self._sizes.update(size)
            yield piece

    def teardown(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close()


class _PlanShards(beam.DoFn):  # type: ignore[misc]
    """All pieces → shards in groups of as many as one machine assembles side by side, and the summary."""

    def __init__(self, plan: ExportPlan, group: int) -> None:
        self._plan = plan
        self._group = group

    def process(self, gathered: tuple[None, Iterable[Piece | None]]) -> Iterator[tuple[Shard | Summary, ...]]:
        pieces = [piece for piece in gathered[1] if piece is not None]
        ordered = in_order(pieces, self._plan.patches.count)
        group: list[Shard | Summary] = []
        count = 0
        for shard in plan_shards(self._plan, ordered):
            count += 1
            group.append(shard)
            if len(group) == self._group:
                yield tuple(group)
                group = []
        parts = self._plan.split_parts
        yield (*group, summarize(ordered, len(self._plan.record_bands), count, parts))


class _AssembleShards(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._pool = Pool(self._threads)
        self._reading, self._advance = Reading(), Advance("shards")

    def process(self, group: tuple[Shard | Summary, ...]) -> Iterator[AssembledShard | Summary]:
        folder = temporary_folder(self._plan)
        profile = self._plan.gzip if self._plan.options.compressed else None
        shards = [task for task in group if isinstance(task, Shard)]
        # the last shard is often far smaller than the others
        share = self._threads / max(1, sum(shard.size_bytes for shard in shards))

        def work(shard: Shard) -> AssembledShard:
            threads = max(1, round(share * shard.size_bytes))
            return assemble(shard, folder, profile=profile, threads=threads)

        for done in self._pool.map(work, shards):
            self._reading.take()
            self._advance(1, done.size_bytes)
            yield done
        yield from (task for task in group if isinstance(task, Summary))

    def teardown(self) -> None:
        if hasattr(self, "_pool"):
            self._pool.close()


class _Publish(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: ExportPlan, overwrite: bool, lock: LockTicket | None) -> None:
        self._plan = plan
        self._overwrite = overwrite
        self._lock = lock

    def process(self, gathered: tuple[None, Iterable[AssembledShard | Summary | None]]) -> Iterator[str]:
        values = [value for value in gathered[1] if value is not None]
        shards = [value for value in values if isinstance(value, AssembledShard)]
        summaries = [value for value in values if isinstance(value, Summary)]
        yield publish(self._plan, summaries, shards, overwrite=self._overwrite, lock=self._lock)


class WriteToTFRecord(beam.PTransform):  # type: ignore[misc]
    """Writes shards, mixer and manifest: :class:`~patchbeam.elements.RecordRun` → name of the manifest.

    Beam's transform of the same name deals records out in any order, has no limit in bytes and leaves
    the shards of an earlier run; this one keeps patch order, honours ``maxFileSize`` and publishes whole.

    Args:
        plan: the export.
        threads: threads inside one element.
        overwrite: whether files of an earlier export with this prefix are replaced.
        finished: file of what an interrupted run has finished.
        lock: what shows, when the run publishes, that it still holds its output.
        one_machine: whether the whole run is on this machine, so that workers may write one file together.
    """

    def __init__(
        self,
        plan: ExportPlan,
        *,
        threads: int = 1,
        overwrite: bool = False,
        finished: str | None = None,
        lock: LockTicket | None = None,
        one_machine: bool = False,
    ) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads
        self._overwrite = overwrite
        self._finished = finished
        self._lock = lock
        self._laid = uuid.uuid4().hex[:8] if one_machine else None

    def expand(self, runs: beam.PCollection[RecordRun]) -> beam.PCollection[str]:
        """Pieces, shards, publication."""
        plan, threads = self._plan, self._threads
        pieces = runs | "WritePieces" >> beam.ParDo(
            _WritePieces(plan, threads, self._laid)
        ).with_output_types(Piece)
        if self._finished is not None:
            before = runs.pipeline | "FinishedPieces" >> FinishedPieces(self._finished)
            pieces = (pieces, before) | "WithFinished" >> beam.Flatten()
        shards = (
            gather(pieces, "Pieces")
            | "PlanShards" >> beam.ParDo(_PlanShards(plan, threads))
            | "Deal" >> beam.Reshuffle()
            | "Assemble" >> beam.ParDo(_AssembleShards(plan, threads))
        )
        return gather(shards, "Shards") | "Publish" >> beam.ParDo(_Publish(plan, self._overwrite, self._lock))


def gather(values: beam.PCollection, name: str) -> beam.PCollection:
    """Brings all values to one place: ``value`` → ``(None, values)``, also when there are none.

    One ``None`` is among the values, so that the next step runs even if a runner lost everything.
    """
    keyed = values | f"Key{name}" >> beam.Map(lambda value: (None, value))
    marker = values.pipeline | f"Mark{name}" >> beam.Create([(None, None)])
    return (keyed, marker) | f"With{name}" >> beam.Flatten() | f"Gather{name}" >> beam.GroupByKey()
