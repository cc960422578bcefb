"""From what a job says of its record files to a list of them in the order of their numbers."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

from patchbeam import storage
from patchbeam.errors import JobError, nearest
from patchbeam.records.names import parse_shards

_WILDCARD = re.compile(r"[*?\[]")
_NUMBER = re.compile(r"\d+")
_SIDECARS = (".json", ".npz")
"""Mixer, manifest and index stand beside the shards, and patterns are often wide enough for them."""
_SUFFIX = re.compile(r"(\.tfrecords?)?(\.gz)?$")


def list_records(given: Sequence[str], key: str = "records") -> list[str]:
    """Returns the record files that a job names.

    Patterns are matched in one folder and give numeric order; several entries keep the order in which they
    are written. A single entry that is neither a pattern nor a file is the prefix of an export.

    Args:
        given: paths, patterns, or one prefix; local or ``gs://``.
        key: of the job file, for messages.

    Raises:
        JobError: nothing matches, a file is missing, a number is missing or taken twice, or files are
            listed in another order than their numbers.
    """
    if len(given) == 1 and is_prefix(given[0]):
        only = given[0]
        shards = parse_shards(storage.list_names(only), only)
        if not shards:
            raise JobError(f"{key}: {only} is no file, and no record files start with it{_near(only)}")
        return shards
    names: list[str] = []
    for i, entry in enumerate(given):
        if _WILDCARD.search(entry):
            matches = matching(entry)
            if not matches:
                raise JobError(f"{key}[{i}]: nothing matches {entry}; check the folder and the pattern")
            names.extend(in_order(matches, key))
        elif storage.exists(entry):
            names.append(entry)
        else:
            raise JobError(f"{key}[{i}]: there is no file {entry}{_near(entry)}")
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise JobError(f"{key}: {', '.join(twice)} is listed twice; list each file once")
    _check_listed(names, key)
    return names


def is_prefix(entry: str) -> bool:
    """Whether an entry is neither a pattern nor a file."""
    return not _WILDCARD.search(entry) and not storage.exists(entry)


def matching(pattern: str) -> list[str]:
    """Returns the files of one folder that match a pattern.

    Raises:
        JobError: there is a wildcard in the folder.
    """
    folder, name = storage.split(pattern)
    if _WILDCARD.search(folder):
        raise JobError(f"records: {pattern}: wildcards may stand in the last part only; list the folders")
    start = pattern[: len(pattern) - len(name)] + name[: _WILDCARD.search(name).start()]  # type: ignore[union-attr]
    found = [path for path in storage.list_names(start) if fnmatch.fnmatchcase(storage.split(path)[1], name)]
    return [path for path in found if not path.endswith(_SIDECARS)]


def in_order(names: Sequence[str], key: str = "records") -> list[str]:
    """Returns files by the number that tells them apart.

    Raises:
        JobError: a number is missing or taken twice, or names differ in more than a number.
    """
    if len(names) < 2:
        return list(names)
    numbers = _numbers(names)
    if numbers is None:
        raise JobError(
            f"{key}: the names of {names[0]} and {len(names) - 1} more files differ in more than one number, "
            "so "
            "their order is not known; list the files in order, or make the pattern match only one run's "
            "files"
        )
    by_number: dict[int, str] = {}
    for name, number in sorted(zip(names, numbers, strict=True)):
        if number in by_number:
            raise JobError(
                f"{key}: {by_number[number]} and {name} have the same number {number}; remove the one that "
                "does "
                "not belong here, or list the files"
            )
        by_number[number] = name
    first = min(by_number)
    start = first if first <= 1 else 0
    missing = sorted(set(range(start, max(by_number) + 1)) - by_number.keys())
    if missing:
        some = ", ".join(map(str, missing[:10])) + (
            f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        )
        raise JobError(
            f"{key}: of {max(by_number) + 1 - start} files like {names[0]}, {len(missing)} are missing: "
            f"number {some}; fetch or write what is missing, or list the files to read"
        )
    return [by_number[number] for number in sorted(by_number)]


def _numbers(names: Sequence[str]) -> list[int] | None:
    """The one number in which names differ, or ``None``; suffixes do not count."""
    stems = [_SUFFIX.sub("", name) for name in names]
    texts = {_NUMBER.sub("#", stem) for stem in stems}
    if len(texts) > 1:
        return None
    parts = [_NUMBER.findall(stem) for stem in stems]
    differing = [i for i in range(len(parts[0])) if len({row[i] for row in parts}) > 1]
    if not differing and len(set(stems)) < len(stems) and parts[0]:
        differing = [len(parts[0]) - 1]  # the same number with and without .gz
    if len(differing) != 1:
        return None
    return [int(row[differing[0]]) for row in parts]


def _check_listed(names: Sequence[str], key: str) -> None:
    numbers = _numbers(names) if len(names) > 1 else None
    if numbers is None:
        return
    for i in range(1, len(numbers)):
        if numbers[i] <= numbers[i - 1]:
            raise JobError(
                f"{key}[{i}]: {names[i]} is listed after {names[i - 1]}, against the order of their numbers; "
                "records "
                "are patches in order, so put the files in order"
            )


def _near(path: str) -> str:
    folder, name = storage.split(path)
    there = [storage.split(found)[1] for found in storage.list_names(storage.join(folder, ""))[:1000]]
    return nearest(name, there)
