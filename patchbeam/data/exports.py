"""From what a user names to shards, manifest and mixer: a prefix, a record file, or several files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from patchbeam import storage
from patchbeam.data.order import Ints
from patchbeam.data.remote import NotThere, fetch, is_url, is_web
from patchbeam.data.shardfile import Shard
from patchbeam.data.shardset import ShardSet
from patchbeam.errors import JobError
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer
from patchbeam.records.listing import list_records
from patchbeam.records.memberindex import read_member_index
from patchbeam.records.names import index_name, manifest_name, parse_shards
from patchbeam.sidecars import find_sidecar

Source = str | PathLike[str] | Sequence[str | PathLike[str]]
_NAMED_BY = ("-manifest.json", "-mixer.json")
_MIXERS = ("-mixer.json", "mixer.json", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was found.

    Attributes:
        records: of all shards in order.
        manifest: where there is one.
        mixer: where there is one and no manifest.
        split: the split that was asked for.
        first: number of the first record among those of the export or split.
        name: of the export, for messages.
    """

    records: ShardSet
    manifest: Manifest | None
    mixer: Mixer | None
    split: str | None
    first: int
    name: str


def open_export(
    source: Source,
    *,
    manifest: str | PathLike[str] | Manifest | None = None,
    mixer: str | PathLike[str] | Mixer | None = None,
    split: str | None = None,
    cache: str | Path | None = None,
    offline: bool | None = None,
    sidecars: bool = True,
    patches: bool = False,
) -> Export:
    """Finds the shards and sidecars of an export; where a manifest gives the counts no shard is opened.

    Args:
        source: the export's prefix, one record file, a pattern, or all files in order; local, ``gs://`` or
            ``https://``. An ``https://`` prefix needs a manifest beside it, since nothing lists its shards.
        manifest: its path or itself, where it does not lie beside the shards.
        mixer: likewise.
        split: name of the split, of an export that has splits.
        cache: folder of the cache of remote and inflated files.
        offline: whether nothing may be fetched.
        sidecars: whether to look for manifest and mixer.
        patches: whether there is a record for each patch of the mixer.

    Raises:
        JobError: there are no shards, some are missing, a sidecar is damaged, or the split is not known.
        CountMismatch: there are not as many records as the mixer says; of gzip files that cannot be sought
            it is said when all of them have been read.
    """
    door = _Door(cache, offline)
    files = None if isinstance(source, str | PathLike) else [fspath(name) for name in source]
    prefix = fspath(source) if isinstance(source, str | PathLike) else ""
    if files is None and not is_url(prefix) and any(sign in prefix for sign in "*?["):
        files = list_records([prefix], "source")
    elif files is None and prefix.endswith((".tfrecord", ".tfrecord.gz")):
        files = [prefix]
    for ending in _NAMED_BY:
        prefix = prefix.removesuffix(ending)
    if files is not None and not files:
        raise JobError("source: an empty list of record files; give at least one")
    found = manifest if isinstance(manifest, Manifest) else None
    placed = mixer if isinstance(mixer, Mixer) else None
    if manifest is not None and found is None:
        found = Manifest.from_text(door.must_read(fspath(manifest), "manifest"), fspath(manifest))  # type: ignore[arg-type]
    if mixer is not None and placed is None:
        placed = Mixer.from_text(door.must_read(fspath(mixer), "mixer"), fspath(mixer))  # type: ignore[arg-type]
    if sidecars and found is None and placed is None:
        found, placed = _beside(files[0], door) if files is not None else door.sidecars(prefix)
    if files is not None:
        shards, first = _of_files(files, found)
        name = files[0]
    else:
        shards, first = _of_prefix(prefix, found, split, door), 0
        name = prefix
    if found is not None:
        _check_split(found, split, name, listed=files is not None)
    total = placed.total_patches if patches and found is None and placed is not None else None
    records = ShardSet(shards, name=name, records=total, root=cache, offline=offline)
    return Export(records=records, manifest=found, mixer=placed, split=split, first=first, name=name)


