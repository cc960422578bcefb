"""Manifest, mixer and index against each other and against what the shards are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from patchbeam import storage
from patchbeam.crs import parse_crs, same_crs
from patchbeam.errors import CorruptRecord, GridError, JobError, ReadFailed
from patchbeam.exported import ExportFiles
from patchbeam.manifest import Manifest, ManifestShard
from patchbeam.mixer import Mixer
from patchbeam.patches import PatchGrid
from patchbeam.records.memberindex import read_member_index
from patchbeam.records.names import shard_name
from patchbeam.spec import feature_spec
from patchbeam.verify.files import CheckedFile
from patchbeam.verify.leaks import leaks
from patchbeam.verify.report import Finding, ShardFacts

Members = Mapping[str, NDArray[np.int64]]
"""Path of a shard → ``(member, [records, stored bytes])``."""


def patch_grid(manifest: Manifest) -> PatchGrid | None:
    """Returns the patch grid of an export, or ``None`` when it lies on no map.

    Raises:
        GridError: grid and format options contradict each other.
    """
    if manifest.grid is None:
        return None
    options = manifest.format_options
    return PatchGrid(
        width=manifest.grid.width,
        height=manifest.grid.height,
        patch_width_height=options.patch_width_height,
        kernel_width_height=options.kernel_width_height,
        edge=manifest.edge,
    )


def check_manifest(files: ExportFiles, manifest: Manifest) -> Iterator[Finding]:
    """Yields what contradicts itself in a manifest that could be read."""
    path = files.manifest_path

    def wrong(text: str) -> Finding:
        return Finding(about="manifest", file=path, text=text)

    if manifest.grid is not None:
        try:
            manifest.grid.geobox()
        except GridError as error:
            yield wrong(str(error))
    try:
        patches = patch_grid(manifest)
    except GridError as error:
        yield wrong(str(error))
        return
    if patches is None:
        return
    if patches.count != manifest.patches.planned:
        yield wrong(
            f"patches.planned: {manifest.patches.planned}, but a grid of {patches.width} × {patches.height} "
            f"pixels has {patches.count} patches of {_times(patches.patch_width_height)} with edge: "
            f"{manifest.edge}"
        )
    width, height = patches.stored_width_height
    for i, band in enumerate(manifest.bands):
        due: tuple[int, ...] = () if manifest.format_options.sequence_data else (height, width)
        if band.shape[len(band.shape) - len(due) :] != due or len(band.shape) - len(due) not in (0, 1):
            yield wrong(
                f"bands[{i}].shape: {list(band.shape)} of band {band.name!r}, but patches with their margin "
                f"are {width} × {height} pixels: the shape has to end in {list(due)}"
            )
    if manifest.splits is not None and patches.count == manifest.patches.planned:
        yield from map(wrong, leaks(manifest, patches))
    counts: dict[str | None, int] = {}
    for shard in manifest.shards:
        counts[shard.split] = counts.get(shard.split, 0) + 1
    numbers: dict[str | None, int] = {}
    for i, shard in enumerate(manifest.shards):
        number = numbers.get(shard.split, 0)
        numbers[shard.split] = number + 1
        due_name = shard_name(
            storage.split(files.prefix)[1],
            number,
            counts[shard.split],
            naming=manifest.naming,
            compressed=manifest.format_options.compressed,
            split=shard.split,
        )
        if shard.name != due_name:
            yield wrong(
                f"shards[{i}].name: {shard.name!r}, and shard {number} of this prefix is {due_name!r}"
            )


def check_mixer(files: ExportFiles, manifest: Manifest) -> Iterator[Finding]:
    """Yields where the mixer differs from the manifest."""
    due = _mixer_due(manifest)
    if due is None:
        if files.mixer_path is not None and manifest.grid is not None:
            yield Finding(
                about="mixer",
                file=files.mixer_path,
                text="there is a mixer, though patches were dropped or split: it cannot say where those lie",
            )
        return
    if files.mixer_path is None:
        yield Finding(
            about="mixer", file=files.prefix, text="the mixer is missing; a complete export has one"
        )
    if files.mixer is None:
        return
    found = files.mixer
    facts = (
        ("projection.affine.doubleMatrix", list(found.affine), list(due.affine)),
        ("patchDimensions", list(found.patch_width_height), list(due.patch_width_height)),
        ("patchesPerRow", found.patches_per_row, due.patches_per_row),
        ("totalPatches", found.total_patches, due.total_patches),
    )
    for key, have, want in facts:
        if have != want:
            yield Finding(
                about="mixer", file=files.mixer_path, text=f"{key}: {have}, and the manifest makes it {want}"
            )
    try:
        if not same_crs(parse_crs(found.crs), parse_crs(due.crs)):
            yield Finding(
                about="mixer",
                file=files.mixer_path,
                text=f"projection.crs: {_short(found.crs)}, and the manifest has {_short(due.crs)}",
            )
    except GridError as error:
        yield Finding(about="mixer", file=files.mixer_path, text=f"projection.crs: {error}")


def _mixer_due(manifest: Manifest) -> Mixer | None:
    options = manifest.format_options
    if manifest.grid is None or manifest.splits is not None or options.masked_threshold < 1:
        return None
    if manifest.kept_patches is not None:
        return None
    try:
        patches = patch_grid(manifest)
        assert patches is not None
        return Mixer.from_grid(manifest.grid.geobox(), patches)
    except JobError:
        return None  # told of the manifest


def check_shards(
    files: ExportFiles, manifest: Manifest, checked: Mapping[str, CheckedFile]
) -> Iterator[Finding]:
    """Yields where the shards are not what the manifest says of them."""
    for path in files.others:
        yield Finding(about="shards", file=path, text="is not among the shards of the manifest")
    whose = {shard.crc32c: shard.name for shard in manifest.shards}
    for shard, path in zip(manifest.shards, files.shards, strict=True):
        if path in files.missing:
            what = f"{shard.records} records from number {shard.first_record} on"
            yield Finding(about="shards", file=path, text=f"is missing, and with it {what}")
        elif (found := checked[path]).facts is not None:
            yield from _compare(found.facts, found, shard, whose)
            yield from _profile(found.facts, manifest)


def _compare(
    facts: ShardFacts, found: CheckedFile, shard: ManifestShard, whose: Mapping[str, str]
) -> Iterator[Finding]:
    other = whose.get(facts.crc32c, shard.name)
    if facts.crc32c != shard.crc32c and other != shard.name:
        text = f"holds what the manifest says of {other}: files were swapped or renamed"
        yield Finding(about="stored", file=facts.path, text=text)
        return
    if facts.stored_bytes != shard.stored_bytes:
        text = f"has {facts.stored_bytes} bytes, and the manifest says {shard.stored_bytes}"
        yield Finding(about="stored", file=facts.path, text=text)
    elif facts.crc32c != shard.crc32c and not any(f.about == "records" for f in found.findings):
        text = f"the CRC-32C of its bytes is {facts.crc32c}, and the manifest says {shard.crc32c}"
        yield Finding(about="stored", file=facts.path, text=text)
    if found.whole and facts.records != shard.records:
        text = f"holds {facts.records} records, and the manifest says {shard.records}"
        yield Finding(about="shards", file=facts.path, text=text)
    elif not found.findings and facts.size_bytes != shard.uncompressed_bytes:
        text = f"holds {facts.size_bytes} bytes of records, and the manifest says {shard.uncompressed_bytes}"
        yield Finding(about="shards", file=facts.path, text=text)


def _profile(facts: ShardFacts, manifest: Manifest) -> Iterator[Finding]:
    due = {None: "plain", "indexed": "indexed", "zlib6": "gzip"}[manifest.gzip]
    names = {"plain": "not compressed", "indexed": "gzip members with an index", "gzip": "one stream of gzip"}
    if facts.form != due and facts.form in names and facts.stored_bytes:
        text = f"is {names[facts.form]}, and the manifest says {names[due]}"
        yield Finding(about="stored", file=facts.path, text=text)
    limit = manifest.format_options.max_file_size_bytes
    if facts.size_bytes > limit:
        text = f"holds {facts.size_bytes} bytes of records, more than formatOptions.maxFileSize = {limit}"
        yield Finding(about="stored", file=facts.path, text=text)


def check_counts(
    mixer: Mixer, checked: Sequence[CheckedFile], layout: Sequence[tuple[str, int]], *, sequence: bool
) -> Iterator[Finding]:
    """Yields what contradicts the mixer where there is no manifest.

    Args:
        mixer: of the export.
        checked: the shards.
        layout: name and length of each feature of a record.
        sequence: whether records hold a pixel each.
    """
    records = sum(file.facts.records for file in checked if file.facts is not None)
    pixels = math.prod(mixer.patch_width_height)
    due = mixer.total_patches * (pixels if sequence else 1)
    if records != due and all(file.whole for file in checked):
        each = ", ".join(str(file.facts.records) for file in checked[:8] if file.facts is not None)
        yield Finding(
            about="shards",
            text=f"the shards hold {records} records ({each}{', …' if len(checked) > 8 else ''}), and "
            f"totalPatches of the mixer makes {due}",
        )
    small = [f"{name} ({length})" for name, length in layout if length < pixels]
    if small and not sequence:
        yield Finding(
            about="layout",
            text=f"features {', '.join(small)} have fewer numbers than a patch of "
            f"{_times(mixer.patch_width_height)} = {pixels} pixels",
        )


def read_index(files: ExportFiles, manifest: Manifest) -> tuple[Members, list[Finding]]:
    """Reads the index of gzip members; what is wrong with the file itself comes as findings."""
    path = storage.join(storage.split(files.prefix)[0], manifest.index) if manifest.index else ""
    if not path:
        return {}, []
    try:
        shards, sizes, records = read_member_index(storage.read_bytes(path), path)
    except CorruptRecord as error:
        return {}, [Finding(about="index", file=path, text=error.what)]
    except ReadFailed as error:
        return {}, [Finding(about="index", file=path, text=f"cannot be read: {error}")]
    if len(shards) != len(manifest.shards):
        text = f"tells of {len(shards)} shards, and the manifest of {len(manifest.shards)}"
        return {}, [Finding(about="index", file=path, text=text)]
    members = np.stack([records, sizes], axis=1)
    if not files.shards:
        return {}, []  # every patch was dropped
    cuts = np.cumsum(shards)[:-1]
    return dict(zip(files.shards, np.split(members, cuts), strict=True)), []


def check_index(
    files: ExportFiles, manifest: Manifest, index: Members, checked: Mapping[str, CheckedFile]
) -> Iterator[Finding]:
    """Yields the first member of each undamaged shard that the index has otherwise."""
    path = storage.join(storage.split(files.prefix)[0], manifest.index or "")
    for shard, due in index.items():
        found = checked[shard].members if shard in checked else None
        if found is None or checked[shard].findings or np.array_equal(found, due):
            continue
        common = min(len(found), len(due))
        differ = np.flatnonzero((found[:common] != due[:common]).any(axis=1))
        at = int(differ[0]) if differ.size else common
        have = f"{found[at, 1]} bytes and {found[at, 0]} records" if at < len(found) else "missing"
        want = f"{due[at, 1]} bytes and {due[at, 0]} records" if at < len(due) else "none"
        text = (
            f"member {at} of {shard} at stored byte {int(found[:at, 1].sum())}: {have}; the index says {want}"
        )
        yield Finding(about="index", file=path, text=text)


def describes_records(manifest: Manifest) -> str | None:
    """Returns why records cannot be compared with the manifest, or ``None``."""
    try:
        feature_spec(manifest)
    except (ValueError, IndexError, KeyError) as error:
        return f"the bands of the manifest make no record: {error}"
    return None


def _times(pair: tuple[int, int]) -> str:
    return f"{pair[0]} × {pair[1]}"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
