"""Record files: round trips, other readers, and every kind of damage."""

import gzip
import io
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbeam.errors import CorruptRecord
from patchbeam.records.gzip import iter_members, sniff
from patchbeam.records.tfrecord import frame, masked_crc, read_records, record_offsets, write_records

PROFILES = [None, "indexed", "zlib6"]
DATAS = [b"", b"a", b"bc" * 40, bytes(range(256)) * 3]


def written(tmp_path, datas, profile):
    path = tmp_path / "x.tfrecord"
    assert write_records(path, datas, profile) == len(datas)
    return path


def read(data, **options):
    return [bytes(r) for r in read_records(io.BytesIO(data), **options)]


def starts(datas):
    return np.concatenate(([0], np.cumsum([len(d) + 16 for d in datas]))).tolist()


@pytest.mark.parametrize("profile", PROFILES)
@settings(max_examples=15)
@given(st.lists(st.binary(max_size=300), max_size=8), st.sampled_from([0, 2**18, 3_000_000]))
def test_round_trip(tmp_path_factory, profile, datas, big):
    datas = [*datas, np.random.default_rng(0).bytes(big), b"end"]
    path = written(tmp_path_factory.mktemp("t"), datas, profile)
    assert [bytes(r) for r in read_records(path)] == datas
    assert [bytes(r) for r in read_records(str(path), check=False)] == datas


@pytest.mark.parametrize("profile", PROFILES)
def test_other_readers(tmp_path, profile):
    datas = [np.random.default_rng(i).integers(0, 9, 60_000, "u1").tobytes() for i in range(12)]
    path = written(tmp_path, datas, profile)
    kind = "GZIP" if profile else ""
    assert [bytes(r.numpy()) for r in tf.data.TFRecordDataset(str(path), kind)] == datas
    framed = b"".join(map(frame, datas))
    assert (gzip.decompress(path.read_bytes()) if profile else path.read_bytes()) == framed
    if profile == "indexed":
        assert len(list(iter_members(path.read_bytes()))) == 3
    assert record_offsets(framed).tolist() == starts(datas)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_tensorflow_files_are_read(tmp_path, compression):
    path = str(tmp_path / "t")
    with tf.io.TFRecordWriter(path, compression) as writer:
        for data in DATAS:
            writer.write(data)
    assert [bytes(r) for r in read_records(path)] == DATAS


def test_every_flipped_bit_of_a_plain_file_is_found(tmp_path):
    data = written(tmp_path, DATAS, None).read_bytes()
    first = starts(DATAS)
    for position in range(len(data)):
        record = int(np.searchsorted(first, position, "right")) - 1
        for bit in (0, 4, 7):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptRecord) as caught:
                read(bytes(damaged), name="f")
            assert (caught.value.file, caught.value.record, caught.value.byte) == ("f", record, first[record])
            assert str(caught.value).startswith(f"f, record {record}, byte {first[record]}: ")


@pytest.mark.parametrize("profile", ["indexed", "zlib6"])
def test_no_flipped_bit_of_a_gzip_file_changes_what_is_read(tmp_path, profile):
    data = written(tmp_path, DATAS, profile).read_bytes()
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            try:
                assert read(bytes(damaged)) == DATAS
            except CorruptRecord as error:
                assert error.byte == starts(DATAS)[error.record]
            else:
                # Harmless: flags that say nothing, time, OS, our record count, idle bits of a
                # Huffman table. Never the magic, our size field or the trailer.
                assert 3 <= position < len(data) - 8
                assert profile == "zlib6" or not 16 <= position < 24


def test_every_cut_of_a_plain_file(tmp_path):
    data = written(tmp_path, DATAS, None).read_bytes()
    first = starts(DATAS)
    for size in range(len(data)):
        if size in first:  # a valid shorter file: only counts tell
            assert read(data[:size]) == DATAS[: first.index(size)]
            continue
        record = int(np.searchsorted(first, size, "right")) - 1
        for walk in (lambda d: read(d), lambda d: read(d, check=False), record_offsets):
            with pytest.raises(CorruptRecord) as caught:
                walk(data[:size])
            assert (caught.value.record, caught.value.byte) == (record, first[record])


