"""Runs to pieces to shards: every byte in order, also where the limit falls inside a member."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam import storage
from patchbeam.assemble import assemble, member_records
from patchbeam.elements import Piece, RecordRun
from patchbeam.errors import ReadFailed
from patchbeam.finished import write_run
from patchbeam.pieces import PieceWriter
from patchbeam.pool import Pool
from patchbeam.records import gzip as records_gzip
from patchbeam.records.gzip import iter_members
from patchbeam.records.tfrecord import frame, read_records
from patchbeam.shards import Shard, pack


def run_of(datas: list[bytes], first_patch: int = 0) -> RecordRun:
    framed = [frame(data) for data in datas]
    sizes = np.array([len(record) for record in framed], np.int64)
    same = len(set(sizes.tolist())) == 1
    return RecordRun(
        block=0,
        first_patch=first_patch,
        patches=len(datas),
        kept=np.array([[first_patch, len(datas)]] if datas else np.empty((0, 2)), np.int64),
        data=np.frombuffer(b"".join(framed), np.uint8),
        record_size=int(sizes[0]) if same else 0,
        sizes=None if same else sizes,
        moments=(),
        rounded=(),
    )


def shards_of(pieces: list[Piece], limit: int, gzip_: bool) -> list[Shard]:
    return list(pack(pieces, limit, lambda p, m, o, s: member_records(p, m, o, s, gzip=gzip_)))


@pytest.fixture
def small_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of 200 bytes and more, so that a few records make several."""
    group = records_gzip.group_records
    small = lambda sizes, minimum=200: group(sizes, 200)  # noqa: E731
    monkeypatch.setattr(records_gzip, "group_records", small)
    monkeypatch.setattr("patchbeam.pieces.group_records", small)


@pytest.mark.usefixtures("small_members")
@pytest.mark.parametrize("profile", ["indexed", "zlib6", None])
@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("limit", [90, 150, 333, 100_000])
def test_every_record_in_order(tmp_path: Path, profile: str | None, equal: bool, limit: int) -> None:
    random = np.random.default_rng(limit)
    runs = []
    patch = 0
    for count in (7, 0, 1, 12):
        datas = [random.bytes(40 if equal else int(random.integers(0, 70))) for _ in range(count)]
        runs.append((run_of(datas, patch), datas))
        patch += count
    folder = str(tmp_path / "tmp")
    with Pool(2) as pool:
        writer = PieceWriter(
            folder, gzip=profile == "indexed", records_per_shard=None, records_per_patch=1, pool=pool
        )
        pieces = [piece for run, _ in runs for piece in writer.write(run)]
    assert [piece.records for piece in pieces] == [7, 0, 1, 12]
    assert not pieces[1].path
    datas = [data for _, group in runs for data in group]
    shards = shards_of(pieces, limit, profile == "indexed")
    done = [assemble(shard, folder, profile=profile) for shard in shards]
    found = [bytes(record) for shard in done for record in read_records(shard.path)]
    assert found == datas
    first = 0
    for shard in done:
        assert shard.first_record == first
        first += shard.records
        stored = Path(shard.path).read_bytes()
        assert len(stored) == shard.stored_bytes
        plain = stored if profile is None else gzip.decompress(stored)
        assert len(plain) == shard.size_bytes <= limit
        if profile == "indexed":
            members = [(m.records, m.size) for m in iter_members(stored)]
            assert members == [tuple(row) for row in shard.members.tolist()]
            assert sum(count for count, _ in members) == shard.records


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 12))
def test_runs_end_where_certain_shards_do(records: int, per_shard: int, before: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        writer = PieceWriter(
            folder, gzip=False, records_per_shard=per_shard, records_per_patch=1, pool=Pool(1)
        )
        run = run_of([bytes([i]) * 20 for i in range(records)], before)
        pieces = list(writer.write(run))
        ends = np.cumsum([piece.records for piece in pieces]) + before
        assert all(end % per_shard == 0 for end in ends[:-1])
        assert ends[-1] == before + records
        assert [piece.order for piece in pieces] == [(before, part) for part in range(len(pieces))]
        assert [piece.patches for piece in pieces] == [records] + [0] * (len(pieces) - 1)
        stored = b"".join(Path(piece.path).read_bytes() for piece in pieces)
        assert stored == run.data.tobytes()


@pytest.mark.parametrize("resumed", [False, True])
def test_laid_pieces_are_the_shards(tmp_path: Path, resumed: bool) -> None:
    """In any order, a run perhaps twice; those that an earlier run has laid are in files of their own."""
    folder = str(tmp_path)
    options: dict[str, Any] = {"records_per_shard": 4, "records_per_patch": 1, "pool": Pool(1)}
    runs = [run_of([bytes([10 * first + i]) * 20 for i in range(3)], first) for first in range(0, 9, 3)]
    found: dict[tuple[int, int], Piece] = {}
    for number in (2, 0, 1, 0):
        laid = "before" if resumed and number == 0 else "now"
        writer = PieceWriter(folder, gzip=False, laid=laid, **options)
        found |= {piece.order: piece for piece in writer.write(runs[number])}
    pieces = [found[order] for order in sorted(found)]
    assert [piece.start for piece in pieces] == [0, 108, 0, 72, 0]
    shards = shards_of(pieces, 4 * 36, False)
    done = [assemble(shard, folder, profile=None, threads=2) for shard in shards]
    assert b"".join(Path(shard.path).read_bytes() for shard in done) == b"".join(
        r.data.tobytes() for r in runs
    )
    assert [shard.records for shard in done] == [4, 4, 1]
    assert [os.stat(shard.path).st_nlink for shard in done] == [1 if resumed else 2, 2, 2]


def test_a_laid_piece_that_has_changed_is_named_and_made_again(tmp_path: Path) -> None:
    writer = PieceWriter(
        str(tmp_path), gzip=False, records_per_shard=9, records_per_patch=1, pool=Pool(1), laid="now"
    )
    pieces = []
    for first in (0, 3):
        own = list(writer.write(run_of([b"a" * 20] * 3, first)))
        write_run(str(tmp_path), own)
        pieces += own
    (shard,) = shards_of(pieces, 1000, False)
    storage.write_at(pieces[0].path, 5 * 36, b"!")
    with pytest.raises(ReadFailed, match=r"laid-00000\.now: 108 bytes from byte 108 .*made again"):
        assemble(shard, str(tmp_path), profile=None)
    assert [path.name for path in tmp_path.glob("*.run")] == ["000000000000.run"]
    assert not list(tmp_path.glob("shard-*"))


def test_member_records(tmp_path: Path) -> None:
    writer = PieceWriter(str(tmp_path), gzip=True, records_per_shard=None, records_per_patch=1, pool=Pool(1))
    datas = [b"", b"abc", b"x" * 50]
    (piece,) = writer.write(run_of(datas))
    stored = int(piece.members[0, 2])
    assert member_records(piece, 0, 0, stored, gzip=True).tolist() == [16, 19, 66]


def test_a_piece_that_was_cut_short(tmp_path: Path) -> None:
    writer = PieceWriter(str(tmp_path), gzip=True, records_per_shard=None, records_per_patch=1, pool=Pool(1))
    (piece,) = writer.write(run_of([b"a" * 40, b"b" * 60, b"c" * 10]))
    shards = shards_of([piece], 140, True)
    assert len(shards) == 2
    path = Path(piece.path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises((ReadFailed, OSError)):
        for shard in shards:
            assemble(shard, str(tmp_path), profile="indexed")
