"""``maxFileSize`` as the service honours it, and the plan's word on shards."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eager import export as eager_export
from eager import plan_of, write_tif
from exports import Exported, run_job

from patchbeam import storage
from patchbeam.errors import EncodeError, JobError
from patchbeam.records.names import shard_name
from patchbeam.records.tfrecord import read_records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers whose varints take one to ten bytes, unlike from patch to patch; a float band; some nodata."""
    folder = tmp_path_factory.mktemp("shards")
    random = np.random.default_rng(3)
    magnitude = np.repeat(np.repeat(random.integers(0, 31, (8, 10)), 8, axis=0), 8, axis=1)
    whole = (random.integers(-1, 2, magnitude.shape) * 2.0**magnitude).astype("i4")
    write_tif(folder / "whole.tif", whole)
    real = random.normal(size=magnitude.shape).astype("f4")
    real[:20, :24] = np.nan
    write_tif(folder / "real.tif", real, nodata=np.nan)
    return folder


def sizes_of(export: Exported) -> list[list[int]]:
    """Framed sizes of the records of each shard."""
    return [[len(record) + 16 for record in read_records(path)] for path in export.shards]


def check_packing(export: Exported) -> None:
    """No shard above the limit; none could have taken one record more; the manifest says the same."""
    sizes, limit = sizes_of(export), export.plan.options.max_file_size_bytes
    assert all(sum(shard) <= limit for shard in sizes)
    assert all(sum(shard) + following[0] > limit for shard, following in pairwise(sizes))
    said = [(s.records, s.uncompressed_bytes) for s in export.manifest.shards]
    assert said == [(len(shard), sum(shard)) for shard in sizes]
    firsts = np.concatenate([[0], np.cumsum([len(shard) for shard in sizes])])[:-1]
    assert [s.first_record for s in export.manifest.shards] == firsts.tolist()
    for shard, path in zip(export.manifest.shards, export.shards, strict=True):
        assert path.stat().st_size == shard.stored_bytes
        assert storage.crc32c_of(str(path)) == shard.crc32c
        data = path.read_bytes()
        raw = gzip.decompress(data) if path.suffix == ".gz" else data
        assert len(raw) == shard.uncompressed_bytes


FORMS: dict[str, dict[str, Any]] = {
    "indexed": {},
    "zlib6": {"gzip": "zlib6"},
    "plain": {"formatOptions": {"compressed": False}},
}


def job(form: str, source: str, **more: Any) -> dict[str, Any]:
    settings = FORMS[form].get("formatOptions", {}) | {"patchDimensions": 8} | more.pop("formatOptions", {})
    return {"sources": source, **FORMS[form], **more, "formatOptions": settings}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("per_shard", [1, 7, 10, 79, 80])
