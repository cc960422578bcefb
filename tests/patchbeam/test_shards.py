"""Packing records into shards, against the loop that says it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.elements import Piece
from patchbeam.shards import RecordTooLarge, cut_at_shards, pack, shard_bounds


def piece(path: str, order: int, groups: list[list[int]], record_size: int = 0) -> Piece:
    members = np.array([[len(g), sum(g), 100 + len(g)] for g in groups], np.int64).reshape(-1, 3)
    return Piece(
        path=path,
        order=(order, 0),
        patches=1,
        kept=np.array([[order, 1]]),
        record_size=record_size,
        members=members,
        sums=np.zeros(len(members), np.int64),
        moments=(),
        rounded=(),
    )


def greedy(sizes: list[int], limit: int) -> list[list[int]]:
    """Records are added while the shard stays at or under the limit."""
    shards: list[list[int]] = []
    for size in sizes:
        if not shards or sum(shards[-1]) + size > limit:
            shards.append([])
        shards[-1].append(size)
    return shards


groups = st.lists(st.lists(st.lists(st.integers(16, 60), min_size=1, max_size=5), max_size=5), max_size=6)


@given(groups, st.integers(60, 200))
def test_packs_as_the_greedy_loop_does(pieces: list[list[list[int]]], limit: int) -> None:
    made = [piece(f"p{i}", i, g) for i, g in enumerate(pieces)]
    asked: list[tuple[str, int]] = []

    def sizes(p: Piece, member: int, offset: int, stored: int) -> np.ndarray:
        asked.append((p.path, member))
        assert stored == p.members[member, 2]
        assert offset == p.members[:member, 2].sum()
        return np.array(pieces[p.order[0]][member], np.int64)

    shards = list(pack(made, limit, sizes))
    records = [size for p in pieces for g in p for size in g]
    expected = greedy(records, limit)
    assert [(s.records, s.size_bytes) for s in shards] == [(len(e), sum(e)) for e in expected]
    assert [s.number for s in shards] == list(range(len(shards)))
    assert [s.first_record for s in shards] == [
        sum(len(e) for e in expected[:i]) for i in range(len(expected))
    ]
    # every record is in one span, in order
    found: list[int] = []
    for shard in shards:
        for span in shard.spans:
            number = int(span.path[1:])
            starts = np.concatenate([[0], np.cumsum(made[number].members[:, 2])])
            at = int(np.flatnonzero(starts == span.start)[0])
            if span.whole:
                taken = [size for g in pieces[number][at : at + len(span.members)] for size in g]
            else:
                member = pieces[number][at]
                ends = np.cumsum([0, *member])
                low = int(np.flatnonzero(ends == span.skip)[0])
                high = int(np.flatnonzero(ends == span.skip + span.take)[0])
                taken = member[low:high]
                assert 0 < len(taken) < len(member)
            assert len(taken) == span.members[:, 0].sum()
            found += taken
    assert found == records
    assert len(asked) <= 2 * len(shards)


def test_a_record_above_the_limit_names_its_place() -> None:
    with pytest.raises(RecordTooLarge) as caught:
        list(pack([piece("p0", 7, [[20, 30], [200]])], 100, lambda *_: np.array([20, 30])))
    assert (caught.value.record, caught.value.size, caught.value.piece.order) == (2, 200, (7, 0))


def test_records_of_one_size_are_not_looked_at() -> None:
    def never(*_: object) -> np.ndarray:
        raise AssertionError("sizes are known")

    shards = list(pack([piece("p0", 0, [[50] * 10], record_size=50)], 120, never))
    assert [s.records for s in shards] == [2] * 5


@given(st.integers(0, 1000), st.integers(0, 500), st.integers(1, 60))
def test_runs_end_where_shards_do(first: int, records: int, per_shard: int) -> None:
    parts = cut_at_shards(first, records, per_shard)
    assert sum(parts) == records
    assert all(part > 0 for part in parts)
    for part in parts:
        assert first // per_shard == (first + part - 1) // per_shard
        first += part
        if part != parts[-1]:
            assert first % per_shard == 0


@given(st.lists(st.integers(20, 40), max_size=60), st.integers(40, 300), st.booleans())
def test_bounds_hold(sizes: list[int], limit: int, drop: bool) -> None:
    bounds = shard_bounds(len(sizes), (20, 40), limit, may_drop=drop)
    shards = greedy(sizes, limit)
    assert bounds.shards[0] <= len(shards) <= bounds.shards[1]
    assert bounds.total_bytes[0] <= sum(sizes) <= bounds.total_bytes[1]
    assert not bounds.exact
    assert shard_bounds(10, (30, 30), 90, may_drop=False).shards == (4, 4)
    assert shard_bounds(10, (30, 30), 90, may_drop=False).exact
