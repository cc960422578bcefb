"""What the parts of a manifest must say together; each error starts with the key path."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from patchbeam.errors import JobError, short
from patchbeam.manifest.jsonform import camel

if TYPE_CHECKING:
    from patchbeam.manifest import Manifest, ManifestGrid, ManifestShard

GIVE_MANIFEST = "; give the PREFIX-manifest.json that an export has written"


def check_version(root: Any, format_: str, version: str) -> None:
    """Refuses what is no manifest, or one of another major version, before its keys are looked at."""
    if not isinstance(root, dict):
        raise JobError(f"the whole: {short(root)} is not an object{GIVE_MANIFEST}")
    if root.get("format") != format_:
        raise JobError(
            f"format: {short(root.get('format'))} is not {format_!r}: this is no manifest{GIVE_MANIFEST}"
        )
    given = root.get("version")
    numbers = re.fullmatch(r"(\d+)\.(\d+)", given, re.ASCII) if isinstance(given, str) else None
    if numbers is None:
        raise JobError(f"version: {short(given)} is not 'major.minor'{GIVE_MANIFEST}")
    if numbers[1] != version.partition(".")[0]:
        raise JobError(
            f"version: {given} has another layout than the {version} that this Patchbeam reads; "
            "use the version that wrote it, or a newer one"
        )


def check_manifest(manifest: Manifest) -> None:
    """Refuses a manifest whose parts contradict each other."""
    if manifest.grid is not None:
        _check_grid(manifest.grid)
    _unique("bands", "name", [band.name for band in manifest.bands])
    for i, band in enumerate(manifest.bands):
        for j, size in enumerate(band.shape):
            if size is not None and size < 1:
                raise JobError(f"bands[{i}].shape[{j}]: {size} is not a size")
        _counts(f"bands[{i}]", _values(band, ("masked", "rounded_values")))
        if band.statistics is not None:
            _counts(f"bands[{i}].statistics", _values(band.statistics, ("valid_count",)))
        _check_split_statistics(manifest, i)
    if manifest.mask_band is not None and manifest.mask_band not in [band.name for band in manifest.bands]:
        raise JobError(f"maskBand: {manifest.mask_band!r} is none of the bands")
    if (manifest.gzip is not None) != manifest.format_options.compressed:
        raise JobError(
            f"gzip: {manifest.gzip!r} contradicts formatOptions.compressed = "
            f"{manifest.format_options.compressed}"
        )
    _counts("patches", _values(manifest.patches, ("planned", "written", "dropped")))
    planned, written = manifest.patches.planned, manifest.patches.written
    if planned != written + manifest.patches.dropped:
        raise JobError(
            f"patches.planned: {planned} is not the sum of written ({written}) and dropped "
            f"({manifest.patches.dropped})"
        )
    _check_kept(manifest, planned, written)
    _check_shards(manifest)


def _check_split_statistics(manifest: Manifest, i: int) -> None:
    splits = [part.name for part in manifest.splits.parts] if manifest.splits is not None else []
    for name, statistics in (manifest.bands[i].split_statistics or {}).items():
        key = f"bands[{i}].splitStatistics.{name}"
        if name not in splits:
            raise JobError(f"{key}: {name!r} is none of the splits")
        _counts(key, _values(statistics, ("valid_count",)))


def _check_grid(grid: ManifestGrid) -> None:
    for key, size in (("width", grid.width), ("height", grid.height)):
        if size < 1:
            raise JobError(f"grid.{key}: {size} is not a whole number of pixels above 0")
    a, b, _, d, e, _ = grid.transform
    if not all(map(math.isfinite, grid.transform)):
        raise JobError(f"grid.transform: {list(grid.transform)} is not finite")
    if a * e - b * d == 0:
        raise JobError(f"grid.transform: {list(grid.transform)} is singular")


def _check_kept(manifest: Manifest, planned: int, written: int) -> None:
    if manifest.kept_patches is not None:
        total = _count_ranges("keptPatches", manifest.kept_patches, planned)
        if total != written:
            raise JobError(f"keptPatches: the ranges hold {total} patches, and {written} were written")
    if manifest.splits is not None:
        _unique("splits.parts", "name", [part.name for part in manifest.splits.parts])
        total = 0
        for i, part in enumerate(manifest.splits.parts):
            if part.kept_patches is None:
                raise JobError(f"splits.parts[{i}].keptPatches: missing")
            total += _count_ranges(f"splits.parts[{i}].keptPatches", part.kept_patches, planned)
        if total != written:
            raise JobError(f"splits.parts: their ranges hold {total} patches, and {written} were written")
    elif manifest.kept_patches is None and manifest.patches.dropped:
        raise JobError(f"keptPatches: missing, though {manifest.patches.dropped} patches were dropped")


def _count_ranges(key: str, ranges: Sequence[tuple[int, int]], planned: int) -> int:
    """Patches of ranges that must rise and stay within the plan."""
    end = total = 0
    for i, (first, count) in enumerate(ranges):
        if first < end or count < 1 or first + count > planned:
            raise JobError(
                f"{key}[{i}]: {[first, count]} is not [first, count] with first at least {end} within "
                f"{planned} patches"
            )
        end = first + count
        total += count
    return total


def _check_shards(manifest: Manifest) -> None:
    _unique("shards", "name", [shard.name for shard in manifest.shards])
    for i, shard in enumerate(manifest.shards):
        _plain_name(f"shards[{i}].name", shard.name)
    if manifest.index is not None:
        _plain_name("index", manifest.index)
    parts = {part.name for part in manifest.splits.parts} if manifest.splits is not None else {None}
    following: dict[str | None, int] = {}
    for i, shard in enumerate(manifest.shards):
        _counts(f"shards[{i}]", _values(shard, _SHARD_COUNTS))
        _check_crc(shard, f"shards[{i}].crc32c")
        if shard.split not in parts:
            raise JobError(f"shards[{i}].split: {shard.split!r} is none of the splits")
        if shard.first_record != following.get(shard.split, 0):
            raise JobError(
                f"shards[{i}].firstRecord: {shard.first_record} does not follow the "
                f"{following.get(shard.split, 0)} records before it"
            )
        following[shard.split] = shard.first_record + shard.records
    records, wanted = sum(following.values()), manifest.patches.written * manifest.records_per_patch
    if records != wanted:
        raise JobError(
            f"shards: they hold {records} records, and {manifest.patches.written} patches written with "
            f"{manifest.records_per_patch} records each make {wanted}"
        )


_SHARD_COUNTS = ("records", "first_record", "uncompressed_bytes", "stored_bytes")


def _values(entry: Any, names: Iterable[str]) -> dict[str, int | None]:
    return {camel(name): getattr(entry, name) for name in names}


def _counts(key: str, values: dict[str, int | None]) -> None:
    for name, value in values.items():
        if value is not None and value < 0:
            raise JobError(f"{key}.{name}: {value} is below 0")


def _check_crc(shard: ManifestShard, key: str) -> None:
    try:
        size = len(base64.b64decode(shard.crc32c, validate=True))
    except (binascii.Error, ValueError):
        size = -1
    if size != 4:
        raise JobError(f"{key}: {short(shard.crc32c)} is not a CRC-32C, base64 of four bytes")


def _plain_name(key: str, name: str) -> None:
    """Refuses what would lead out of the manifest's folder."""
    if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
        raise JobError(f"{key}: {short(name)} is not the name of a file beside the manifest")


def _unique(key: str, name: str, values: Sequence[str]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            at = [i for i, other in enumerate(values) if other == value][1]
            raise JobError(f"{key}[{at}].{name}: {value!r} comes {count} times")