class _Door:
    """Reads small files, local or through the cache."""

    def __init__(self, cache: str | Path | None, offline: bool | None) -> None:
        self._cache = cache
        self._offline = offline

    def read(self, name: str) -> bytes | None:
        if is_url(name):
            try:
                return fetch(name, root=self._cache, offline=self._offline).read_bytes()
            except NotThere:
                return None
        return storage.read_bytes(name) if storage.exists(name) else None

    def must_read(self, name: str, what: str) -> bytes:
        data = self.read(name)
        if data is None:
            raise JobError(f"{what}: there is no file {name}; check the path")
        return data

    def sidecars(self, prefix: str) -> tuple[Manifest | None, Mixer | None]:
        name = manifest_name(prefix)
        text = self.read(name)
        if text is not None:
            return Manifest.from_text(text, name), None
        for ending in _MIXERS:
            text = self.read(prefix + ending)
            if text is not None:
                return None, Mixer.from_text(text, prefix + ending)
        return None, None


def _beside(file: str, door: _Door) -> tuple[Manifest | None, Mixer | None]:
    if is_url(file):
        return None, None
    manifest, mixer, _ = find_sidecar(file)
    return manifest, mixer


def _of_prefix(prefix: str, manifest: Manifest | None, split: str | None, door: _Door) -> list[Shard]:
    folder = prefix.rpartition("/")[0] if is_url(prefix) else storage.split(prefix)[0]
    if manifest is not None:
        _check_split(manifest, split, prefix, listed=False)
        members = _members(prefix, manifest, door)
        return [
            Shard(
                name=f"{folder}/{shard.name}" if is_url(prefix) else storage.join(folder, shard.name),
                records=shard.records,
                stored_bytes=shard.stored_bytes,
                crc32c=shard.crc32c,
                members=None if members is None else members[at],
            )
            for at, shard in enumerate(manifest.shards)
            if shard.split == split
        ]
    if is_web(prefix):
        raise JobError(
            f"{prefix}: no {manifest_name(prefix)} there, and the shards of a web address cannot be listed; "
            "give all files in order"
        )
    names = parse_shards(storage.list_names(prefix), prefix, split=split)
    if not names:
        raise JobError(
            f"{prefix}: no record files with this prefix (such as {prefix}-00000.tfrecord.gz); give the "
            "prefix "
            "that the export was written to, or a list of files"
        )
    return [Shard(name=name) for name in names]


def _of_files(files: list[str], manifest: Manifest | None) -> tuple[list[Shard], int]:
    known = {} if manifest is None else {shard.name: shard for shard in manifest.shards}
    shards = []
    following = None
    first = 0
    for file in files:
        entry = known.get(file.rpartition("/")[2])
        if manifest is not None and entry is None:
            raise JobError(f"{file}: the manifest does not know it; it lists {', '.join(list(known)[:5])}")
        if entry is None:
            shards.append(Shard(name=file))
            continue
        if following is None:
            first = entry.first_record
        elif entry.first_record != following:
            raise JobError(
                f"{file}: it starts with record {entry.first_record} of the export, but {following} follows "
                "on the "
                "file before it; give consecutive shards in order"
            )
        following = entry.first_record + entry.records
        shards.append(
            Shard(name=file, records=entry.records, stored_bytes=entry.stored_bytes, crc32c=entry.crc32c)
        )
    return shards, first


def _check_split(manifest: Manifest, split: str | None, name: str, *, listed: bool) -> None:
    names = [] if manifest.splits is None else [part.name for part in manifest.splits.parts]
    if split is None and names and not listed:
        raise JobError(f"{name}: this export has the splits {', '.join(names)}; name one with split=")
    if split is not None and split not in names:
        have = f"has the splits {', '.join(names)}" if names else "has no splits"
        raise JobError(f"split: {split!r}: {name} {have}")


def _members(prefix: str, manifest: Manifest, door: _Door) -> list[tuple[Ints, Ints]] | None:
    """Sizes and records of the gzip members of every shard, from the index beside the manifest."""
    if manifest.index is None:
        return None
    data = door.read(index_name(prefix))
    if data is None:
        return None
    counts, sizes, records = read_member_index(data, index_name(prefix))
    if len(counts) != len(manifest.shards):
        raise JobError(
            f"{index_name(prefix)}: it is not the index of this manifest's shards; remove it, and "
            "the shards are walked instead"
        )
    ends = np.cumsum(counts)[:-1]
    return list(zip(np.split(sizes, ends), np.split(records, ends), strict=True))
