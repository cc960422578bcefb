"""Record files: messages, framing, gzip members, indexes."""

from __future__ import annotations

import gzip
import io
import random
import struct
import zlib
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from fuzzing import ODD, Target, damaged

from fuzz_targets.places import folder, put
from patchbeam.errors import CorruptRecord
from patchbeam.inspect import inspect_file
from patchbeam.records.crc import masked_crc
from patchbeam.records.example import ExampleDecoder, ExampleLayout, Feature, feature_kinds, parse_example
from patchbeam.records.files import RecordFiles
from patchbeam.records.gzip import member
from patchbeam.records.index import index_file
from patchbeam.records.memberindex import read_member_index
from patchbeam.records.sequence import SequenceLayout, Steps, parse_sequence_example
from patchbeam.records.tfrecord import frame, read_records, record_offsets
from patchbeam.tables.importing.decode import decode_records
from patchbeam.tables.importing.infer import look

_DATA = slice(12, -4)
EXAMPLES = [
    ExampleLayout([Feature("a", "float", 3), Feature("é", "int64", 3), Feature("c", "bytes", 3)]).encode(
        [np.arange(3), np.array([1, 300, -1]), np.arange(3)]
    )[_DATA],
    ExampleLayout([Feature("B1", "float", 64)]).encode([np.arange(64) / 7])[_DATA],
    ExampleLayout([Feature(f"b{i}", "int64", 5) for i in range(4)]).encode([np.arange(5) << 9] * 4)[_DATA],
]
SEQUENCES = [
    SequenceLayout([Feature("a", "float", 1)], [Feature("b", "int64", 2)])
    .encode([np.ones(1)], [Steps(np.arange(6).reshape(3, 1, 2) * 100)])
    .data.tobytes()[_DATA]
]
MESSAGES = [*map(bytes, EXAMPLES), *SEQUENCES]
_TOKENS = [b"\x0a", b"\x12", b"\x1a", b"\x0d", b"\x08", b"\x0b", b"\x0c", b"\x80", b"\xff", b"\x01", b"\x04"]
_DECODER = ExampleDecoder()


def message(chance: random.Random) -> bytes:
    kind = chance.randrange(10)
    if kind == 0:
        return chance.randbytes(chance.randrange(120))
    if kind == 1:
        return b"".join(chance.choices(_TOKENS, k=chance.randrange(60)))
    return damaged(chance, chance.choice(MESSAGES), MESSAGES)


def read_message(data: bytes) -> None:
    refused = None
    for read in (parse_example, feature_kinds, _DECODER.decode, parse_sequence_example):
        try:
            read(data)
        except CorruptRecord as error:
            refused = error
    if refused is not None:
        raise refused


def messages(chance: random.Random) -> list[bytes]:
    return [message(chance) if chance.random() < 0.5 else bytes(EXAMPLES[0]) for _ in range(3)]


def read_table(datas: list[bytes]) -> None:
    look(decode_records(datas), 0, len(datas))


def record(chance: random.Random) -> bytes:
    """A framed record: good, of a wrong CRC, or of a length that is not its own and says so with a CRC."""
    data = chance.choice(MESSAGES)
    kind = chance.randrange(6)
    if kind < 3:
        return frame(data)
    if kind == 3:
        return damaged(chance, frame(data))
    sizes = (0, 1, 11, len(data) + 1, 1 << 20, (1 << 31) - 1, 1 << 31, 1 << 40, 1 << 60, (1 << 64) - 1)
    length = struct.pack("<Q", chance.choice(sizes))
    return length + struct.pack("<I", masked_crc(length)) + data + chance.randbytes(4)


