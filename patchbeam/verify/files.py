"""All shards of an export, checked side by side."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from patchbeam import storage
from patchbeam.errors import CorruptRecord, ReadFailed
from patchbeam.pool import Pool
from patchbeam.records.gzip import member_size, sniff
from patchbeam.records.index import map_file
from patchbeam.storage.base import crc32c_combine, crc32c_text
from patchbeam.verify.layout import LayoutCheck
from patchbeam.verify.report import Finding, ShardFacts
from patchbeam.verify.shard import Looked, Unit, joined, look_at, stored_crc
from patchbeam.verify.stream import look_at_stream
from patchbeam.verify.units import member_units, plain_units

_TASK_BYTES = 4 << 20
_BATCH_BYTES = 256 << 20
_BATCH_FILES = 64
_CRC_BYTES = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckedFile:
    """One shard after the check.

    Attributes:
        facts: what it is; ``None`` when it cannot be read at all.
        members: ``(member, [records, stored bytes])`` of an indexed file, else ``None``.
        findings: what is wrong in it.
        whole: whether all of its records could be reached.
    """

    facts: ShardFacts | None
    members: NDArray[np.int64] | None
    findings: tuple[Finding, ...]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Open:
    """A shard that is being checked: the local copy that is read, and how it is cut."""

    path: str
    local: str
    form: str
    view: memoryview
    units: list[Unit]


def check_files(
    paths: Sequence[str],
    layout: LayoutCheck,
    *,
    members: Sequence[NDArray[np.int64] | None],
    threads: int,
) -> Iterator[CheckedFile]:
    """Yields what is found in each shard, in order.

    Args:
        paths: of the shards.
        layout: what records have to hold.
        members: for each shard the table of its members in the export's index, if there is one.
        threads: that work side by side.
    """
    with Pool(threads) as pool:
        for batch in _batches(list(zip(paths, members, strict=True))):
            with ExitStack() as stack:
                opened = [_open(path, table, stack) for path, table in batch]
                tasks = [
                    (file, group)
                    for file in opened
                    if isinstance(file, _Open)
                    for group in ([[]] if file.form == "gzip" else joined(file.units, _TASK_BYTES))
                ]
                done = pool.map(lambda task: _look(task[0], task[1], layout), tasks)
                results: dict[str, list[Looked]] = {}
                for (file, _), looked in zip(tasks, done, strict=True):
                    results.setdefault(file.path, []).extend(looked)
                for one in opened:
                    if isinstance(one, CheckedFile):
                        yield one
                    else:
                        yield _checked(one, results.get(one.path, []))


def _batches(
    files: list[tuple[str, NDArray[np.int64] | None]],
) -> Iterator[list[tuple[str, NDArray[np.int64] | None]]]:
    batch: list[tuple[str, NDArray[np.int64] | None]] = []
    size = 0
    for path, table in files:
        batch.append((path, table))
        with suppress(ReadFailed):  # told when it is opened
            size += storage.stat(path).size_bytes
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _open(path: str, table: NDArray[np.int64] | None, stack: ExitStack) -> _Open | CheckedFile:
    """Maps a shard and cuts it; one in Cloud Storage is copied to a temporary file first."""
    try:
        local = path
        if storage.is_remote(path):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="patchbeam-verify-"))
            local = os.path.join(folder, "shard")
            storage.write_parts(local, storage.read_chunks(path))
        view = map_file(local)
    except (ReadFailed, OSError) as error:
        finding = Finding(about="shards", file=path, text=f"cannot be read: {error}")
        return CheckedFile(facts=None, members=None, findings=(finding,), whole=False)
    try:
        form = str(sniff(bytes(view[:12])))
    except CorruptRecord as error:
        if member_size(view[:28]) is None and not path.endswith(".gz"):
            units = plain_units(view)  # the header of its first record is damaged, or it is no record file
            return _Open(path=path, local=local, form="plain", view=view, units=units)
        if _has_members(view):
            return _Open(path=path, local=local, form="indexed", view=view, units=member_units(view))
        finding = Finding(about="records", file=path, record=0, byte=0, stored_byte=0, text=error.what)
        facts = _facts(path, "unknown", 0, 0, view)
        return CheckedFile(facts=facts, members=None, findings=(finding,), whole=False)
    if form == "plain":
        return _Open(path=path, local=local, form="plain", view=view, units=plain_units(view))
    if not _has_members(view):
        return _Open(path=path, local=local, form="gzip", view=view, units=[])
    units = member_units(view)
    if table is not None and len(table) == len(units):
        units = [
            replace(unit, records=int(known)) if unit.damage else unit
            for unit, known in zip(units, table[:, 0], strict=True)
        ]
    return _Open(path=path, local=local, form="indexed", view=view, units=units)


def _has_members(view: memoryview) -> bool:
    if member_size(view[:28]) is not None:
        return True
    return any(unit.damage is None for unit in member_units(view[: 64 << 20]))


def _look(file: _Open, units: list[Unit], layout: LayoutCheck) -> list[Looked]:
    if file.form != "gzip":
        return [look_at(file.view, unit, layout) for unit in units]
    try:
        looked = look_at_stream(file.local, layout)
    except ReadFailed as error:
        raise ReadFailed(f"{file.path}: {error}") from None
    return [replace(looked, stored_crc=_whole_crc(file.view))]


def _whole_crc(view: memoryview) -> int:
    crc = 0
    for start in range(0, len(view), _CRC_BYTES):
        part = view[start : start + _CRC_BYTES]
        crc = crc32c_combine(crc, stored_crc(part), len(part))
    return crc


def _facts(path: str, form: str, records: int, size: int, view: memoryview) -> ShardFacts:
    return ShardFacts(
        path=path,
        form=form,
        records=records,
        size_bytes=size,
        stored_bytes=len(view),
        crc32c=crc32c_text(_whole_crc(view)),
    )


def _checked(file: _Open, looked: Sequence[Looked]) -> CheckedFile:
    """Puts the units of a shard together again; findings get their place in the whole file."""
    findings: list[Finding] = []
    records = size = crc = 0
    units = file.units or [Unit(start=0, stop=len(file.view))] * len(looked)
    for unit, found in zip(units, looked, strict=True):
        for wrong in found.wrong:
            findings.append(
                Finding(
                    about=wrong.about,
                    text=wrong.text,
                    file=file.path,
                    record=records + (wrong.record or 0),
                    byte=size + (wrong.byte or 0),
                    stored_byte=unit.start if unit.member else None,
                )
            )
        records += found.records
        size += found.size_bytes
        crc = crc32c_combine(crc, found.stored_crc, unit.stop - unit.start)
    members = None
    if file.form == "indexed":
        table = [(found.records, unit.stop - unit.start) for unit, found in zip(units, looked, strict=True)]
        members = np.array(table, np.int64).reshape(-1, 2)
    facts = ShardFacts(
        path=file.path,
        form=file.form,
        records=records,
        size_bytes=size,
        stored_bytes=len(file.view),
        crc32c=crc32c_text(crc),
    )
    return CheckedFile(
        facts=facts,
        members=members,
        findings=tuple(findings),
        whole=all(found.whole for found in looked),
    )
