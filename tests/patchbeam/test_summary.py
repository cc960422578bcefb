"""What all pieces together say; work that a runner lost or did twice is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.elements import Piece
from patchbeam.errors import CountMismatch
from patchbeam.statistics import EMPTY, measure
from patchbeam.summary import in_order, summarize


def pieces_of(parts: list[tuple[int, list[int]]]) -> list[Piece]:
    """Pieces of runs: patches looked at, and records of each part; kept are the first ones."""
    made = []
    first = 0
    for patches, records in parts:
        kept = min(patches, sum(records))
        for part, count in enumerate(records or [0]):
            made.append(
                Piece(
                    path=f"{first}-{part}" if count else "",
                    order=(first, part),
                    patches=0 if part else patches,
                    kept=np.array([[first, kept]] if kept and not part else np.empty((0, 2)), np.int64),
                    record_size=10,
                    members=np.array([[count, 10 * count, 7]] if count else np.empty((0, 3)), np.int64),
                    sums=np.zeros(1 if count else 0, np.int64),
                    moments=() if part else (measure(np.arange(first, first + patches)),),
                    rounded=() if part else (patches,),
                )
            )
        first += patches
    return made


RUNS = [(3, [2, 1]), (2, []), (4, [4]), (1, [1])]


@given(st.permutations(range(5)))
def test_pieces_in_any_order(order: list[int]) -> None:
    pieces = pieces_of(RUNS)
    ordered = in_order([pieces[i] for i in order], 10)
    assert [piece.order for piece in ordered] == [(0, 0), (0, 1), (3, 0), (5, 0), (9, 0)]
    summary = summarize(ordered, 1, 4)
    assert (summary.patches, summary.records, summary.size_bytes, summary.shards) == (10, 8, 80, 4)
    assert summary.kept.tolist() == [[0, 3], [5, 5]]  # ranges that touch are one
    assert summary.kept_patches == 8
    assert summary.rounded == (10,)
    assert summary.moments[0].count == 10
    assert summary.moments[0].mean == pytest.approx(4.5)


@pytest.mark.parametrize("lost", [0, 2, 3, 4])
def test_a_lost_run_is_found(lost: int) -> None:
    pieces = pieces_of(RUNS)
    del pieces[lost]
    with pytest.raises(CountMismatch, match="lost or repeated"):
        in_order(pieces, 10)


@pytest.mark.parametrize("twice", range(5))
def test_a_run_that_came_twice_is_found(twice: int) -> None:
    pieces = pieces_of(RUNS)
    again = replace(pieces[twice], path="another-attempt")
    with pytest.raises(CountMismatch, match="lost or repeated"):
        in_order([*pieces, again], 10)


def test_one_lost_and_another_twice_is_found() -> None:
    pieces = pieces_of([(2, [2]), (2, [2]), (2, [2])])
    with pytest.raises(CountMismatch):
        in_order([pieces[0], pieces[0], pieces[2]], 6)


def test_a_lost_part_in_the_middle_is_found() -> None:
    pieces = pieces_of([(6, [2, 2, 2])])
    with pytest.raises(CountMismatch):
        in_order([pieces[0], pieces[2]], 6)


def test_nothing_at_all() -> None:
    with pytest.raises(CountMismatch, match="0 patches came out"):
        in_order([], 6)
    summary = summarize(in_order(pieces_of([(6, [])]), 6), 1, 0)
    assert (summary.records, summary.kept_patches, summary.shards) == (0, 0, 0)
    assert summary.kept.shape == (0, 2)
    assert summarize([], 1, 0).moments == (EMPTY,)
