"""A runner that loses or repeats work and still reports success is found out, and nothing is published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from eager import write_tif
from exports import run_job

from patchbeam.assemble import AssembledShard
from patchbeam.elements import Piece
from patchbeam.errors import CountMismatch
from patchbeam.summary import Summary
from transforms import write

RECORD = 16 * 16 * 4 + 33  # a patch and its framing, no more than about
Change = Callable[[Any], list[Any]]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(1).integers(1, 99, (96, 112)).astype("u2")
    return write_tif(
        tmp_path_factory.mktemp("losses") / "a.tif", values, tiled=True, blockxsize=16, blockysize=16
    )


def run(scene: Path, folder: Path, **more: Any) -> None:
    """42 patches: six runs of seven, whose records go into shards of three."""
    settings = {"patchDimensions": 16, "maxFileSize": 3 * (RECORD + 30), **more}
    run_job(folder, {"sources": str(scene), "blockBytes": 1 << 16, "formatOptions": settings})


def leak(monkeypatch: pytest.MonkeyPatch, stage: str, change: Change) -> None:
    """Puts a transform between a stage and the step that gathers what it made."""
    gather = write.gather

    def leaking(values: beam.PCollection, name: str) -> beam.PCollection:
        if name == stage:
            values = values | f"Leak{name}" >> beam.FlatMap(change)
        return gather(values, name)

    monkeypatch.setattr(write, "gather", leaking)


def one_run_is_lost(piece: Piece) -> list[Piece]:
    return [] if piece.order[0] == 14 else [piece]


def every_piece_is_lost(piece: Piece) -> list[Piece]:
    return []


def a_first_part_is_lost(piece: Piece) -> list[Piece]:
    return [] if piece.order == (21, 0) else [piece]


def a_middle_part_is_lost(piece: Piece) -> list[Piece]:
    return [] if piece.order == (21, 1) else [piece]


def a_last_part_is_lost(piece: Piece) -> list[Piece]:
    return [] if piece.order == (7, 2) else [piece]


def one_piece_comes_twice(piece: Piece) -> list[Piece]:
    return [piece, piece] if piece.order == (7, 1) else [piece]


def one_is_lost_and_one_comes_twice(piece: Piece) -> list[Piece]:
    return {(0, 0): [], (7, 0): [piece, piece]}.get(piece.order, [piece])


def records_are_lost_from_a_piece(piece: Piece) -> list[Piece]:
    return [replace(piece, members=piece.members - [[1, RECORD, 0]]) if piece.order == (7, 0) else piece]


PIECES: list[Change] = [
    one_run_is_lost,
    every_piece_is_lost,
    a_first_part_is_lost,
    a_middle_part_is_lost,
    a_last_part_is_lost,
    one_piece_comes_twice,
    one_is_lost_and_one_comes_twice,
    records_are_lost_from_a_piece,
]


@pytest.mark.parametrize("change", PIECES)
def test_pieces(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    leak(monkeypatch, "Pieces", change)
    with pytest.raises(CountMismatch, match=r"lost or repeated work; nothing has been published"):
        run(scene, tmp_path)
    assert not list(tmp_path.glob("out*/*"))


def test_pieces_when_patches_may_be_dropped(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer records are then no surprise, but patches that nobody looked at are."""
    leak(monkeypatch, "Pieces", one_run_is_lost)
    with pytest.raises(CountMismatch, match=r"pieces of 35 patches .* the plan has 42"):
        run(scene, tmp_path, maskedThreshold=0.5)
    assert not list(tmp_path.glob("out*/*"))


def one_shard_is_lost(value: AssembledShard | Summary) -> list[Any]:
    return [] if isinstance(value, AssembledShard) and value.number == 4 else [value]


def the_last_shard_is_lost(value: AssembledShard | Summary) -> list[Any]:
    return [] if isinstance(value, AssembledShard) and value.number == 13 else [value]


def one_shard_comes_twice(value: AssembledShard | Summary) -> list[Any]:
    return [value, value] if isinstance(value, AssembledShard) and value.number == 4 else [value]


def every_shard_is_lost(value: AssembledShard | Summary) -> list[Any]:
    return [] if isinstance(value, AssembledShard) else [value]


def the_summary_is_lost(value: AssembledShard | Summary) -> list[Any]:
    return [] if isinstance(value, Summary) else [value]


def the_summary_comes_twice(value: AssembledShard | Summary) -> list[Any]:
    return [value, value] if isinstance(value, Summary) else [value]


def everything_is_lost(value: AssembledShard | Summary) -> list[Any]:
    return []


SHARDS: list[Change] = [
    one_shard_is_lost,
    the_last_shard_is_lost,
    one_shard_comes_twice,
    every_shard_is_lost,
    the_summary_is_lost,
    the_summary_comes_twice,
    everything_is_lost,
]


@pytest.mark.parametrize("change", SHARDS)
def test_shards(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    leak(monkeypatch, "Shards", change)
    with pytest.raises(CountMismatch, match=r"run the job again|Run the job again"):
        run(scene, tmp_path)
    assert not list(tmp_path.glob("out*/*"))


def test_a_lost_shard_for_which_another_came_twice(
    scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their number is right, and so are their records and bytes."""

    def change(value: AssembledShard | Summary) -> list[Any]:
        number = value.number if isinstance(value, AssembledShard) else None
        return {3: [], 4: [value, value]}.get(number, [value])  # type: ignore[arg-type]

    leak(monkeypatch, "Shards", change)
    with pytest.raises(CountMismatch, match="shard numbers"):
        run(scene, tmp_path)
    assert not list(tmp_path.glob("out*/*"))


SEEN: list[tuple[int, int]] = []


def every_piece_is_seen(piece: Piece) -> list[Piece]:
    SEEN.append(piece.order)
    return [piece]


def test_without_losses_it_is_published(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transform in between does no harm; runs of seven records meet three or four shards each."""
    SEEN.clear()
    leak(monkeypatch, "Pieces", every_piece_is_seen)
    run(scene, tmp_path)
    assert sorted(SEEN) == [(first, part) for first in range(0, 42, 7) for part in range(3)]
    assert len(list(tmp_path.glob("out*/*.tfrecord.gz"))) == 14
