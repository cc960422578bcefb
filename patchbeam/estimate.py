"""What an export will take, from a few of its blocks that are really read, encoded and compressed.

Blocks are drawn without repetition by a seed. Every sum over the export is the sum over the sampled blocks
times patches of the export over patches of the sample, and comes with an interval that follows from how
much the sampled blocks differ. Nothing is written.
"""

from __future__ import annotations

import io
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.errors import JobError
from patchbeam.export import BlockReader, block_encoder
from patchbeam.order import Ints, check_seed, order
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool, core_count
from patchbeam.records.gzip import compress_members
from patchbeam.records.zlib6 import Zlib6Writer

BLOCKS = 8
"""Blocks that are sampled, where there are so many."""

_ZLIB6_BYTES = 8 << 20  # of a run: zlib at level 6 is slow and its pace even
_STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23)
"""Standard errors that hold 95 % of what chance does, by the number of blocks less two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMeasure:
    """What one block took.

    Attributes:
        block: its number.
        patches: those of it that its place lets through.
        records: those it gave; fewer than its patches give where masked ones are dropped.
        read_s: seconds to read it.
        encode_s: seconds spent waiting for its records to be encoded; with several threads that goes on
            while others are compressed.
        compress_s: seconds to compress it, 0 where records are stored as they are.
        cpu_s: seconds of all cores together.
        uncompressed_bytes: of its records.
        stored_bytes: of its records, compressed.
    """

    block: int
    patches: int
    records: int
    read_s: float
    encode_s: float
    compress_s: float
    cpu_s: float
    uncompressed_bytes: int
    stored_bytes: int

    @property
    def seconds(self) -> float:
        """All of it, from the first to the last."""
        return self.read_s + self.encode_s + self.compress_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A sum over the whole export.

    Attributes:
        value: the estimate.
        least: where the interval begins.
        most: where it ends.
    """

    value: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an export will take.

    Attributes:
        blocks: measured ones, in the order in which they were.
        blocks_in_all: blocks that will be read; those of which no patch is chosen are not.
        patches_in_all: patches that their place lets through.
        threads: threads that a block was worked on with.
        seed: of the draw of blocks.
        all_of_class_draw: whether classes decide which patches are written: everything is then counted as
            if all were, and the pass that looks for classes is left out.
    """

    blocks: tuple[BlockMeasure, ...]
    blocks_in_all: int
    patches_in_all: int
    threads: int
    seed: int
    all_of_class_draw: bool = False

    @property
    def seconds(self) -> Total:
        """Time on this machine."""
        return self._total([one.seconds for one in self.blocks])

    @property
    def cpu_seconds(self) -> Total:
        """Time of one core of this machine."""
        # with one thread, waiting for a disk or the network keeps the core too
        return self._total([one.seconds if self.threads == 1 else one.cpu_s for one in self.blocks])

    @property
    def uncompressed_bytes(self) -> Total:
        """Size of all records."""
        return self._total([one.uncompressed_bytes for one in self.blocks])

    @property
    def stored_bytes(self) -> Total:
        """Size of all shards on disk."""
        return self._total([one.stored_bytes for one in self.blocks])

    @property
    def records(self) -> Total:
        """Number of records."""
        return self._total([one.records for one in self.blocks])

    @property
    def ratio(self) -> float | None:
        """Uncompressed size over stored size; ``None`` when no record came out."""
        stored = sum(one.stored_bytes for one in self.blocks)
        return sum(one.uncompressed_bytes for one in self.blocks) / stored if stored else None

    @property
    def seconds_per_block(self) -> tuple[float, float]:
        """Least and most that a sampled block took."""
        seconds = [one.seconds for one in self.blocks]
        return min(seconds), max(seconds)

    @property
    def is_all(self) -> bool:
        """Whether every block was measured, so that nothing is guessed from others."""
        return len(self.blocks) >= self.blocks_in_all

    def _total(self, values: Sequence[float]) -> Total:
        patches = [one.patches for one in self.blocks]
        return scaled(values, patches, self.patches_in_all, self.blocks_in_all)


def scaled(values: Sequence[float], sizes: Sequence[int], size_in_all: int, count_in_all: int) -> Total:
    """Returns the sum of a value over all blocks, from those that were sampled.

    The ratio estimator for simple random sampling without replacement: its standard error is that of the
    values' distances from the line through the origin, and vanishes as the sample becomes the whole.

    Args:
        values: of each sampled block.
        sizes: of each sampled block.
        size_in_all: of all blocks together.
        count_in_all: number of blocks.
    """
    if not sizes or not sum(sizes):
        return Total(value=0.0, least=0.0, most=0.0)
    count = len(sizes)
    ratio = math.fsum(values) / sum(sizes)
    value = ratio * size_in_all
    if count >= count_in_all:
        return Total(value=value, least=value, most=value)
    if count == 1:
        return Total(value=value, least=0.0, most=math.inf)
    spread = math.fsum((v - ratio * s) ** 2 for v, s in zip(values, sizes, strict=True)) / (count - 1)
    error = count_in_all * math.sqrt((1 - count / count_in_all) * spread / count)
    reach = error * (_STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.96 + 2.6 / (count - 1))
    return Total(value=value, least=max(0.0, value - reach), most=value + reach)


def estimate_export(
    plan: ExportPlan, *, blocks: int = BLOCKS, seed: int = 0, threads: int | None = None
) -> Estimate:
    """Measures a sample of a plan's blocks.

    Args:
        plan: the export.
        blocks: how many to sample, where there are so many.
        seed: decides which.
        threads: threads to work on a block with; default all cores, as a local run has.

    Raises:
        JobError: ``blocks`` is not 1 or more, or the seed is none.
        ReadFailed: a source cannot be read.
        EncodeError: a value does not fit its feature.
    """
    if blocks < 1:
        raise JobError(f"blocks: {blocks} is not 1 or more")
    check_seed(seed)
    threads = threads or core_count()
    counts = chosen_patches(plan)
    busy = np.flatnonzero(counts)
    drawn = busy[order(len(busy), seed, 0)[: min(blocks, len(busy))]]
    reader = BlockReader(plan, threads=threads)
    measured = []
    try:
        with Pool(threads) as pool:
            if len(drawn) < len(busy):
                # one that is not in the sample brings in what only the first one pays for
                _measure(plan, reader, pool, int(busy[order(len(busy), seed, 0)[-1]]), 0)
            for block in drawn.tolist():
                measured.append(_measure(plan, reader, pool, block, int(counts[block])))
    finally:
        reader.close()
    return Estimate(
        blocks=tuple(measured),
        blocks_in_all=len(busy),
        patches_in_all=int(counts.sum()),
        threads=threads,
        seed=seed,
        all_of_class_draw=plan.sample is not None and plan.sample.per_class is not None,
    )


def chosen_patches(plan: ExportPlan) -> Ints:
    """Returns how many patches of each block its place lets through, int64 ``(block,)``."""
    blocks, patches = plan.blocks, plan.patches
    rows = np.arange(patches.rows) // blocks.columns_rows[1]
    columns = np.arange(patches.columns) // blocks.columns_rows[0]
    parts = blocks.parts
    found = np.zeros(blocks.count, np.int64)
    for row, of_row in enumerate(rows.tolist()):
        at = slice(row * patches.columns, (row + 1) * patches.columns)
        chosen = columns if parts is None else columns[parts[at] >= 0]
        first = of_row * blocks.across
        found[first : first + blocks.across] += np.bincount(chosen, minlength=blocks.across)
    return found


def _measure(plan: ExportPlan, reader: BlockReader, pool: Pool, block: int, patches: int) -> BlockMeasure:
    encoder = block_encoder(plan, pool)
    cpu = time.process_time()
    begun = time.perf_counter()
    pixels = reader.read(block)
    read_s = time.perf_counter() - begun
    encode_s = compress_s = 0.0
    records = size = stored = 0
    sample = b""
    runs = iter(encoder.runs(pixels))
    while True:
        begun = time.perf_counter()
        run = next(runs, None)
        encode_s += time.perf_counter() - begun
        if run is None:
            break
        records += run.records
        size += len(run.data)
        if plan.piece_gzip and run.records:
            begun = time.perf_counter()
            sizes = run.sizes if run.sizes is not None else np.full(run.records, run.record_size, np.int64)
            stored += sum(len(member) for member in compress_members(run.data, sizes, pool=pool))
            compress_s += time.perf_counter() - begun
        elif plan.options.compressed and not sample:
            sample = run.data[:_ZLIB6_BYTES].tobytes()
    cpu_s = time.process_time() - cpu
    if sample:
        ratio, byte_s = _zlib6(sample)
        stored = round(size * ratio)
        cpu_s += size * byte_s
        # whole shards are compressed, one a thread
        compress_s = size * byte_s / min(pool.threads, max(1, plan.bounds.shards[0]))
    return BlockMeasure(
        block=block,
        patches=patches,
        records=records,
        read_s=read_s,
        encode_s=encode_s,
        compress_s=compress_s,
        cpu_s=cpu_s,
        uncompressed_bytes=size,
        stored_bytes=stored if plan.options.compressed else size,
    )


def _zlib6(data: bytes) -> tuple[float, float]:
    """Returns stored bytes and seconds of one byte."""
    target = io.BytesIO()
    begun = time.perf_counter()
    writer = Zlib6Writer(target)
    writer.write(data)
    writer.close()
    return target.tell() / len(data), (time.perf_counter() - begun) / len(data)