def test_fixed_records_give_the_planned_shards(
    folder: Path, tmp_path: Path, form: str, per_shard: int
) -> None:
    size = plan_of(job(form, "real.tif", output="x"), folder).record_size[0]
    for limit in {per_shard * size, (per_shard + 1) * size - 1}:
        settings = {"maxFileSize": limit}
        plan = plan_of(
            job(form, "real.tif", formatOptions=settings, output=str(tmp_path / f"{limit}")), folder
        )
        export = Exported(plan, eager_export(plan, threads=2))
        check_packing(export)
        bounds = plan.bounds
        assert bounds.exact and plan.records_per_shard == per_shard
        assert bounds.shards == (len(export.shards),) * 2 == (-(-80 // per_shard),) * 2
        assert bounds.total_bytes == (sum(map(sum, sizes_of(export))),) * 2


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [1.0, 1.7, 4.3, 30.0, 1000.0])
def test_varying_records_stay_within_the_planned_bounds(
    folder: Path, tmp_path: Path, form: str, share: float
) -> None:
    free = plan_of(job(form, "whole.tif", numbers="native", output="x"), folder)
    limit = int(free.record_size[1] * share)
    more = {"numbers": "native", "formatOptions": {"maxFileSize": limit}, "output": str(tmp_path / "x")}
    plan = plan_of(job(form, "whole.tif", **more), folder)
    export = Exported(plan, eager_export(plan, threads=2))
    check_packing(export)
    sizes = sizes_of(export)
    assert len({size for shard in sizes for size in shard}) > 10
    bounds = plan.bounds
    assert not bounds.exact and plan.records_per_shard is None
    assert bounds.shards[0] <= len(sizes) <= bounds.shards[1]
    assert bounds.total_bytes[0] <= sum(map(sum, sizes)) <= bounds.total_bytes[1]
    assert all(plan.record_size[0] <= n <= plan.record_size[1] for shard in sizes for n in shard)


def test_a_pipeline_packs_as_the_plan_says(folder: Path, tmp_path: Path) -> None:
    settings = {"patchDimensions": 8, "kernelSize": 3, "maxFileSize": 4000}
    sources = {"whole": str(folder / "whole.tif"), "real": str(folder / "real.tif")}
    export = run_job(tmp_path, {"sources": sources, "numbers": "native", "formatOptions": settings})
    check_packing(export)
    assert len(export.shards) > 5


def test_dropped_patches_leave_no_room_in_shards(folder: Path, tmp_path: Path) -> None:
    more = {"formatOptions": {"maskedThreshold": 0.1, "maxFileSize": 3000}, "output": str(tmp_path / "x")}
    plan = plan_of(job("indexed", "real.tif", **more), folder)
    export = Exported(plan, eager_export(plan))
    check_packing(export)
    assert 0 < export.manifest.patches.dropped < 80
    assert plan.bounds.shards[0] == 0 and not plan.bounds.exact


def test_an_export_of_which_nothing_is_left_has_no_shard(tmp_path: Path) -> None:
    write_tif(tmp_path / "a.tif", np.full((20, 20), np.nan, "f4"), nodata=np.nan)
    settings = {"patchDimensions": 5, "maskedThreshold": 0.5}
    export = run_job(tmp_path, {"sources": "a.tif", "formatOptions": settings})
    assert export.shards == [] and export.manifest.patches.dropped == 16


def test_pixels_that_are_records_are_cut_inside_a_patch(folder: Path, tmp_path: Path) -> None:
    size = plan_of(job("plain", "real.tif", output="x", formatOptions={"sequenceData": True}), folder)
    limit = size.record_size[1] * 100 + 5
    settings = {"sequenceData": True, "maxFileSize": limit}
    for form in FORMS:
        plan = plan_of(job(form, "real.tif", formatOptions=settings, output=str(tmp_path / form)), folder)
        export = Exported(plan, eager_export(plan))
        check_packing(export)
        assert [s.records for s in export.manifest.shards] == [100] * 51 + [20]


def test_a_record_above_the_limit_is_refused_before_work(folder: Path) -> None:
    with pytest.raises(JobError, match=r"formatOptions.maxFileSize: 100 bytes .* takes \(\d+ bytes\)"):
        plan_of(job("indexed", "real.tif", formatOptions={"maxFileSize": 100}, output="x"), folder)


def test_a_record_that_turns_out_above_the_limit_names_its_patch(folder: Path, tmp_path: Path) -> None:
    every = plan_of(job("indexed", "whole.tif", numbers="native", output=str(tmp_path / "every")), folder)
    sizes = [n for shard in sizes_of(Exported(every, eager_export(every))) for n in shard]
    limit = sorted(sizes)[-3]
    too_large = next(i for i, size in enumerate(sizes) if size > limit)
    settings = {"patchDimensions": 8, "maxFileSize": limit}
    with pytest.raises(EncodeError, match=rf"^patch {too_large}: its record takes {sizes[too_large]} bytes"):
        run_job(
            tmp_path, {"sources": str(folder / "whole.tif"), "numbers": "native", "formatOptions": settings}
        )
    assert not any(path.name.startswith(".") for path in tmp_path.rglob("*"))


def test_names_of_both_kinds(folder: Path, tmp_path: Path) -> None:
    expected = {
        ("drive", 1): ["x-00000.tfrecord.gz", "x-index.npz", "x-manifest.json", "x-mixer.json"],
        ("gcs", 1): ["x-index.npz", "x-manifest.json", "x.json", "x.tfrecord.gz"],
        ("gcs", 3): [
            *(f"x0000{i}.tfrecord.gz" for i in range(3)),
            "x-index.npz",
            "x-manifest.json",
            "xmixer.json",
        ],
    }
    for (naming, shards), names in expected.items():
        size = 272 + 16
        prefix = tmp_path / f"{naming}{shards}" / "x"
        settings = {"maxFileSize": 1 << 30 if shards == 1 else size * 32}
        plan = plan_of(
            job("indexed", "real.tif", naming=naming, formatOptions=settings, output=str(prefix)), folder
        )
        export = Exported(plan, eager_export(plan))
        if shards != 1:
            assert len(export.shards) == shards
        assert sorted(path.name for path in prefix.parent.iterdir()) == sorted(names)
        assert str(export.shards[0]) == shard_name(str(prefix), 0, shards, naming=naming)
