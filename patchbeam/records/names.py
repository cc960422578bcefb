"""Names of shards and sidecars, and the way back from names to shards.

A *prefix* is everything before the part that says which file of the export it is, with any
directory or bucket: ``gs://bucket/dir/scene``. Two conventions (formats of the service's Drive and
Cloud Storage exports): ``drive`` writes ``scene-00000.tfrecord.gz`` and ``scene-mixer.json``;
``gcs`` writes ``scene00000.tfrecord.gz`` and ``scenemixer.json``, and with one shard
``scene.tfrecord.gz`` and ``scene.json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from patchbeam.errors import JobError

Naming = Literal["drive", "gcs"]

_SUFFIX = r"\.tfrecord(?P<gz>\.gz)?"
# Five digits, growing past them when needed: a sixth digit never follows a leading zero.
_NUMBER = r"\d{5}|[1-9]\d{5,}"
_SHARD = re.compile(rf"(?:(?P<dash>-)?(?P<number>{_NUMBER})(?:-of-(?P<count>{_NUMBER}))?)?{_SUFFIX}")
_SIDECARS = ("-mixer.json", "mixer.json", ".json", "-manifest.json", "-index.npz")


def shard_name(
    prefix: str,
    index: int,
    count: int,
    *,
    naming: Naming = "drive",
    compressed: bool = True,
    split: str | None = None,
) -> str:
    """Returns the name of shard ``index`` of ``count``.

    Args:
        prefix: of the export.
        index: from 0.
        count: how many shards there are; of one split, when the export has splits.
        naming: the convention. Shards of splits are named alike in both.
        compressed: whether ``.gz`` is appended.
        split: name of the split, if the export has splits.
    """
    if not 0 <= index < count:
        raise ValueError(f"shard {index} of {count}")
    suffix = ".tfrecord.gz" if compressed else ".tfrecord"
    if split is not None:
        return f"{prefix}-{split}-{index:05d}{suffix}"
    if naming == "drive":
        return f"{prefix}-{index:05d}{suffix}"
    return f"{prefix}{suffix}" if count == 1 else f"{prefix}{index:05d}{suffix}"


def mixer_name(prefix: str, count: int, *, naming: Naming = "drive") -> str:
    """Returns the name of the mixer of an export of ``count`` shards."""
    if naming == "drive":
        return f"{prefix}-mixer.json"
    return f"{prefix}.json" if count == 1 else f"{prefix}mixer.json"


def manifest_name(prefix: str) -> str:
    """Returns the name of the manifest."""
    return f"{prefix}-manifest.json"


def index_name(prefix: str) -> str:
    """Returns the name of the index of gzip members."""
    return f"{prefix}-index.npz"


def parse_shards(names: Iterable[str], prefix: str, *, split: str | None = None) -> list[str]:
    """Finds the shards of one export among ``names``.

    Args:
        names: of files, written like ``prefix`` (both with the directory or both without).
        prefix: of the export.
        split: name of the split, if the export has splits.

    Returns:
        The names of the shards by number; empty when there are none.

    Raises:
        JobError: a number is missing or taken twice, or the ``-of-`` count is not the number of
            shards; every such name or number is listed.
    """
    start = prefix if split is None else f"{prefix}-{split}"
    numbered: dict[int, list[str]] = {}
    counts: dict[int, str] = {}
    for name, match in _matches(names, start):
        numbered.setdefault(int(match["number"] or 0), []).append(name)
        if match["count"]:
            counts[int(match["count"])] = name
    twice = [name for group in numbered.values() if len(group) > 1 for name in sorted(group)]
    if twice:
        raise JobError(
            f"shards of {start!r}: several files have the same number: {_listed(twice)}; "
            "remove those that are not of this export, or list the files to read"
        )
    expected = max([*counts, max(numbered, default=-1) + 1])
    missing = sorted(set(range(expected)) - numbered.keys())
    if missing:
        raise JobError(
            f"shards of {start!r}: {len(missing)} of {expected} are missing: number "
            f"{_listed([format(number, '05d') for number in missing])}; found {len(numbered)}; fetch or "
            "write what is missing"
        )
    if counts and set(counts) != {expected}:
        raise JobError(
            f"shards of {start!r}: {expected} files, but names say {_listed(sorted(counts.values()))}; "
            "remove those that are not of this export"
        )
    return [numbered[number][0] for number in sorted(numbered)]


def existing_outputs(names: Iterable[str], prefix: str, *, splits: Sequence[str] = ()) -> list[str]:
    """Returns those of ``names`` that an export with this prefix writes, in either convention, sorted.

    ``scene2.json`` or ``scene-b-00000.tfrecord`` do not belong to ``scene``. Where names alone
    cannot tell (``scene100000.tfrecord``: number 100000 of ``scene``, or number 0 of ``scene1``), a
    number of more than five digits counts only when the number before it is there too.

    Args:
        names: of files, written like ``prefix``.
        prefix: of the export.
        splits: names of the export's splits.
    """
    names = list(names)
    found = {prefix + sidecar for sidecar in _SIDECARS}.intersection(names)
    for start in (prefix, *(f"{prefix}-{split}" for split in splits)):
        found.update(name for name, _ in _matches(names, start))
    return sorted(found)


def _matches(names: Iterable[str], start: str) -> list[tuple[str, re.Match[str]]]:
    found = []
    for name in dict.fromkeys(names):
        match = _SHARD.fullmatch(name[len(start) :]) if name.startswith(start) else None
        if match:
            found.append((name, match))
    # ``scene1`` + 00000 reads as ``scene`` + 100000: only a run that reaches such a number holds it.
    undashed = {int(match["number"]) for _, match in found if match["number"] and not match["dash"]}
    return [
        (name, match)
        for name, match in found
        if not match["number"] or match["dash"] or _reached(int(match["number"]), undashed)
    ]


def _reached(number: int, numbers: set[int]) -> bool:
    if number < 100_000:
        return True
    return 99_999 in numbers and number - 1 in numbers


def _listed(items: Sequence[str], most: int = 10) -> str:
    text = ", ".join(items[:most])
    return text if len(items) <= most else f"{text} and {len(items) - most} more"
