"""Exports of kept and drawn patches: those that a slow look at the rasters finds."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import eager
import exports
import numpy as np
import pytest
import rasterio
from split_job import PATCH, SIZE, SPLIT, compare_records, job, pixels, records, sources

from patchbeam.errors import JobError
from patchbeam.exported import kept_patches
from patchbeam.verify import verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sources(tmp_path_factory.mktemp("splits"))


@pytest.mark.parametrize("classes", [None, [3, 4], [200]])
@pytest.mark.parametrize("minimum", [0.0, 0.1, 1.0])
def test_kept_patches_are_those_with_enough_of_the_classes(
    folder: Path, classes: list[int] | None, minimum: float
) -> None:
    rule = {"band": "landcover", "minimum": minimum, **({} if classes is None else {"classes": classes})}
    done = exports.run_eagerly(folder, job(keep=rule))
    count = (SIZE // PATCH) ** 2
    values, valid = pixels(folder / "labels.tif", np.arange(count))
    good = valid if classes is None else valid & np.isin(values, classes)
    shares = good.mean(axis=(1, 2))
    due = np.flatnonzero((shares > 0) & (shares >= minimum))
    assert kept_patches(done.manifest).tolist() == due.tolist()
    compare_records(done, folder)
    assert verify(str(done.prefix), threads=1).ok
    keep = done.manifest.keep
    assert keep is not None and (keep.classes, keep.minimum) == (classes and tuple(classes), minimum)


def test_what_place_pixels_and_draws_leave_comes_together(folder: Path) -> None:
    threshold = {"maskedThreshold": 0.2}
    drawn = exports.run_eagerly(folder, job(sample={"patches": 90, "seed": 1}))
    assert len(kept_patches(drawn.manifest)) == 90
    both = exports.run_eagerly(folder, job(sample={"patches": 90, "seed": 1}, formatOptions=threshold))
    only = exports.run_eagerly(folder, job(formatOptions=threshold))
    # drawn first, by place; then what pixels decide
    due = np.intersect1d(kept_patches(drawn.manifest), kept_patches(only.manifest))
    assert kept_patches(both.manifest).tolist() == due.tolist()
    assert 0 < len(due) < 90
    compare_records(both, folder)


def test_a_balanced_draw_holds_every_class_often_enough(folder: Path) -> None:
    done = exports.run_eagerly(folder, job(sample={"perClass": 30, "band": "landcover", "seed": 4}))
    kept = kept_patches(done.manifest)
    values, valid = pixels(folder / "labels.tif", np.arange((SIZE // PATCH) ** 2))
    for value in (1, 2, 3, 4):
        holds = (valid & (values == value)).any(axis=(1, 2))
        assert holds[kept].sum() >= min(30, holds.sum())
    assert len(kept) <= 4 * 30
    compare_records(done, folder)
    wanted = {"perClass": 5, "band": "landcover", "classes": [3], "minimum": 0.1}
    few = exports.run_eagerly(folder, job(sample=wanted))
    assert len(kept_patches(few.manifest)) == 5


def test_beam_writes_what_the_stages_write(folder: Path) -> None:
    words = job(
        split=SPLIT,
        sample={"perClass": 20, "band": "landcover", "seed": 4},
        keep={"band": "landcover", "classes": [2], "minimum": 0.1},
        blockBytes=1 << 16,
    )
    done, again = exports.run_job(folder, words), exports.run_eagerly(folder, words)
    assert done.plan.blocks.count > 1
    assert records(done.plan, done.manifest) == records(again.plan, again.manifest)
    assert done.manifest.splits == again.manifest.splits
    assert done.manifest.bands == again.manifest.bands


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"keep": {"band": "lancover"}},
            r"keep\.band: 'lancover' is none of .* \(did you mean 'landcover'\?",
        ),
        ({"sample": {"perClass": 3, "band": "x"}}, r"sample\.band: 'x' is none of the exported bands"),
        ({"sample": {"patches": 226}}, r"sample\.patches: 226 are more than the 225 patches there are"),
        ({"split": {"a": 0.5, "b": 0.6}}, "sum to 1.1, not to 1"),
        ({"split": {"a": 0.5, "b": 0.5, "block": 99}}, r"split\.block: .* too few for 2 splits"),
    ],
)
def test_what_cannot_be_is_refused_before_work(folder: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        eager.plan_of({**job(**more), "output": "x/scene"}, folder)


def test_a_float_band_holds_no_classes(folder: Path) -> None:
    words = job(keep={"band": "red"})
    words["bands"][0]["type"] = "float32"
    with pytest.raises(JobError, match=r"keep\.band: 'red' is of type float32; classes are the whole"):
        eager.plan_of({**words, "output": "x/scene"}, folder)


def test_blocks_without_a_drawn_patch_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from patchbeam.rasters.reader import ImageReader

    reads = []
    read = ImageReader.read
    monkeypatch.setattr(ImageReader, "read", lambda self, *a: reads.append(a) or read(self, *a))
    done = exports.run_eagerly(folder, job(sample={"patches": 2, "seed": 1}, blockBytes=1 << 16))
    assert done.plan.blocks.count > 2
    assert 1 <= len(reads) <= 2


def test_a_colour_table_makes_classes_of_wider_numbers(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 4, (20, 20)).astype(np.uint16) * 100
    eager.write_tif(tmp_path / "a.tif", values)
    with rasterio.open(tmp_path / "a.tif", "r+") as file:
        file.update_tags(1, CLASS_100="wood", CLASS_300="water")
    plan = eager.plan_of(
        {"sources": "a.tif", "formatOptions": {"patchDimensions": 10}, "output": "o/x"}, tmp_path
    )
    statistics = eager.export(plan).bands[0].statistics
    keys, counts = np.unique(values, return_counts=True)
    assert statistics is not None
    assert statistics.class_histogram == tuple(zip(keys.tolist(), counts.tolist(), strict=True))
    assert io.StringIO(str(statistics.mean)).read() == str(values.mean())
