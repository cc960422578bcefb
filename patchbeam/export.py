"""The stages of an image export as plain functions; the Beam transforms call these."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from patchbeam import storage
from patchbeam.assemble import member_records
from patchbeam.elements import BandPixels, Ints, Piece, PixelBlock
from patchbeam.encode import BlockEncoder
from patchbeam.encode_example import ExampleEncoder
from patchbeam.encode_sequence import SequenceEncoder
from patchbeam.errors import EncodeError, ReadFailed
from patchbeam.missing import note_missing
from patchbeam.patches import Window
from patchbeam.pieces import PieceWriter
from patchbeam.pixels import stored_block
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from patchbeam.rasters.coordinates import prepare
from patchbeam.rasters.reader import ImageReader
from patchbeam.retry import retrying
from patchbeam.selection import Parts
from patchbeam.shards import RecordTooLarge, Shard, pack
from patchbeam.summary import by_split

_LOG = logging.getLogger(__name__)


def temporary_folder(plan: ExportPlan) -> str:
    """Returns the temporary prefix of an export: beside the output, named by the plan's fingerprint."""
    folder, name = storage.split(plan.output)
    return storage.join(folder, f".{name}-{plan.fingerprint[:12]}.tmp")


class BlockReader:
    """Reads blocks of a plan, margins included, and makes them what records hold.

    Args:
        plan: the export.
        threads: threads a block is read with.
    """

    def __init__(self, plan: ExportPlan, *, threads: int) -> None:
        self._plan = plan
        self._reader = ImageReader(plan.sources, plan.bands, plan.grid, threads=threads)

    def read(self, block: int, drawn: Parts | None = None) -> PixelBlock:
        """Returns the pixels of a block; one without bands when none of its patches is chosen by its place.

        Args:
            block: number of the block.
            drawn: of each patch its split or -1, after a draw that pixels decide; ``None`` without one.

        Raises:
            ReadFailed: a source cannot be read there; names file, band and window.
        """
        plan = self._plan
        if plan.may_drop and plan.blocks.is_idle(block, drawn):
            return PixelBlock(block=block, bands=(), valid=None)
        window = plan.blocks.window(block)
        return stored_block(
            block,
            self._pixels(block, window),
            plan.record_bands,
            default=plan.options.default_value,
            compact=plan.compact,
            inside=None if plan.clip is None else plan.clip.mask(window),
        )

    def _pixels(self, block: int, window: Window) -> list[BandPixels]:
        missing: set[str] = set()
        while True:
            try:
                # what broke may be a connection that an open dataset holds on to
                pixels = retrying(lambda: self._reader.read(window, missing), between=self._reader.close)
            except ReadFailed as error:
                if self._plan.on_missing == "error" or error.source is None or error.source in missing:
                    raise
                _LOG.warning("%s; this source is masked in block %d", error, block)
                missing.add(error.source)
                continue
            if self._plan.on_missing == "mask":
                note_missing(temporary_folder(self._plan), block, window, missing)
            return pixels

    def close(self) -> None:
        """Closes the datasets."""
        self._reader.close()


def prepare_reading(plan: ExportPlan) -> None:
    """Begins in the background what the first block would wait for, where this process will read it."""
    for source in plan.sources:
        prepare(source.files[0], plan.grid)


def block_encoder(plan: ExportPlan, pool: Pool) -> BlockEncoder:
    """Returns the encoder of a plan's blocks."""
    common: dict[str, Any] = {
        "defaults": plan.defaults,
        "masked_threshold": plan.options.masked_threshold,
        "keep": plan.keep,
        "tallies": plan.tallies,
        "strict": plan.strict,
        "pool": pool,
    }
    if plan.options.sequence_data:
        return SequenceEncoder(plan.blocks, plan.record_bands, plan.features, compact=plan.compact, **common)
    return ExampleEncoder(plan.blocks, plan.record_bands, plan.features, **common)


def piece_writer(plan: ExportPlan, pool: Pool, laid: str | None = None) -> PieceWriter:
    """Returns the writer of a plan's pieces.

    Args:
        plan: the export.
        pool: the threads to use.
        laid: suffix of this run's files, so that records are written straight to where they belong in their
            shards where that can be done; not where several machines may write one file.
    """
    return PieceWriter(
        temporary_folder(plan),
        gzip=plan.piece_gzip,
        records_per_shard=plan.records_per_shard,
        records_per_patch=plan.records_per_patch,
        pool=pool,
        laid=laid if plan.can_lay else None,
    )


def plan_shards(plan: ExportPlan, ordered: Sequence[Piece]) -> Iterator[Shard]:
    """Packs pieces in order into shards, split after split; records are numbered from 0 in each.

    Raises:
        EncodeError: a record is larger than a shard may be; names the patch.
    """

    def sizes(piece: Piece, member: int, offset: int, stored: int) -> Ints:
        return retrying(lambda: member_records(piece, member, offset, stored, gzip=plan.piece_gzip))

    count = 0
    try:
        for pieces in by_split(ordered, plan.split_parts):
            for shard in pack(pieces, plan.options.max_file_size_bytes, sizes):
                yield replace(shard, number=count)
                count += 1
    except RecordTooLarge as error:
        limit = plan.options.max_file_size_bytes
        run = next(p for p in ordered if p.order == (error.piece.order[0], 0))
        patch = _patch_of(run, error.record // plan.records_per_patch)
        raise EncodeError(
            f"patch {patch}: its record takes {error.size} bytes, more than formatOptions.maxFileSize "
            f"({limit}); raise it to at least {error.size} or make patches smaller"
        ) from None


def _patch_of(run: Piece, position: int) -> int:
    for first, count in run.kept.tolist():
        if position < count:
            return int(first) + position
        position -= count
    return run.order[0]
