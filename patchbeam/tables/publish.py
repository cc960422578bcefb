"""The last steps of a table export: pieces are counted and packed, files published, a report left."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

from patchbeam import storage
from patchbeam.assemble import AssembledShard, member_records
from patchbeam.elements import Ints, Piece
from patchbeam.errors import CountMismatch, EncodeError, OutputExists
from patchbeam.finished_shards import begin_publication, end_publication
from patchbeam.records.names import shard_name
from patchbeam.retry import retrying
from patchbeam.shards import RecordTooLarge, Shard, pack
from patchbeam.summary import in_order
from patchbeam.tables.plan import TablePlan

_ONE_FILE = 1 << 62
_REPORT = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """What the pieces together say.

    Attributes:
        features: features looked at.
        records: records written.
        size_bytes: uncompressed bytes written.
        shards: files that they make.
        counts: rounded integers of each property, then whatever sampling counts.
    """

    features: int
    records: int
    size_bytes: int
    shards: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What a table export has done.

    Attributes:
        files: written, in order.
        features: features of the table.
        records: records written.
        uncompressed_bytes: of all records, framed.
        stored_bytes: of all files.
        rounded: property → integers that float32 could not hold; only those that have some.
        outside: features outside the rasters, whose bands are null.
        masked: values that are null because the pixel is masked there, or no pixel lies in the polygon;
            for chips, values of centre pixels.
        rounded_bands: sampled band → integers that float32 could not hold; only those that have some.
    """

    files: tuple[str, ...]
    features: int
    records: int
    uncompressed_bytes: int
    stored_bytes: int
    rounded: dict[str, int]
    outside: int = 0
    masked: int = 0
    rounded_bands: dict[str, int] = field(default_factory=dict)


def plan_files(plan: TablePlan, pieces: Sequence[Piece]) -> Iterator[Shard | TableSummary]:
    """Yields the files to assemble and, last, the summary.

    Raises:
        CountMismatch: a run is missing or came twice.
        EncodeError: a chip is larger than a shard may be.
    """
    ordered = in_order(pieces, plan.source.rows)
    limit = plan.sample.max_file_size_bytes if plan.chips and plan.sample is not None else _ONE_FILE

    def sizes(piece: Piece, member: int, offset: int, stored: int) -> Ints:
        return retrying(lambda: member_records(piece, member, offset, stored, gzip=plan.piece_gzip))

    shards = 0
    try:
        for shard in pack(ordered, limit, sizes):
            shards += 1
            yield shard
    except RecordTooLarge as error:
        raise EncodeError(
            f"record {error.piece.order[0] + error.record}: takes {error.size} bytes, more than "
            "sample.maxFileSize "
            f"({limit}); raise it, or make sample.patch smaller"
        ) from None
    firsts = [piece for piece in ordered if piece.order[1] == 0]
    yield TableSummary(
        features=sum(piece.patches for piece in ordered),
        records=sum(piece.records for piece in ordered),
        size_bytes=sum(int(piece.members[:, 1].sum()) for piece in ordered),
        shards=shards,
        counts=tuple(sum(column) for column in zip(*(piece.rounded for piece in firsts), strict=True)),
    )


def publish(
    plan: TablePlan, summaries: Sequence[TableSummary], shards: Sequence[AssembledShard], *, overwrite: bool
) -> str:
    """Publishes the files and returns the name of the report, which lies under the temporary prefix.

    Raises:
        CountMismatch: files, records or bytes are not those of the pieces; nothing is published.
        OutputExists: another export has been published here in the meantime.
    """
    shards = sorted(shards, key=lambda shard: shard.number)
    if len(summaries) != 1:
        raise CountMismatch(
            f"{len(summaries)} summaries came out of the pipeline instead of one; run the job again"
        )
    summary = summaries[0]
    found = (len(shards), sum(s.records for s in shards), sum(s.size_bytes for s in shards))
    due = (summary.shards, summary.records, summary.size_bytes)
    if found != due or summary.records != plan.source.rows:
        raise CountMismatch(
            f"{found[0]} files of {found[1]} records and {found[2]} bytes were written; {due[0]} of "
            f"{due[1]} records "
            f"and {due[2]} bytes are due, from {plan.source.rows} features: the runner lost or repeated "
            "work; nothing "
            "has been published. Run the job again, on another runner if it happens again"
        )
    names = [_name(plan, shard.number, len(shards)) for shard in shards]
    there = plan.outputs_there()
    # a repeated attempt finds what it has published itself: its temporary file is gone then
    moved = {name for name, shard in zip(names, shards, strict=True) if not storage.exists(shard.path)}
    if not overwrite and not set(there) <= moved:
        raise OutputExists(
            f"output: another run has published {there[0]} here meanwhile; nothing of this run has been "
            "published; "
            "give another output, or --overwrite"
        )
    begin_publication(plan.temporary_folder, names)
    for name, shard in zip(names, shards, strict=True):
        retrying(partial(_move, shard, name))
    for path in there:
        if path not in names:
            retrying(partial(storage.delete, path))
    columns = [column.name for column in plan.columns]
    rest = summary.counts[len(columns) :]
    report = TableReport(
        files=tuple(names),
        features=summary.features,
        records=summary.records,
        uncompressed_bytes=summary.size_bytes,
        stored_bytes=sum(shard.stored_bytes for shard in shards),
        rounded={n: c for n, c in zip(columns, summary.counts, strict=False) if c},
        outside=rest[0] if rest else 0,
        masked=rest[1] if len(rest) > 1 else 0,
        rounded_bands={
            n: c for n, c in zip(plan.sample.names if plan.sample else (), rest[2:], strict=False) if c
        },
    )
    name = storage.join(plan.temporary_folder, _REPORT)
    retrying(lambda: storage.write_atomic(name, json.dumps(asdict(report)).encode()))
    return name


def is_published(plan: TablePlan) -> bool:
    """Whether a run has published everything, and left the report that its caller takes."""
    return storage.exists(storage.join(plan.temporary_folder, _REPORT))


def take_report(plan: TablePlan) -> TableReport:
    """Returns the report of a run that has ended, and deletes the temporary files.

    Raises:
        CountMismatch: there is none: the runner reports success and nothing was published.
    """
    if not is_published(plan):
        raise CountMismatch(
            f"{plan.output}: the runner reports success and has not published; run the job again"
        )
    values = json.loads(storage.read_bytes(storage.join(plan.temporary_folder, _REPORT)))
    end_publication(plan.temporary_folder)
    return TableReport(**{**values, "files": tuple(values["files"])})


def _name(plan: TablePlan, number: int, count: int) -> str:
    if not plan.chips:
        return f"{plan.output}.tfrecord.gz"
    return shard_name(plan.output, number, count)


def _move(shard: AssembledShard, name: str) -> None:
    if storage.exists(shard.path):
        storage.rename(shard.path, name)
    elif not storage.exists(name) or storage.stat(name).size_bytes != shard.stored_bytes:
        raise CountMismatch(f"{shard.path}: this file has gone before it was published; run the job again")
