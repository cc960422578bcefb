"""Which items of a catalogue a job wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from patchbeam.errors import SourceError, nearest, short
from patchbeam.rasters.catalog.item import Item

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
CLOUDS = "eo:cloud_cover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What an item must be like.

    Attributes:
        datetime: an instant or day, or ``A/B`` with ``..`` for an open end; both ends count, a day is whole.
        properties: property → a value, several, or ``{"min": a, "max": b}``. An item that lacks it is out.
    """

    datetime: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    def choose(self, items: Sequence[Item], key: str) -> list[Item]:
        """Returns the items that pass.

        Raises:
            SourceError: a filter cannot be read, or nothing passes; says after which filter nothing was left.
        """
        kept = list(items)
        if self.datetime is not None:
            low, high = interval(self.datetime, f"{key}.datetime")
            passed = [item for item in kept if _meets(item, low, high, key)]
            if not passed:
                times = sorted(time_of(item, key) for item in kept)
                raise SourceError(
                    f"{key}.datetime: none of {len(kept)} scenes is of {self.datetime}; they are from"
                    f" {times[0].isoformat()} to {times[-1].isoformat()}"
                )
            kept = passed
        for name, wanted in self.properties.items():
            passed = [item for item in kept if matches(item.properties.get(name), wanted)]
            if not passed:
                raise SourceError(self._nothing(kept, name, wanted, key))
            kept = passed
        return kept

    @staticmethod
    def _nothing(items: Sequence[Item], name: str, wanted: Any, key: str) -> str:
        where = f"{key}.cloudCover" if name == CLOUDS else f"{key}.filter.{name}"
        found = [item.properties[name] for item in items if item.properties.get(name) is not None]
        if not found:
            known = sorted({known for item in items for known in item.properties})
            return (
                f"{where}: none of {len(items)} scenes has the property {name!r}{nearest(name, known)}; they"
                f" have {', '.join(known[:20])}{', …' if len(known) > 20 else ''}"
            )
        if all(isinstance(v, int | float) for v in found):
            ends = (min(found), max(found))
            have = " to ".join(short(end) if isinstance(end, int) else f"{end:g}" for end in ends)
        else:
            texts = sorted({str(v) for v in found})
            have = ", ".join(texts[:8]) + (", …" if len(texts) > 8 else "")
        return f"{where}: none of {len(items)} scenes passes {wanted}; theirs are {have}"


def matches(value: Any, wanted: Any) -> bool:
    """Whether a property is what a filter wants."""
    if value is None:
        return False
    if isinstance(wanted, Mapping):
        low, high = wanted.get("min"), wanted.get("max")
        if not isinstance(value, int | float):
            return False
        return (low is None or value >= low) and (high is None or value <= high)
    if isinstance(wanted, list | tuple):
        return value in wanted
    return bool(value == wanted)


def interval(text: str, key: str) -> tuple[datetime, datetime]:
    """Returns both ends of an instant, a day, or ``A/B``.

    Raises:
        SourceError: it cannot be read, or ends before it begins.
    """
    first, slash, last = text.partition("/")
    low = _FIRST if first in ("", "..") and slash else _edge(first, key, False)
    high = _edge(first, key, True) if not slash else _LAST if last in ("", "..") else _edge(last, key, True)
    if low > high:
        raise SourceError(f"{key}: {text!r} ends before it begins; give the earlier time first")
    return low, high


def _edge(text: str, key: str, end: bool) -> datetime:
    try:
        value = parse_time(text)
    except ValueError:
        raise SourceError(
            f"{key}: {text!r} is no time; write 2024-05-01, 2024-05-01T10:20:00Z or 2024-05-01/2024-08-31"
        ) from None
    whole_day = len(text.strip()) <= 10
    return value + timedelta(days=1) - timedelta(microseconds=1) if end and whole_day else value


def parse_time(text: str) -> datetime:
    """Returns an ISO 8601 time in UTC; one without a zone is in UTC."""
    value = datetime.fromisoformat(text.strip())
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def time_of(item: Item, key: str) -> datetime:
    """Returns when a scene was taken: ``datetime``, else ``start_datetime``.

    Raises:
        SourceError: it has none, or one that cannot be read.
    """
    value = item.properties.get("datetime") or item.properties.get("start_datetime")
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    try:
        return parse_time(str(value))
    except ValueError:
        raise SourceError(
            f"{key}: {item.where}: item {item.id!r} has the datetime {value!r}, which is no time; correct it,"
            " or say with time: where the path holds it"
        ) from None


def _meets(item: Item, low: datetime, high: datetime, key: str) -> bool:
    start, end = item.properties.get("start_datetime"), item.properties.get("end_datetime")
    if item.properties.get("datetime") is None and start and end:
        return parse_time(str(start)) <= high and parse_time(str(end)) >= low
    return low <= time_of(item, key) <= high


def in_order(items: Sequence[Item], sort_by: str | None, key: str) -> list[Item]:
    """Returns items by time, then by id; or by a property (``-`` before it: falling), then so.

    Raises:
        SourceError: an item lacks the property.
    """

    def moment(item: Item) -> datetime:
        known = item.properties.get("datetime") or item.properties.get("start_datetime")
        return _FIRST if known is None else time_of(item, key)

    ordered = sorted(items, key=lambda item: (moment(item), item.id.encode(), item.collection or ""))
    if sort_by is None:
        return ordered
    name = sort_by.removeprefix("-")
    for item in items:
        if item.properties.get(name) is None:
            raise SourceError(
                f"{key}.sortBy: item {item.id!r} has no property {name!r}{nearest(name, item.properties)}"
            )
    try:
        return sorted(ordered, key=lambda item: item.properties[name], reverse=sort_by.startswith("-"))
    except TypeError:
        raise SourceError(f"{key}.sortBy: {name!r} is not of one kind in all items") from None
