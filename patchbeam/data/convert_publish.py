"""The end of a conversion: pieces are packed into shards, everything is counted, the manifest comes last."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from patchbeam import __version__, storage
from patchbeam.assemble import AssembledShard, member_records
from patchbeam.data.convert import SetPlan
from patchbeam.data.order import Ints
from patchbeam.data.places import PatchPlace
from patchbeam.data.recordset import DATASET_KEY, place_to_json
from patchbeam.elements import Piece
from patchbeam.errors import CountMismatch, EncodeError, OutputExists
from patchbeam.finished_shards import begin_publication, end_publication
from patchbeam.manifest import BandStatistics, Manifest, ManifestBand, ManifestPatches, ManifestShard
from patchbeam.mixer import Mixer
from patchbeam.options import FormatOptions
from patchbeam.records.names import index_name, manifest_name, mixer_name, shard_name
from patchbeam.retry import retrying
from patchbeam.shards import RecordTooLarge, Shard, pack
from patchbeam.sidecars import own_outputs
from patchbeam.statistics import Moments, merge_all
from patchbeam.summary import Summary, in_order, summarize

_RUN = "run"


def plan_shards(plan: SetPlan, pieces: Sequence[Piece]) -> Iterator[Shard | Summary]:
    """Yields the shards to assemble and, last, the summary.

    Raises:
        CountMismatch: a range is missing or came twice.
        EncodeError: a record is larger than a shard may be.
    """
    ordered = in_order(pieces, plan.count)

    def sizes(piece: Piece, member: int, offset: int, stored: int) -> Ints:
        return retrying(lambda: member_records(piece, member, offset, stored, gzip=plan.piece_gzip))

    shards = 0
    try:
        for shard in pack(ordered, plan.max_file_size_bytes, sizes):
            shards += 1
            yield shard
    except RecordTooLarge as error:
        raise EncodeError(
            f"item {error.piece.order[0] + error.record}: its record takes {error.size} bytes, more than "
            f"maxFileSize "
            f"({plan.max_file_size_bytes}); raise it"
        ) from None
    yield summarize(ordered, plan.statistics, shards)


def note_run(plan: SetPlan) -> None:
    """Makes the temporary prefix ready for a run, and notes there that one has begun.

    What an attempt that was killed has left goes: a set is not resumed.
    """
    retrying(lambda: storage.delete_tree(plan.temporary_folder))
    _write(storage.join(plan.temporary_folder, _RUN), b"")


def is_published(plan: SetPlan) -> bool:
    """Whether the run that was noted has published everything: it has taken its traces away then."""
    left = storage.list_names(storage.join(plan.temporary_folder, ""))
    return not left and storage.exists(manifest_name(plan.output))


def publish_set(
    plan: SetPlan, summaries: Sequence[Summary], shards: Sequence[AssembledShard], *, overwrite: bool
) -> str:
    """Publishes the shards, then the index, the mixer where there is one, and last the manifest.

    Returns:
        The name of the manifest.

    Raises:
        CountMismatch: shards or records are not as many as they must be; nothing is published.
        OutputExists: another run has published here in the meantime.
    """
    shards = sorted(shards, key=lambda shard: shard.number)
    if len(summaries) != 1:
        raise CountMismatch(
            f"{len(summaries)} summaries came out of the pipeline instead of one; run the job again"
        )
    summary = summaries[0]
    found = (len(shards), sum(s.records for s in shards), sum(s.size_bytes for s in shards))
    due = (summary.shards, plan.count, summary.size_bytes)
    if found != due or summary.records != plan.count:
        raise CountMismatch(
            f"{found[0]} shards of {found[1]} records and {found[2]} bytes were written; {due[0]} of "
            f"{due[1]} records "
            f"and {due[2]} bytes are due: the runner lost or repeated work; nothing has been published. "
            f"Run the job again"
        )
    names = [shard_name(plan.output, s.number, len(shards), compressed=plan.gzip is not None) for s in shards]
    manifest = manifest_name(plan.output)
    sidecars = {manifest, index_name(plan.output), mixer_name(plan.output, len(shards))}
    there = own_outputs(storage.list_names(plan.output), plan.output)
    moved = {name for name, shard in zip(names, shards, strict=True) if not storage.exists(shard.path)}
    if not overwrite and not set(there) <= moved | sidecars:
        raise OutputExists(
            f"output: another run has published {there[0]} here meanwhile; nothing of this run has been "
            f"published; "
            "give another output, or --overwrite"
        )
    begin_publication(plan.temporary_folder, names)
    retrying(partial(storage.delete, manifest))
    for name, shard in zip(names, shards, strict=True):
        retrying(partial(_move, shard, name))
    keep = set(names)
    if plan.piece_gzip:
        keep.add(index_name(plan.output))
        _write(index_name(plan.output), _index(shards))
    if plan.writes_mixer and plan.place is not None:
        keep.add(mixer_name(plan.output, len(shards)))
        _write(mixer_name(plan.output, len(shards)), _mixer(plan.place).to_text().encode())
    for path in there:
        if path not in keep:
            retrying(partial(storage.delete, path))
    text = build_manifest(plan, summary, shards, [storage.split(name)[1] for name in names]).to_text()
    _write(manifest, text.encode())
    end_publication(plan.temporary_folder)
    return manifest


def build_manifest(
    plan: SetPlan, summary: Summary, shards: Sequence[AssembledShard], names: Sequence[str]
) -> Manifest:
    """Returns the manifest of a converted set."""
    bands = []
    statistics: dict[str, list[Any]] = {}
    moments = list(summary.moments)
    for part in plan.schema.fields:
        own, moments = moments[: part.channels], moments[part.channels :]
        packed = part.encoding == "packed"
        length = part.length([size or 0 for size in part.shape])
        bands.append(
            ManifestBand(
                name=part.name,
                type="uint8" if packed or not part.numeric else part.dtype,
                wire_type=part.wire,
                shape=((length if part.fixed else None),) if packed or not part.numeric else part.shape,
                statistics=BandStatistics.from_moments(merge_all(own))
                if part.numeric and not packed
                else None,
            )
        )
        if part.numeric:
            statistics[part.name] = [_statistics(one) for one in own]
    about: dict[str, Any] = {**plan.schema.to_json(), "statistics": statistics}
    if plan.place is not None and plan.patch_indices is not None:
        about["place"] = place_to_json(plan.place, plan.patch_indices)
    size = (1, 1) if plan.place is None else plan.place.patch_width_height
    return Manifest(
        format_options=FormatOptions(
            patch_width_height=size,
            compressed=plan.gzip is not None,
            max_file_size_bytes=plan.max_file_size_bytes,
        ),
        edge="drop",
        numbers="float" if plan.schema.profile == "ee" else "native",
        gzip=plan.gzip,
        naming="drive",
        bands=tuple(bands),
        patches=ManifestPatches(planned=plan.count, written=plan.count, dropped=0),
        shards=tuple(
            ManifestShard(
                name=name,
                records=shard.records,
                first_record=shard.first_record,
                uncompressed_bytes=shard.size_bytes,
                stored_bytes=shard.stored_bytes,
                crc32c=shard.crc32c,
            )
            for shard, name in zip(shards, names, strict=True)
        ),
        index=storage.split(index_name(plan.output))[1] if plan.piece_gzip else None,
        software={"patchbeam": __version__, "numpy": np.__version__},
        extra={DATASET_KEY: about},
    )


def _statistics(moments: Moments) -> dict[str, Any]:
    if not moments.count:
        return {"count": 0}
    values = {
        "count": moments.count,
        "min": moments.minimum,
        "max": moments.maximum,
        "mean": moments.mean,
        "standardDeviation": moments.std,
    }
    return {key: value if np.isfinite(value) else str(value) for key, value in values.items()}


def _mixer(place: PatchPlace) -> Mixer:
    columns, rows = place.columns_rows
    return Mixer(
        crs=place.crs,
        affine=place.affine,
        patch_width_height=place.patch_width_height,
        patches_per_row=columns,
        total_patches=columns * rows,
    )


def _move(shard: AssembledShard, name: str) -> None:
    if storage.exists(shard.path):
        storage.rename(shard.path, name)
    elif not storage.exists(name) or storage.stat(name).size_bytes != shard.stored_bytes:
        raise CountMismatch(f"{shard.path}: this shard has gone before it was published; run the job again")


def _write(path: str, data: bytes) -> None:
    retrying(lambda: storage.write_atomic(path, data))


def _index(shards: Sequence[AssembledShard]) -> bytes:
    """``PREFIX-index.npz``: of every member of every shard the stored bytes and the records."""
    table = np.concatenate([shard.members for shard in shards])
    target = io.BytesIO()
    np.savez_compressed(
        target,
        shardMembers=np.array([len(shard.members) for shard in shards], np.int64),
        memberRecords=table[:, 0],
        memberBytes=table[:, 1],
    )
    return target.getvalue()
