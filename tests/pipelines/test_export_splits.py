"""Exports with splits, draws and kept classes: every record in its place, statistics as NumPy has them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import eager
import exports
import numpy as np
import pytest
import rasterio

from patchbeam.data import PatchDatabase, block_split
from patchbeam.errors import JobError
from patchbeam.exported import kept_patches
from patchbeam.look import LookOptions, look
from patchbeam.manifest import Manifest, from_ranges
from patchbeam.patches import Window
from patchbeam.records.parse import parse_example
from patchbeam.selection import split_parts
from patchbeam.tally import PERCENTILES, RELATIVE_ERROR
from patchbeam.verify import verify

SIZE, PATCH, KERNEL = 150, 10, 4
SPLIT = {"train": 0.7, "validation": 0.15, "test": 0.15, "block": [4, 3], "seed": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("splits")
    generator = np.random.default_rng(3)
    red = generator.integers(1, 60_000, (SIZE, SIZE)).astype(np.uint16)
    red[40:70, 20:55] = 0
    eager.write_tif(folder / "red.tif", red, names=["red"], nodata=0)
    labels = generator.choice([1, 2, 3, 4, 9], (SIZE, SIZE), p=[0.6, 0.3, 0.09, 0.009, 0.001])
    labels[:30] = 1
    eager.write_tif(folder / "labels.tif", labels.astype(np.uint8), names=["landcover"], nodata=9)
    return folder


def job(**more: Any) -> dict[str, Any]:
    options = {"patchDimensions": PATCH, "kernelSize": KERNEL, **more.pop("formatOptions", {})}
    return {
        "sources": {"a": "red.tif", "b": "labels.tif"},
        "bands": [{"source": "a", "name": "red"}, {"source": "b", "name": "landcover"}],
        "formatOptions": options,
        **more,
    }


def records(plan: Any, manifest: Manifest) -> list[bytes]:
    return list(eager.records_of(plan, manifest))


def window(index: int, margin: int = 0) -> Window:
    row, col = divmod(index, SIZE // PATCH)
    return Window(col * PATCH - margin, row * PATCH - margin, PATCH + 2 * margin, PATCH + 2 * margin)


def pixels(path: Path, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and validity of patches without margins, ``(patch, row, col)``."""
    with rasterio.open(path) as file:
        values, valid = file.read(1), file.read_masks(1) > 0
    at = [(slice(w.row_off, w.row_stop), slice(w.col_off, w.col_stop)) for w in map(window, indices.tolist())]
    return np.stack([values[i] for i in at]), np.stack([valid[i] for i in at])


def compare_records(done: exports.Exported, folder: Path) -> None:
    """Every record holds the pixels of the patch that the manifest says, margin included."""
    indices = kept_patches(done.manifest)
    found = records(done.plan, done.manifest)
    assert len(found) == len(indices)
    place = done.plan.options.kernel_width_height[0] // 2
    for index, record in zip(indices.tolist(), found, strict=True):
        values = parse_example(record)
        w = window(index, place)
        where = rasterio.windows.Window(w.col_off, w.row_off, w.width, w.height)
        for name, path in (("red", "red.tif"), ("landcover", "labels.tif")):
            due = exports.by_rasterio(folder / path, 1, where, 0)
            assert np.array_equal(np.asarray(values[name]).reshape(due.shape), due), (index, name)


def compare_statistics(found: Any, values: np.ndarray, valid: np.ndarray, *, classes: bool) -> None:
    flat = values[valid].astype(np.float64)
    assert found.valid_count == flat.size
    assert (found.min, found.max) == (flat.min(), flat.max())
    assert found.mean == pytest.approx(flat.mean(), rel=1e-9)
    assert found.standard_deviation == pytest.approx(flat.std(), rel=1e-9)
    due = np.percentile(flat, PERCENTILES, method="inverted_cdf")
    error = 0 if classes else RELATIVE_ERROR
    assert found.percentile_error == error
    assert list(found.percentiles) == [str(p) for p in PERCENTILES]
    assert (np.abs(np.array(list(found.percentiles.values())) - due) <= error * due).all()
    if not classes:
        assert found.class_histogram is None and found.class_weights is None
        return
    keys, counts = np.unique(values[valid], return_counts=True)
    assert found.class_histogram == tuple(zip(keys.tolist(), counts.tolist(), strict=True))
    weights = flat.size / (len(keys) * counts)
    assert [w for _, w in found.class_weights] == pytest.approx(weights.tolist())


def test_records_are_where_the_manifest_says_and_statistics_are_numpys(folder: Path) -> None:
    done = exports.run_eagerly(folder, job(split=SPLIT, statistics="full"))
    compare_records(done, folder)
    splits = done.manifest.splits
    assert splits is not None
    parts = split_parts(done.plan.split, done.plan.patches)  # type: ignore[arg-type]
    for number, part in enumerate(splits.parts):
        indices = from_ranges(part.kept_patches)
        assert indices.tolist() == np.flatnonzero(parts == number).tolist()
        assert part.fraction == SPLIT[part.name]
    assert (splits.block, splits.seed, splits.guard, splits.guard_columns_rows) == ((4, 3), 5, 1, (1, 1))
    everything = np.sort(kept_patches(done.manifest))
    for band, name in ((0, "red.tif"), (1, "labels.tif")):
        manifest_band = done.manifest.bands[band]
        for statistics, indices in (
            (manifest_band.statistics, everything),
            *((manifest_band.split_statistics[p.name], from_ranges(p.kept_patches)) for p in splits.parts),  # type: ignore[index]
        ):
            compare_statistics(statistics, *pixels(folder / name, indices), classes=band == 1)
    assert not Path(f"{done.prefix}-mixer.json").exists()
    assert {path.name for path in done.shards} == {
        f"scene-{name}-00000.tfrecord.gz" for name in ("train", "validation", "test")
    }


