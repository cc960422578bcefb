"""A gzip file that cannot be sought: inflated once, in bounded memory, its records checked on the way."""

from __future__ import annotations

from patchbeam import storage
from patchbeam.errors import CorruptRecord
from patchbeam.records.inflate import inflated
from patchbeam.records.layout import FRAME_BYTES
from patchbeam.records.tfrecord import record_length
from patchbeam.verify.layout import LayoutCheck
from patchbeam.verify.shard import MOST_FINDINGS, Looked, Wrong, check_records

_HEAD = 12
_BATCH_BYTES = 4 << 20


def look_at_stream(path: str, layout: LayoutCheck) -> Looked:
    """Checks every record of a gzip file; the CRC of its stored bytes is left at 0.

    Args:
        path: of a local file.
        layout: what records have to hold.

    Raises:
        ReadFailed: the file cannot be read.
    """
    records = position = 0
    wrong: list[Wrong] = []
    whole = True
    kept: list[bytes] = []
    size = 0
    due = _BATCH_BYTES  # bytes that must have come before a look is worth while
    damage: str | None = None

    def take() -> None:
        """Checks the whole records that have come; keeps the bytes of the one that has not."""
        nonlocal records, position, size, due, damage
        data = memoryview(b"".join(kept))
        usable, due, damage = _whole(data)
        if usable:
            count, _, found = check_records(data[:usable], layout)
            wrong.extend(
                w._replace(record=(w.record or 0) + records, byte=(w.byte or 0) + position) for w in found
            )
            records += count
            position += usable
        kept[:] = [bytes(data[usable:])]
        size = len(kept[0])
        due = max(due, _BATCH_BYTES)

    with storage.open_read(path) as file:
        try:
            for chunk in inflated(file):
                kept.append(chunk)
                size += len(chunk)
                if size >= due:
                    take()
                    if damage is not None:
                        break
        except CorruptRecord as error:
            take()
            damage = damage or error.what
        else:
            if damage is None:
                take()
                if damage is None and size:
                    damage = f"the data ends {size} bytes into the record"
    if damage is not None:
        whole = False
        wrong.append(Wrong("records", f"{damage}; what follows cannot be reached", records, position))
    if len(wrong) > MOST_FINDINGS:
        last = wrong[MOST_FINDINGS]
        text = f"{len(wrong) - MOST_FINDINGS} more records are wrong from here on"
        wrong = [*wrong[:MOST_FINDINGS], Wrong("records", text, last.record, last.byte)]
    return Looked(stored_crc=0, records=records, size_bytes=position, wrong=tuple(wrong), whole=whole)


def _whole(data: memoryview) -> tuple[int, int, str | None]:
    """Returns the bytes of the whole records in ``data``, the bytes that the next one needs, and what is
    wrong with its header.
    """
    position = 0
    known: dict[bytes, int] = {}
    while position + _HEAD <= len(data):
        header = bytes(data[position : position + _HEAD])
        step = known.get(header)
        if step is None:
            try:
                step = record_length(header) + FRAME_BYTES
            except CorruptRecord as error:
                return position, _HEAD, error.what
            known[header] = step
        if position + step > len(data):
            return position, step, None
        position += step
    return position, _HEAD, None