@pytest.mark.parametrize("profile", ["indexed", "zlib6"])
def test_every_cut_of_a_gzip_file(tmp_path, profile):
    datas = [*DATAS, np.random.default_rng(0).bytes(1 << 18), b"second member"]
    data = written(tmp_path, datas, profile).read_bytes()
    boundaries = {m.offset for m in iter_members(data)} if profile == "indexed" else {0}
    sizes = {*range(400), *range(0, len(data), 4999), *range(len(data) - 200, len(data)), *boundaries}
    for size in sorted(sizes):
        if size in boundaries:  # a valid shorter file: only counts tell
            assert read(data[:size]) == (datas[:5] if size else [])
        else:
            with pytest.raises(CorruptRecord):
                read(data[:size])


@pytest.mark.parametrize("profile", ["indexed", "zlib6"])
@pytest.mark.parametrize("tail", [b"\0", b"\0" * 512, b"garbage", b"\x1f\x8b", b"\x1f\x8b\x08\0"])
def test_bytes_after_the_last_member(tmp_path, profile, tail):
    data = written(tmp_path, DATAS, profile).read_bytes()
    with pytest.raises(CorruptRecord) as caught:
        read(data + tail)
    assert (caught.value.record, caught.value.byte) == (len(DATAS), starts(DATAS)[-1])


@pytest.mark.parametrize("length", [2**60, 2**64 - 1, 2**31, 2**31 - 1])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_absurd_lengths_take_no_memory(length, pack):
    header = struct.pack("<Q", length)
    data = frame(b"ok") + header + struct.pack("<I", masked_crc(header)) + bytes(100)
    with pytest.raises(CorruptRecord, match=str(length)) as caught:
        read(pack(data))
    assert (caught.value.record, caught.value.byte) == (1, 18)
    if pack is bytes:
        with pytest.raises(CorruptRecord, match=str(length)):
            record_offsets(data)


def test_unchecked_data_is_given_as_it_is():
    damaged = bytearray(frame(b"abc"))
    damaged[13] ^= 1
    assert read(bytes(damaged), check=False) == [b"acc"]


def test_sniffing_needs_more_than_the_magic():
    tricky = frame(bytes(0x088B1F))  # a plain record whose length starts 1f 8b 08
    assert tricky[:3] == b"\x1f\x8b\x08"
    assert sniff(tricky[:12]) == "plain"
    assert [len(r) for r in read_records(io.BytesIO(tricky))] == [0x088B1F]
    assert sniff(gzip.compress(b"x")[:12]) == "gzip"
    assert sniff(b"") == "plain"
    for wrong in (b"x", b"\x1f\x8b", b"PK\x03\x04" + bytes(20), b"\x89PNG" + bytes(20)):
        with pytest.raises(CorruptRecord, match="neither"):
            sniff(wrong)


def test_gzip_headers_with_names_comments_and_checksums():
    body = gzip.compress(frame(b"abc"))[10:]
    extra, name, comment = b"\x04\x00XY\x00\x00", b"name\0", b"comment\0"
    header = b"\x1f\x8b\x08\x1e\1\2\3\4\2\3" + extra + name + comment
    header += struct.pack("<H", zlib.crc32(header) & 0xFFFF)
    assert read(header + body + gzip.compress(frame(b"d"))) == [b"abc", b"d"]
    with pytest.raises(CorruptRecord, match="header CRC"):
        read(header[:-1] + bytes([header[-1] ^ 1]) + body)


def test_memory_is_bounded_by_a_record(tmp_path):
    path = tmp_path / "zeros.gz"
    with gzip.open(path, "wb", 1) as file:
        for _ in range(60):
            file.write(frame(bytes(1_000_000)))
        file.write(bytes(60_000_000))  # a record of no length with a wrong CRC, and much after it
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecord) as caught:
            for data in read_records(path):
                assert len(data) == 1_000_000
        assert caught.value.record == 60
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("profile", PROFILES)
def test_what_was_there_stays_when_writing_fails(tmp_path, profile):
    path = written(tmp_path, DATAS, profile)
    before = path.read_bytes()

    def failing():
        yield b"x" * 300_000
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_records(path, failing(), profile)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == [path.name]
    # so that a file can even be rewritten from itself
    assert write_records(path, (bytes(r) * 2 for r in read_records(path)), profile) == len(DATAS)
    assert [bytes(r) for r in read_records(path)] == [d * 2 for d in DATAS]


def test_a_pipe_is_written_as_it_is(tmp_path):
    assert write_records("/dev/null", DATAS) == len(DATAS)