def test_verify_look_and_the_reader_take_splits(folder: Path) -> None:
    done = exports.run_eagerly(folder, job(split=SPLIT))
    report = verify(str(done.prefix), sources=20, threads=2)
    assert report.ok, report.findings
    assert look(str(done.prefix), LookOptions()).shape[2] == 3
    parts = split_parts(done.plan.split, done.plan.patches)  # type: ignore[arg-type]
    whole = exports.run_eagerly(folder, job())
    everything = PatchDatabase(str(whole.prefix), modalities={"image": "red"})
    rows, columns = SPLIT["block"][1], SPLIT["block"][0]
    fractions = {name: SPLIT[name] for name in ("train", "validation", "test")}
    views = block_split(everything, fractions, SPLIT["seed"], block=(rows, columns))
    for number, name in enumerate(fractions):
        database = PatchDatabase(str(done.prefix), split=name, modalities={"image": "red"})
        assert database.patch_indices.tolist() == np.flatnonzero(parts == number).tolist()
        # the reader's own split of the whole export is the same, item by item
        assert len(views[name]) == len(database)
        for i in (0, len(database) - 1):
            assert np.array_equal(views[name].load(i)[0], database.load(i)[0])
    with pytest.raises(JobError, match="has the splits train, validation, test; name one"):
        PatchDatabase(str(done.prefix))


@pytest.mark.parametrize(
    "more",
    [
        {"split": SPLIT, "formatOptions": {"maxFileSize": 20_000}},
        {"split": SPLIT, "formatOptions": {"maxFileSize": 20_000, "compressed": False}},
        {"split": SPLIT, "gzip": "zlib6", "keep": {"band": "landcover", "classes": [3], "minimum": 0.08}},
        {"split": SPLIT, "sample": {"perClass": 12, "band": "landcover", "seed": 2}},
    ],
    ids=["indexed", "plain", "zlib6", "drawn"],
)
def test_bytes_do_not_depend_on_threads_or_blocks(folder: Path, tmp_path: Path, more: dict[str, Any]) -> None:
    found = []
    for at, (threads, block_bytes) in enumerate(((1, 1 << 26), (2, 1 << 16), (3, 1 << 17))):
        output = str(tmp_path / str(at) / "scene")
        plan = eager.plan_of({**job(**more), "blockBytes": block_bytes, "output": output}, folder)
        manifest = eager.export(plan, threads=threads)
        found.append(
            ([(s.name, s.records, s.first_record) for s in manifest.shards], records(plan, manifest))
        )
        assert verify(output, threads=1).ok
    assert found[0] == found[1] == found[2]
    if "maxFileSize" in more.get("formatOptions", {}):
        names = [name for name, _, _ in found[0][0]]
        assert sum("-train-" in name for name in names) > 2
        assert names.index(next(n for n in names if "-test-00000" in n)) > names.index(
            next(n for n in names if "-validation-00000" in n)
        )


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


def test_a_pixel_a_record(folder: Path) -> None:
    words = job(split=SPLIT, formatOptions={"sequenceData": True, "kernelSize": 1, "maxFileSize": 30_000})
    done = exports.run_eagerly(folder, words)
    assert done.manifest.patches.dropped == 0  # no margin, no guard
    assert sum(s.records for s in done.manifest.shards) == SIZE * SIZE
    assert verify(str(done.prefix), threads=1).ok


def test_another_split_replaces_the_files_of_the_first(folder: Path, tmp_path: Path) -> None:
    output = str(tmp_path / "scene")
    eager.export(eager.plan_of({**job(split=SPLIT), "output": output}, folder))
    plain = eager.plan_of({**job(), "output": output}, folder)
    with pytest.raises(JobError, match="--overwrite"):
        eager.export(plain)
    eager.export(plain, overwrite=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["scene-00000.tfrecord.gz", "scene-index.npz", "scene-manifest.json", "scene-mixer.json"]
    halves = {"split": {"one": 0.5, "two": 0.5, "block": 5}}
    eager.export(eager.plan_of({**job(**halves), "output": output}, folder), overwrite=True)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name for name in names if "tfrecord" in name] == [
        "scene-one-00000.tfrecord.gz",
        "scene-two-00000.tfrecord.gz",
    ]
    assert "scene-mixer.json" not in names


def test_the_plan_says_what_is_lost(folder: Path) -> None:
    from pipelines.plan_text import plan_text

    plan = eager.plan_of({**job(split=SPLIT), "output": "x/scene"}, folder)
    counts = plan.to_json()["patches"]
    assert sum(counts["split"].values()) + counts["guard"] == counts["total"] == (SIZE // PATCH) ** 2
    text = plan_text(plan)
    for name, count in counts["split"].items():
        assert f"split {name}" in text and f"{count} patches ({count / counts['total']:.1%})" in text
    assert f"{counts['guard']} patches ({counts['guard'] / counts['total']:.1%}) are lost" in text
    assert plan.to_json()["mixer"] is False


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
