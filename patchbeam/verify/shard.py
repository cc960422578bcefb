"""One record file, byte by byte: every length, every CRC, every gzip member, and what its records hold.

A damaged record or member does not end the check: what follows it is found again where that can be done
without guessing. The file is cut into units (stretches of plain records, gzip members, what is damaged)
that tile it, and that threads work on side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from crc32c import crc32c as crc_of
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord
from patchbeam.records.crc import masked_crcs
from patchbeam.records.gzip import inflate
from patchbeam.records.layout import FRAME_BYTES
from patchbeam.records.tfrecord import record_length
from patchbeam.verify.layout import LayoutCheck
from patchbeam.verify.report import About

MOST_FINDINGS = 50
"""Findings about records that are listed for one unit; the others are counted."""

_COPIED_BYTES = 1 << 14
"""Records up to this size are copied to be looked at together with others of their size."""
_HEAD = 12


class Wrong(NamedTuple):
    """Something wrong in a unit: record and byte count from the unit's first."""

    about: About
    text: str
    record: int | None = None
    byte: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A stretch of a stored file.

    Attributes:
        start: first stored byte.
        stop: the stored byte after the last.
        member: whether it is an indexed gzip member.
        records: as it states: of a member, or 1 for a damaged record; ``None`` where nothing is stated.
        damage: what is wrong with it, if that is known already; then nothing in it is looked at.
    """

    start: int
    stop: int
    member: bool = False
    records: int | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What a unit is found to hold.

    Attributes:
        stored_crc: CRC-32C of its stored bytes.
        records: whole records; of a damaged unit as many as it states.
        size_bytes: bytes before compression; 0 when they cannot be known.
        wrong: what is wrong.
        whole: whether all of it could be walked.
    """

    stored_crc: int
    records: int
    size_bytes: int
    wrong: tuple[Wrong, ...]
    whole: bool = True


def look_at(view: memoryview, unit: Unit, layout: LayoutCheck) -> Looked:
    """Checks everything in a unit."""
    stored = view[unit.start : unit.stop]
    crc = stored_crc(stored)
    if unit.damage is not None:
        lost = unit.records or 0
        size = 0 if unit.member else len(stored)
        return Looked(
            stored_crc=crc,
            records=lost,
            size_bytes=size,
            wrong=(Wrong("records", unit.damage, 0, 0),),
            whole=unit.records is not None,
        )
    if not unit.member:
        records, size, wrong = check_records(stored, layout)
        return Looked(stored_crc=crc, records=records, size_bytes=size, wrong=wrong)
    stated = unit.records or 0
    try:
        data = inflate(stored)
    except CorruptRecord as error:
        text = f"{error.what}; {'its record is' if stated == 1 else f'its {stated} records are'} lost"
        return Looked(stored_crc=crc, records=stated, size_bytes=0, wrong=(Wrong("records", text, 0, 0),))
    records, size, wrong = check_records(memoryview(data), layout)
    if records != stated and not any(w.about == "records" for w in wrong):
        text = f"the gzip member's header says {stated} records and it holds {records}"
        wrong = (*wrong, Wrong("records", text, 0, 0))
    return Looked(stored_crc=crc, records=records, size_bytes=len(data), wrong=wrong)


def check_records(data: memoryview, layout: LayoutCheck) -> tuple[int, int, tuple[Wrong, ...]]:
    """Checks framed records.

    Args:
        data: framed records, one after the other.
        layout: what they have to hold.

    Returns:
        How many whole records there are, the bytes that they take, and what is wrong.
    """
    offsets, problem = walk(data)
    flat = np.frombuffer(data, np.uint8)
    all_wrong = [
        Wrong(about, text, int(numbers[at]), int(offsets[numbers[at]]))
        for numbers, rows in _alike(flat, offsets)
        for about, at, text in _check_rows(rows, layout)
    ]
    all_wrong.sort(key=lambda entry: entry.record or 0)
    wrong = all_wrong[:MOST_FINDINGS]
    if len(all_wrong) > MOST_FINDINGS:
        text = f"{len(all_wrong) - MOST_FINDINGS} more records are wrong from here on"
        wrong.append(Wrong("records", text, *all_wrong[MOST_FINDINGS][2:]))
    if problem is not None:
        wrong.append(Wrong("records", problem, len(offsets) - 1, int(offsets[-1])))
    return len(offsets) - 1, int(offsets[-1]), tuple(wrong)


def walk(data: memoryview) -> tuple[NDArray[np.int64], str | None]:
    """Walks the headers of framed records.

    Returns:
        Where each record starts and the last one ends, as far as that could be followed, and what stopped
        it before the end.
    """
    size = len(data)
    offsets = [0]
    position = 0
    known: dict[bytes, int] = {}
    while position < size:
        header = bytes(data[position : position + _HEAD])
        step = known.get(header)
        if step is None or position + step > size:
            try:
                step = record_length(header, size - position - _HEAD) + FRAME_BYTES
            except CorruptRecord as error:
                return np.array(offsets, np.int64), error.what
            known[header] = step
        position += step
        offsets.append(position)
    return np.array(offsets, np.int64), None


def stored_crc(data: memoryview) -> int:
    """Returns the CRC-32C of bytes."""
    return int(crc_of(np.frombuffer(data, np.uint8))) if len(data) else 0


def _alike(
    flat: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Yields records of one size together: their numbers, and their bytes ``(record, byte)``."""
    sizes = np.diff(offsets)
    if not sizes.size:
        return
    if (sizes == sizes[0]).all():
        yield np.arange(len(sizes)), flat[: offsets[-1]].reshape(len(sizes), -1)
    elif int(sizes.max()) > _COPIED_BYTES:
        for number, (start, stop) in enumerate(pairwise(offsets.tolist())):
            yield np.array([number]), flat[start:stop][None]
    else:
        order = np.argsort(sizes, kind="stable")
        for numbers in np.split(order, np.flatnonzero(np.diff(sizes[order])) + 1):
            yield numbers, flat[offsets[numbers][:, None] + np.arange(sizes[numbers[0]])]


def _check_rows(rows: NDArray[np.uint8], layout: LayoutCheck) -> list[tuple[About, int, str]]:
    """Checks framed records of one size; their headers have been looked at."""
    data = rows[:, _HEAD:-4]
    stored = np.ascontiguousarray(rows[:, -4:]).view("<u4").reshape(-1)
    found = masked_crcs(iter(data), len(rows))  # type: ignore[arg-type]  # rows are bytes too
    bad = stored != found
    wrong: list[tuple[About, int, str]] = [
        (
            "records",
            at,
            f"the data's CRC is {int(found[at]):#010x} and the record says {int(stored[at]):#010x}: "
            "damaged data",
        )
        for at in np.flatnonzero(bad).tolist()
    ]
    good = np.flatnonzero(~bad)
    if good.size:
        chosen = data if good.size == len(data) else data[good]
        wrong += [("layout", int(good[at]), text) for at, text in layout.check(chosen)]
    return wrong


def joined(units: Sequence[Unit], target: int) -> list[list[Unit]]:
    """Groups consecutive units until each group has about ``target`` stored bytes."""
    groups: list[list[Unit]] = []
    size = target
    for unit in units:
        if size >= target:
            groups.append([])
            size = 0
        groups[-1].append(unit)
        size += unit.stop - unit.start
    return groups
