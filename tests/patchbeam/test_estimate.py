"""Estimates from sampled blocks: against the export itself, and the interval against chance."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import export, plan_of, write_tif
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.errors import JobError
from patchbeam.estimate import chosen_patches, estimate_export, scaled
from patchbeam.plan import ExportPlan

PATCHES = 24


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    generator = np.random.default_rng(1)
    values = generator.integers(1, 4000, (2, 128, 192)).astype(np.uint16)
    values[:, 64:] //= 1000  # the lower half compresses better
    values[:, :32, :32] = 0
    write_tif(folder / "scene.tif", values, nodata=0, blockxsize=64, blockysize=64, tiled=True)
    return folder


def plan(folder: Path, **job: Any) -> ExportPlan:
    options = {"patchDimensions": [32, 32], **job.pop("formatOptions", {})}
    made = plan_of({"sources": "scene.tif", "formatOptions": options, "output": "out/scene", **job}, folder)
    return replace(made, block_bytes=64 * 64 * 4)  # six blocks of four patches


FORMS: dict[str, dict[str, Any]] = {
    "indexed": {},
    "plain": {"formatOptions": {"compressed": False}},
    "zlib6": {"gzip": "zlib6"},
    "dropping": {"formatOptions": {"maskedThreshold": 0.5}},
    "sequences": {"formatOptions": {"sequenceData": True}},
    "splits": {"split": {"train": 0.5, "test": 0.5, "block": [2, 2]}},
    "drawn": {"sample": {"patches": 5, "seed": 1}},
}


@pytest.mark.parametrize("form", FORMS)
def test_all_blocks_are_the_export(scene: Path, tmp_path: Path, form: str) -> None:
    wanted = plan(scene, **FORMS[form])
    assert wanted.blocks.count == 6
    found = estimate_export(wanted, blocks=100, threads=2)
    manifest = export(replace(wanted, output=str(tmp_path / "scene")))
    records = sum(shard.records for shard in manifest.shards)
    size = sum(shard.uncompressed_bytes for shard in manifest.shards)
    stored = sum(shard.stored_bytes for shard in manifest.shards)
    assert found.is_all and len(found.blocks) <= 6
    for total, true in ((found.records, records), (found.uncompressed_bytes, size)):
        assert total.least == total.most == pytest.approx(total.value) == pytest.approx(true)
    # zlib6 is measured block by block and written shard by shard
    assert found.stored_bytes.value == pytest.approx(stored, rel=0.05 if form == "zlib6" else 1e-9)
    assert found.seconds.value == pytest.approx(sum(one.seconds for one in found.blocks))
    assert found.cpu_seconds.value > 0


def test_a_sample_is_drawn_by_its_seed(scene: Path) -> None:
    wanted = plan(scene)
    first, again, other = (estimate_export(wanted, blocks=2, seed=seed, threads=1) for seed in (1, 1, 4))
    numbers = [[one.block for one in found.blocks] for found in (first, again, other)]
    assert numbers[0] == numbers[1] != numbers[2] and len(set(numbers[0])) == 2
    assert first.stored_bytes == again.stored_bytes
    assert not first.is_all and first.blocks_in_all == 6 and first.patches_in_all == PATCHES
    assert first.uncompressed_bytes.value == PATCHES * wanted.record_size[0]
    assert first.stored_bytes.least < first.stored_bytes.value < first.stored_bytes.most
    assert first.ratio is not None and first.ratio > 1
    assert estimate_export(wanted, blocks=1, threads=1).seconds.most == math.inf
    assert not list(scene.glob("out*")), "an estimate wrote something"


def test_nothing_chosen_and_bad_wishes(scene: Path) -> None:
    wanted = plan(scene)
    for wish in ({"blocks": 0}, {"seed": -1}):
        with pytest.raises(JobError):
            estimate_export(wanted, **wish)


@pytest.mark.parametrize("form", FORMS)
def test_chosen_patches(scene: Path, form: str) -> None:
    wanted = plan(scene, **FORMS[form])
    blocks = wanted.blocks
    slowly = [sum(len(blocks.chosen(run)) for run in blocks.runs(block)) for block in range(blocks.count)]
    assert chosen_patches(wanted).tolist() == slowly


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 50)), min_size=1, max_size=20))
def test_a_sample_of_everything_is_exact(blocks: list[tuple[float, int]]) -> None:
    values, sizes = [v for v, _ in blocks], [s for _, s in blocks]
    total = scaled(values, sizes, sum(sizes), len(blocks))
    assert total.value == pytest.approx(math.fsum(values))
    assert total.least == total.value == total.most


def test_what_grows_with_the_size_has_no_spread() -> None:
    total = scaled([3.0, 6.0, 9.0], [1, 2, 3], 100, 60)
    assert total.value == pytest.approx(300) and total.most - total.least == pytest.approx(0, abs=1e-6)


def test_the_interval_holds_what_it_says() -> None:
    generator = np.random.default_rng(7)
    sizes = generator.integers(1, 9, 400)
    values = sizes * generator.normal(10, 2, 400)
    hits = 0
    for _ in range(400):
        at = generator.choice(400, 8, replace=False)
        total = scaled(values[at].tolist(), sizes[at].tolist(), int(sizes.sum()), 400)
        hits += total.least <= values.sum() <= total.most
    assert 0.88 <= hits / 400 <= 0.99