def stream(chance: random.Random) -> bytes:
    """A record file of any kind."""
    data = b"".join(record(chance) for _ in range(chance.randrange(5)))
    kind = chance.randrange(5)
    if kind == 1:
        data = member(data, records=chance.choice((0, 1, 2, 3, 1000))) + member(frame(b"x"))
    elif kind == 2:
        data = gzip.compress(data, 1, mtime=0)
    elif kind == 3:
        body = zlib.compressobj(1, zlib.DEFLATED, -15)
        flags = chance.randrange(32)
        extra = chance.randbytes(chance.randrange(8))
        parts = [b"\x1f\x8b\x08", bytes([flags]), bytes(6)]
        parts += [struct.pack("<H", chance.choice((0, len(extra), 0xFFFF)))] if flags & 4 else []
        parts += [extra, b"name\0", body.compress(data) + body.flush()]
        data = b"".join([*parts, struct.pack("<II", zlib.crc32(data), len(data))])
    return damaged(chance, data) if chance.random() < 0.5 else data


def read_stream(data: bytes) -> None:
    for _ in read_records(io.BytesIO(data)):
        pass
    if data[:2] != b"\x1f\x8b":
        record_offsets(data)


def read_file(data: bytes) -> None:
    path = put("records", "some.tfrecord.gz", data)
    with suppress(CorruptRecord):
        inspect_file(path)
    files = RecordFiles.open([path], spool_folder=str(folder("records")), threads=1)
    try:
        for number in range(min(len(files), 20)):
            files[number]
    finally:
        files.close()


@cache
def _indexed() -> tuple[str, list[bytes]]:
    members = [member(frame(bytes(EXAMPLES[0])) * n, records=n) for n in (1, 2, 3)]
    return put("members", "scene-00000.tfrecord.gz", b"".join(members)), members


def member_index(chance: random.Random) -> bytes:
    """``PREFIX-index.npz`` with columns that are wrong, or with damage."""
    sizes = [len(one) for one in _indexed()[1]]
    columns: dict[str, Any] = {"shardMembers": [3], "memberRecords": [1, 2, 3], "memberBytes": sizes}
    for _ in range(chance.randrange(3)):
        name = chance.choice(list(columns))
        values = columns[name]
        kind = chance.randrange(5)
        if kind == 0:
            columns[name] = chance.choice((1, [], [[1, 2]], ["a"], [True], [1.5], [float("nan")], [1j]))
        elif kind == 1 and isinstance(values, list) and values:
            i = chance.randrange(len(values))
            step = chance.choice((1, -1, 5, 2**31, 2**62, -(2**62)))
            try:
                columns[name] = [*values[:i], values[i] + step, *values[i + 1 :]]
                columns[name][(i + 1) % len(values)] -= step  # the sums agree all the same
            except TypeError:
                columns[name] = chance.choice((0, [0]))
        elif kind == 2:
            columns.pop(name)
            columns = columns or {"a": [1]}
        elif kind == 3:
            odd = chance.choice(
                [value for value in ODD if not isinstance(value, int | dict | list) or value == 1]
            )
            columns[name] = np.array([str(odd).encode("utf-8", "replace")])
        else:
            columns[name] = np.array(sizes, np.int64).astype(chance.choice(("u1", "i4", "u8", "f4", "S3")))
    target = io.BytesIO()
    write = np.savez if chance.random() < 0.5 else np.savez_compressed
    write(target, **{name: np.asarray(value) for name, value in columns.items()})
    return damaged(chance, target.getvalue()) if chance.random() < 0.4 else target.getvalue()


def read_index(data: bytes) -> None:
    path, _ = _indexed()
    _, sizes, records = read_member_index(data, "scene-index.npz")
    index_file(path, spool_folder="", members=(sizes, records))
    files = RecordFiles.open(
        [path], spool_folder=str(folder("members")), members=[(sizes, records)], threads=1
    )
    for number in range(min(len(files), 8)):
        files[number]
    for _ in files.read_range(0, min(len(files), 8)):
        pass


TARGETS = [
    Target(name="messages", make=message, read=read_message, short=4000, long=500_000),
    Target(name="table-records", make=messages, read=read_table, short=800, long=60_000),
    Target(name="record-streams", make=stream, read=read_stream, short=3000, long=220_000),
    Target(name="record-files", make=stream, read=read_file, short=400, long=15_000),
    Target(name="member-indexes", make=member_index, read=read_index, short=300, long=15_000),
]
