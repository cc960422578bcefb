"""Raster values at features: spooled by block, sampled block by block, gathered in feature order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import apache_beam as beam

from patchbeam.elements import RecordRun
from patchbeam.errors import CountMismatch
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.sampling.blocks import BlockSampler, block_run, spool_records
from patchbeam.tables.sampling.draw import (
    BlockDrawer,
    Candidates,
    chosen_pixels,
    merge,
    write_points,
)
from patchbeam.tables.sampling.locate import Locator
from patchbeam.tables.sampling.ordering import ordered_run
from patchbeam.tables.sampling.plan import OUTSIDE, SamplePlan
from patchbeam.tables.sampling.spool import GatherTask, Stretches, write_index
from patchbeam.tables.source import FeatureBatch
from transforms import coders as coders
from transforms.meters import Advance, Reading, counter
from transforms.write import gather

_NEVER = -2


class _Spool(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan

    def setup(self) -> None:
        self._locator = Locator(self._plan)

    def process(self, batch: FeatureBatch) -> Iterator[Stretches]:
        yield self._locator.spool(batch)


class _Index(beam.DoFn):  # type: ignore[misc]
    """All stretches → a task a block, or a bucket."""

    def __init__(self, plan: TablePlan, last: int) -> None:
        self._plan = plan
        self._last = last

    def process(self, gathered: tuple[None, Iterable[Stretches | None]]) -> Iterator[GatherTask]:
        parts = [part for part in gathered[1] if part is not None]
        features = sum(int(part.table[:, 2].sum()) for part in parts)
        if features != self._plan.source.rows:
            raise CountMismatch(
                f"{features} features came out of the pipeline and {self._plan.source.path} has "
                f"{self._plan.source.rows}: the runner lost or repeated work; nothing has been published. "
                "Run the job "
                "again, on another runner if it happens again"
            )
        yield from write_index(self._plan.temporary_folder, parts, last=self._last)


class _Sample(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan, threads: int, to_spool: bool) -> None:
        self._plan = plan
        self._threads = threads
        self._to_spool = to_spool

    def setup(self) -> None:
        self._sampler = BlockSampler(self._plan, threads=self._threads)
        self._blocks, self._reading = counter("blocks_read"), Reading()
        self._advance = Advance("features_sampled")

    def process(self, task: GatherTask) -> Iterator[RecordRun | Stretches]:
        done = 0
        for number, records in enumerate(self._sampler.records(task)):
            if self._to_spool:
                yield spool_records(self._plan, task, number, records)
            else:
                yield block_run(task, done, records, len(self._plan.columns))
            done += len(records.sizes)
            self._reading.take()
            self._advance(len(records.sizes), len(records.data))
        self._blocks.inc(task.key != OUTSIDE)

    def teardown(self) -> None:
        if hasattr(self, "_sampler"):
            self._sampler.close()


class _Order(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: TablePlan) -> None:
        self._plan = plan

    def process(self, task: GatherTask) -> Iterator[RecordRun]:
        yield ordered_run(self._plan, task)


class SampleFeatures(beam.PTransform):  # type: ignore[misc]
    """Encodes features with raster values: :class:`FeatureBatch` → :class:`~patchbeam.elements.RecordRun`.

    Args:
        plan: the export; its ``sample`` says what is sampled, and whether records come out in the order
            of the features or of the read blocks.
        threads: threads inside one element.
    """

    def __init__(self, plan: TablePlan, *, threads: int = 1) -> None:
        super().__init__()
        self._plan = plan
        self._threads = threads

    def expand(self, batches: beam.PCollection[FeatureBatch]) -> beam.PCollection[RecordRun]:
        """Spools, an index, one read of each block, and records put in order."""
        plan = self._plan
        assert plan.sample is not None
        by_feature = plan.sample.order == "source"
        spooled = batches | "Spool" >> beam.ParDo(_Spool(plan))
        sample = beam.ParDo(_Sample(plan, self._threads, by_feature))
        sampled = (
            gather(spooled, "Spools")
            | "Index" >> beam.ParDo(_Index(plan, OUTSIDE))
            | "DealBlocks" >> beam.Reshuffle()
            | "Sample" >> (sample if by_feature else sample.with_output_types(RecordRun))
        )
        if not by_feature:
            return sampled
        return (
            gather(sampled, "Sampled")
            | "IndexSampled" >> beam.ParDo(_Index(plan, _NEVER))
            | "DealBuckets" >> beam.Reshuffle()
            | "Order" >> beam.ParDo(_Order(plan)).with_output_types(RecordRun)
        )


class _Draw(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: SamplePlan, threads: int) -> None:
        self._plan = plan
        self._threads = threads

    def setup(self) -> None:
        self._drawer = BlockDrawer(self._plan, threads=self._threads)
        self._reading, self._advance = Reading(), Advance("label_blocks")

    def process(self, blocks: tuple[int, int]) -> Iterator[dict[int, Candidates]]:
        assert self._plan.draw is not None
        found: dict[int, Candidates] = {}
        for block in range(*blocks):
            found = merge([found, self._drawer.draw(block)], self._plan.draw.per_class)
            self._reading.take()
            self._advance(1)
        yield found

    def teardown(self) -> None:
        if hasattr(self, "_drawer"):
            self._drawer.close()


class _Choose(beam.DoFn):  # type: ignore[misc]
    def __init__(self, plan: SamplePlan, folder: str, tasks: int) -> None:
        self._plan = plan
        self._folder = folder
        self._tasks = tasks

    def process(self, gathered: tuple[None, Iterable[dict[int, Candidates] | None]]) -> Iterator[str]:
        draw = self._plan.draw
        assert draw is not None
        drawn = [one for one in gathered[1] if one is not None]
        if len(drawn) != self._tasks:
            raise CountMismatch(
                f"{len(drawn)} of {self._tasks} parts of the class band came out of the pipeline: the "
                "runner lost or "
                "repeated work; run the job again"
            )
        pixels = chosen_pixels(merge(drawn, draw.per_class), draw)
        yield write_points(self._plan, pixels, self._folder)


class DrawPoints(beam.PTransform):  # type: ignore[misc]
    """Draws points of each class from a class band: ``PBegin`` → name of a table of x and y.

    Args:
        plan: ``draw`` says what is drawn.
        folder: where the table is written.
        threads: threads inside one element.
    """

    def __init__(self, plan: SamplePlan, folder: str, *, threads: int = 1) -> None:
        super().__init__()
        self._plan = plan
        self._folder = folder
        self._threads = threads

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        """Candidates of each stretch of blocks, merged."""
        blocks = self._plan.across * self._plan.down
        step = max(1, -(-blocks // 256))
        tasks = [(start, min(blocks, start + step)) for start in range(0, blocks, step)]
        drawn = (
            begin
            | "Blocks" >> beam.Create(tasks)
            | "Deal" >> beam.Reshuffle()
            | "Draw" >> beam.ParDo(_Draw(self._plan, self._threads))
        )
        return gather(drawn, "Drawn") | "Choose" >> beam.ParDo(_Choose(self._plan, self._folder, len(tasks)))
