"""Cuts a stored record file into units: by its headers alone, and past damage where that is sure."""

from __future__ import annotations

from patchbeam.errors import CorruptRecord
from patchbeam.records.gzip import HEADER_BYTES, TRAILER_BYTES, member, member_size
from patchbeam.records.layout import FRAME_BYTES
from patchbeam.records.tfrecord import record_length
from patchbeam.verify.shard import Unit

_HEAD = 12
_PLAIN_BYTES = 4 << 20
_MEMBER_HEAD = member(b"")[:16]
"""The part of an indexed member's header that is the same in all; 16 bytes that no data hold by chance."""
_SEARCH_BYTES = 8 << 20


def plain_units(view: memoryview) -> list[Unit]:
    """Cuts a plain file between records.

    A record whose length is damaged has a unit of its own when the one after it is found where it would
    be if the record had the size of the one before.
    """
    units: list[Unit] = []
    size = len(view)
    start = position = last_step = 0
    known: dict[bytes, int] = {}
    while position < size:
        header = bytes(view[position : position + _HEAD])
        step = known.get(header)
        if step is None or position + step > size:
            try:
                step = record_length(header, size - position - _HEAD) + FRAME_BYTES
                known[header] = step
            except CorruptRecord as error:
                if position > start:
                    units.append(Unit(start=start, stop=position))
                after = _next_record(view, position, [last_step, *known.values()])
                if after is None:
                    units.append(
                        Unit(
                            start=position, stop=size, damage=f"{error.what}; nothing behind it can be found"
                        )
                    )
                    return units
                units.append(Unit(start=position, stop=after, records=1, damage=error.what))
                start = position = after
                continue
        position += step
        last_step = step
        if position - start >= _PLAIN_BYTES:
            units.append(Unit(start=start, stop=position))
            start = position
    if position > start:
        units.append(Unit(start=start, stop=position))
    return units


def _next_record(view: memoryview, position: int, steps: list[int]) -> int | None:
    """Where the record after a damaged header starts, or the file ends."""
    for step in dict.fromkeys(steps):
        after = position + step
        if not step or after > len(view):
            continue
        if after == len(view):
            return after
        try:
            record_length(view[after : after + _HEAD], len(view) - after - _HEAD)
        except CorruptRecord:
            continue
        return after
    return None


def member_units(view: memoryview) -> list[Unit]:
    """Cuts an indexed gzip file into its members; what is between damaged headers is a unit too."""
    units: list[Unit] = []
    size = len(view)
    position = 0
    while position < size:
        stated = member_size(view[position : position + HEADER_BYTES])
        if stated is not None and stated[1] and HEADER_BYTES + TRAILER_BYTES <= stated[0] <= size - position:
            after = position + stated[0]
            if after == size or view[after : after + 16] == _MEMBER_HEAD:
                units.append(Unit(start=position, stop=after, member=True, records=stated[1]))
                position = after
                continue
        after = _next_member(view, position + 1)
        units.append(
            Unit(
                start=position,
                stop=after,
                member=True,
                records=_lost(stated),
                damage=_damage(stated, after, size),
            )
        )
        position = after
    return units


def _next_member(view: memoryview, position: int) -> int:
    while position < len(view):
        found = bytes(view[position : position + _SEARCH_BYTES + len(_MEMBER_HEAD) - 1]).find(_MEMBER_HEAD)
        if found >= 0:
            return position + found
        position += _SEARCH_BYTES
    return len(view)


def _lost(stated: tuple[int, int] | None) -> int | None:
    # a member that is damaged in its size alone still says how many records it had
    return stated[1] if stated is not None and 0 < stated[1] < 1 << 24 else None


def _damage(stated: tuple[int, int] | None, after: int, size: int) -> str:
    where = "the file ends" if after == size else f"the next member starts at stored byte {after}"
    if stated is None:
        return f"no header of an indexed gzip member, where one has to start; {where}"
    return f"the gzip member says {stated[0]} bytes and {stated[1]} records, and {where}"
