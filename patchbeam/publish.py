"""The last step of an export: everything is counted against the plan, then published.

Shards are renamed first, then the index, the mixer and, last, the manifest are written: a manifest is
there only when all of the rest is. What has begun is noted under the temporary prefix, so that a resumed run
goes on with it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial

import numpy as np

from patchbeam import storage
from patchbeam.assemble import AssembledShard
from patchbeam.describe import build_manifest
from patchbeam.errors import CountMismatch, JobError, OutputExists
from patchbeam.export import temporary_folder
from patchbeam.finished_shards import begin_publication, end_publication, published_names
from patchbeam.lock import LockTicket
from patchbeam.manifest import Manifest
from patchbeam.missing import masked_windows
from patchbeam.mixer import Mixer
from patchbeam.outputs import outputs_there, shard_names, split_names
from patchbeam.plan import ExportPlan
from patchbeam.records.names import index_name, manifest_name, mixer_name
from patchbeam.retry import retrying
from patchbeam.summary import Summary


def publish(
    plan: ExportPlan,
    summaries: Sequence[Summary],
    shards: Sequence[AssembledShard],
    *,
    overwrite: bool,
    lock: LockTicket | None = None,
) -> str:
    """Publishes an export and returns the name of its manifest.

    Args:
        plan: the export.
        summaries: exactly one, when the runner lost nothing.
        shards: all of them, in any order.
        overwrite: whether files of an earlier export are replaced.
        lock: what shows that the run still holds its output; deleted at the end.

    Raises:
        LockHeld: another run has taken the output over; nothing is published.
        CountMismatch: shards, records or bytes are not those of the plan; nothing is published.
        OutputExists: another export has been published here in the meantime.
        WriteFailed: a file cannot be moved or written.
    """
    shards = sorted(shards, key=lambda shard: shard.number)
    if len(summaries) != 1:
        raise CountMismatch(
            f"{len(summaries)} summaries came out of the pipeline instead of one; run the job again"
        )
    summary = summaries[0]
    _compare(plan, summary, shards)
    folder = temporary_folder(plan)
    names = shard_names(plan, summary, shards)
    final_manifest = manifest_name(plan.output)
    if _is_published(final_manifest, names, shards):
        _clean_up(folder, lock)  # an attempt whose success got lost has done all or nearly all of it
        return final_manifest
    missing = masked_windows(folder) if plan.on_missing == "mask" else {}
    manifest = build_manifest(plan, summary, shards, [storage.split(name)[1] for name in names], missing)
    if lock is not None:
        lock.check()
    there = outputs_there(plan.output, split_names(plan))
    # a repeated attempt finds what it has published itself
    if there and not overwrite and published_names(folder) != names:
        raise OutputExists(
            f"output: another run has published {there[0]} and {len(there) - 1} more files here meanwhile; "
            "nothing of this run has been published; give another output, or --overwrite"
        )
    begin_publication(folder, names)
    _delete(final_manifest)
    for name, shard in zip(names, shards, strict=True):
        retrying(partial(_move, shard, name))
    keep = {*names, *_sidecars(plan, len(shards))}
    for path in there:
        if path not in keep:
            _delete(path)
    if plan.piece_gzip:
        _write(folder, index_name(plan.output), _index(shards))
    else:
        _delete(index_name(plan.output))
    mixer = mixer_name(plan.output, len(shards), naming=plan.naming)
    if plan.may_drop:
        if mixer in there:
            _delete(mixer)
    else:
        _write(folder, mixer, Mixer.from_grid(plan.grid, plan.patches).to_text().encode())
    _write(folder, final_manifest, manifest.to_text().encode())
    _clean_up(folder, lock)
    return final_manifest


def _clean_up(folder: str, lock: LockTicket | None) -> None:
    """Deletes what is temporary, last what lets a run that is killed here be resumed."""
    end_publication(folder)
    if lock is not None:
        lock.release()


def _move(shard: AssembledShard, name: str) -> None:
    if storage.exists(shard.path):
        storage.rename(shard.path, name)
    elif not storage.exists(name) or storage.stat(name).size_bytes != shard.stored_bytes:
        raise CountMismatch(f"{shard.path}: this shard has gone before it was published; run the job again")


def _is_published(manifest: str, names: Sequence[str], shards: Sequence[AssembledShard]) -> bool:
    """Whether these very shards have their final names, and the manifest that is written last lists them."""
    if not shards or any(storage.exists(shard.path) for shard in shards) or not storage.exists(manifest):
        return False
    try:
        listed = Manifest.from_text(storage.read_bytes(manifest), manifest).shards
    except JobError:
        return False
    mine = [(storage.split(name)[1], shard.crc32c) for name, shard in zip(names, shards, strict=True)]
    return [(shard.name, shard.crc32c) for shard in listed] == mine


def _write(folder: str, path: str, data: bytes) -> None:
    if storage.is_remote(path):
        retrying(lambda: storage.write_atomic(path, data))
        return
    # written where a killed run may leave it, then moved
    temporary = storage.join(folder, storage.split(path)[1])
    retrying(lambda: storage.write_atomic(temporary, data))
    retrying(lambda: storage.rename(temporary, path))


def _delete(path: str) -> None:
    retrying(lambda: storage.delete(path))


def _sidecars(plan: ExportPlan, shards: int) -> set[str]:
    return {
        manifest_name(plan.output),
        index_name(plan.output),
        mixer_name(plan.output, shards, naming=plan.naming),
    }


def _compare(plan: ExportPlan, summary: Summary, shards: Sequence[AssembledShard]) -> None:
    records = sum(shard.records for shard in shards)
    size = sum(shard.size_bytes for shard in shards)
    bounds = plan.bounds
    facts = (
        ("shards", len(shards), summary.shards, summary.shards),
        ("shard numbers", len({shard.number for shard in shards}), len(shards), len(shards)),
        ("patches", summary.patches, plan.patches.count, plan.patches.count),
        ("records", records, summary.records, summary.records),
        (
            "records",
            records,
            summary.kept_patches * plan.records_per_patch,
            summary.kept_patches * plan.records_per_patch,
        ),
        ("uncompressed bytes", size, summary.size_bytes, summary.size_bytes),
        ("records", records, *bounds.records),
        ("shards", len(shards), *bounds.shards),
        ("uncompressed bytes", size, *bounds.total_bytes),
    )
    for what, found, least, most in facts:
        if not least <= found <= most:
            expected = f"{least}" if least == most else f"between {least} and {most}"
            raise CountMismatch(
                f"{found} {what} were written and {expected} are due: the runner lost or repeated work; "
                "nothing has been published. Run the job again, on another runner if it happens again"
            )


def _index(shards: Sequence[AssembledShard]) -> bytes:
    """Returns ``PREFIX-index.npz``: of every member of every shard the stored bytes and the records."""
    members = [shard.members for shard in shards]
    table = np.concatenate(members) if members else np.empty((0, 2), np.int64)
    target = io.BytesIO()
    np.savez_compressed(
        target,
        shardMembers=np.array([len(rows) for rows in members], np.int64),
        memberRecords=table[:, 0],
        memberBytes=table[:, 1],
    )
    return target.getvalue()
