"""Members: grouped, found, inflated; and the exact bytes of the other profile."""

import concurrent.futures
import gzip
import io
import resource
import struct
import threading
import types
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.errors import CorruptRecord, PatchbeamError
from patchbeam.records.gzip import (
    GROUP_BYTES,
    compress_members,
    group_records,
    inflate,
    iter_members,
    member,
)
from patchbeam.records.zlib6 import Zlib6Writer, self_test


def test_header_of_a_member():
    data = member(b"abc", records=7)
    assert data[:16].hex(" ") == "1f 8b 08 04 00 00 00 00 00 ff 10 00 50 42 0c 00"
    assert struct.unpack_from("<QI", data, 16) == (len(data), 7)
    assert struct.unpack("<II", data[-8:]) == (zlib.crc32(b"abc"), 3)
    assert gzip.decompress(data) == b"abc"
    assert inflate(data) == b"abc"


def groups_one_by_one(sizes, minimum):
    groups, records, filled = [], 0, 0
    for size in sizes:
        records, filled = records + 1, filled + size
        if filled >= minimum:
            groups.append(records)
            records = filled = 0
    return groups + ([records] if records else [])


@given(st.lists(st.integers(16, 100), max_size=60), st.integers(1, 300))
def test_groups(sizes, minimum):
    assert group_records(sizes, minimum) == groups_one_by_one(sizes, minimum)


@given(st.lists(st.sampled_from([16, 1000, 100_000, 300_000]), min_size=1, max_size=12), st.integers(0, 99))
def test_members(sizes, seed):
    data = np.random.default_rng(seed).integers(0, 5, sum(sizes), "u1")
    members = compress_members(data, sizes)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert compress_members(data, np.array(sizes), pool=pool) == members
    stored = b"".join(members)
    assert gzip.decompress(stored) == data.tobytes()
    found = list(iter_members(stored))
    assert [m.records for m in found] == group_records(sizes)
    assert [m.size for m in found] == [len(m) for m in members]
    whole = [inflate(memoryview(stored)[m.offset : m.offset + m.size]) for m in found]
    assert b"".join(whole) == data.tobytes()
    assert all(part.readonly for part in whole)  # one copy of a member serves every record in it
    assert all(len(part) >= GROUP_BYTES for part in whole[:-1])


def test_the_same_bytes_in_every_thread():
    # their start comes again, as that of records does; in ISA-L a thread's stack decided what becomes of it
    random = np.random.default_rng(3)
    starts = [random.integers(0, 256, 20, "u1").tobytes() for _ in range(20)]
    inputs = [start + random.integers(0, 256, 60, "u1").tobytes() + start + bytes(99) for start in starts]
    expected = [member(data) for data in inputs]
    found: list[list[bytes]] = []
    before = threading.stack_size()
    try:
        for wave in range(10):
            threads = []
            for k in range(20):  # all at once, for as many places of their stacks
                threading.stack_size((4 + (7 * wave + 3 * k) % 50) << 16)
                threads.append(threading.Thread(target=lambda: found.append([member(d) for d in inputs])))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        threading.stack_size(before)
    assert len(found) == 200
    assert all(members == expected for members in found)


def test_sizes_must_fit_the_buffer():
    with pytest.raises(ValueError, match="32 bytes, the buffer holds 33"):
        compress_members(bytes(33), [16, 16])


def test_every_damage_to_a_member_is_found_or_harmless():
    good = member(bytes(range(200)) * 4, records=3)
    for position in range(len(good)):
        for bit in range(8):
            damaged = bytearray(good)
            damaged[position] ^= 1 << bit
            try:
                assert inflate(bytes(damaged)) == bytes(range(200)) * 4
            except CorruptRecord:
                continue
            # The number of records, which a walk of the records checks, or idle bits of a Huffman table.
            assert 24 <= position < len(good) - 8
    for size in range(len(good)):
        with pytest.raises(CorruptRecord):
            inflate(good[:size])
        if size:
            with pytest.raises(CorruptRecord):
                list(iter_members(good[:size], name="f"))
    with pytest.raises(CorruptRecord):
        inflate(good + b"\0")


def test_a_member_that_lies_about_its_size_is_refused_before_memory_is_taken():
    good = bytearray(member(b"abc"))
    good[-4:] = b"\xff\xff\xff\xff"
    with pytest.raises(CorruptRecord, match="4294967295"):
        inflate(bytes(good))
    for size in (0, 35, 2**60, 2**64 - 1):
        lying = bytearray(member(b"abc") * 2)
        lying[16:24] = struct.pack("<Q", size)
        with pytest.raises(CorruptRecord, match=f"stored byte 0 says {size} bytes"):
            list(iter_members(bytes(lying)))


def test_two_members_in_one_are_refused():
    """Other readers read both; to give the first alone would lose the records of the second."""
    first, second = member(b"abc" * 9), member(b"xyz" * 9)
    both = bytearray(first + second)
    both[16:24] = struct.pack("<Q", len(both))
    assert gzip.decompress(both) == b"abc" * 9 + b"xyz" * 9
    with pytest.raises(CorruptRecord, match="does not end"):
        inflate(bytes(both))


def test_a_trailer_that_says_more_than_there_is_memory_is_damage():
    lying = bytearray(member(np.random.default_rng(0).bytes(4 << 20)))
    lying[-4:] = b"\0\0\0\xf0"
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    try:
        with pytest.raises(CorruptRecord, match="4026531840"):
            inflate(bytes(lying))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_walk_names_where_it_stopped():
    stored = member(b"abc", records=5) + b"\0" * 40
    with pytest.raises(CorruptRecord, match=rf"stored byte {len(stored) - 40}") as caught:
        list(iter_members(stored, name="f"))
    assert (caught.value.file, caught.value.record) == ("f", 5)


def zlib6(data, cuts=()):
    target = io.BytesIO()
    writer = Zlib6Writer(target)
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        writer.write(data[start:end])
    writer.close()
    return target.getvalue()


@given(st.binary(max_size=100), st.integers(1, 3000), st.lists(st.integers(0, 100_000), max_size=5))
def test_zlib6_is_one_stock_member_however_it_is_cut(seed, repeats, cuts):
    data = (seed + bytes(range(256))) * repeats
    stored = zlib6(data)
    assert stored[:10].hex(" ") == "1f 8b 08 00 00 00 00 00 00 ff"
    assert stored[10:-8] == zlib.compress(data, 6)[2:-4]
    assert gzip.decompress(stored) == data
    assert zlib6(data, sorted(min(cut, len(data)) for cut in cuts)) == stored


def test_self_test_refuses_another_zlib():
    self_test()
    other = types.SimpleNamespace(
        ZLIB_RUNTIME_VERSION="1.3.1.zlib-ng", compressobj=lambda level, *rest: zlib.compressobj(5, *rest)
    )
    with pytest.raises(PatchbeamError, match=r"zlib-ng.*stock zlib"):
        self_test(other)
