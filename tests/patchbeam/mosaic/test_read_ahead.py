"""Tiles that are read while others are written are the same, come in order, and fail at their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from maps import cut, mixer, write_patches

from patchbeam.errors import CorruptRecord
from patchbeam.mosaic import make
from patchbeam.mosaic.counts import open_schema
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.make import TileMaker, TileRead
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.records.files import RecordFiles

SIDE = 1024
LAYOUT = MapLayout.from_mixer(mixer(8, 8, (128, 128)))
IMAGE = np.random.default_rng(2).normal(size=(SIDE, SIDE)).astype(np.float32)


@pytest.fixture
def records(tmp_path: Path) -> list[str]:
    return write_patches(tmp_path, 64, lambda i: {"p": cut(IMAGE, LAYOUT.patches, i, margin=False)}, files=4)


def maker_of(records: list[str], output: Path, threads: int) -> TileMaker:
    options = ImportOptions(tile_size=512)
    plan = ImportPlan(layout=LAYOUT, records=tuple(records), options=options, output=str(output))
    files = RecordFiles.open(records, spool_folder=plan.temporary_folder)
    return TileMaker(plan, files, open_schema(files, LAYOUT, options), threads=threads)


@pytest.mark.parametrize("limit", [0, 1 << 30], ids=["one", "two"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_tiles(
    records: list[str], tmp_path: Path, threads: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = maker_of(records, tmp_path / "one" / "m", 1)
    apart = [one.make(tile) for tile in (3, 1, 0, 2)]
    monkeypatch.setattr(make, "AHEAD_BYTES", limit)
    maker = maker_of(records, tmp_path / f"all{threads}" / "m", threads)
    all_at_once = list(maker.make_all([0, 1, 2, 3]))
    assert [done.tile for done in all_at_once] == [0, 1, 2, 3]
    for done in apart:
        same = all_at_once[done.tile]
        assert same.patches == done.patches == 16
        assert Path(same.path).read_bytes() == Path(done.path).read_bytes()
    # what is finished is not made again
    monkeypatch.setattr(maker, "_assembler", None)
    assert list(maker.make_all([0, 1, 2, 3])) == all_at_once
    one.close()
    maker.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_damaged_record_fails_its_own_tile(records: list[str], tmp_path: Path, threads: int) -> None:
    damaged = Path(records[2])  # patches 32 to 47: the lower half
    data = bytearray(damaged.read_bytes())
    data[len(data) // 32] ^= 1
    maker = maker_of(records, tmp_path / "m", threads)
    damaged.write_bytes(data)
    tiles = maker.make_all(range(4))
    assert [next(tiles).tile, next(tiles).tile] == [0, 1]
    with pytest.raises(CorruptRecord, match=damaged.name):
        next(tiles)
    maker.close()


def test_two_tiles_at_the_most_are_in_memory(
    records: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = maker_of(records, tmp_path / "m", 2)
    reads: list[TileRead] = []
    read, write = TileMaker.read, TileMaker._write
    most = 0

    def reading(self: TileMaker, tile: int) -> Any:
        found = read(self, tile)
        assert isinstance(found, TileRead)
        reads.append(found)
        return found

    def writing(self: TileMaker, one: TileRead) -> Any:
        nonlocal most
        done = write(self, one)
        assert one.pixels is None
        most = max(most, sum(other.pixels is not None for other in reads))
        return done

    monkeypatch.setattr(TileMaker, "read", reading)
    monkeypatch.setattr(TileMaker, "_write", writing)
    assert len(list(maker.make_all(range(4)))) == 4
    assert most <= 1  # besides the one that has just been written
    with pytest.raises(ValueError, match="has been written already"):
        reads[0].take()
    maker.close()


@pytest.mark.parametrize(
    "mark", ["", "[]", "{}", '{"sizeBytes": null, "patches": 16}', '{"sizeBytes": 1, "patches": 16}']
)
def test_a_tile_whose_mark_is_damaged_is_made_again(records: list[str], tmp_path: Path, mark: str) -> None:
    maker = maker_of(records, tmp_path / "m", 1)
    done = maker.make(0)
    good = Path(f"{done.path}.json").read_text()
    Path(f"{done.path}.json").write_text(mark)
    assert maker.make(0) == done
    assert Path(f"{done.path}.json").read_text() == good
    maker.close()
