"""Exports with splits: every record in its place, no pixel in two splits, statistics as NumPy has them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import eager
import exports
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from split_job import PATCH, SIZE, SPLIT, compare_records, compare_statistics, job, pixels, records, sources

from patchbeam.data import Modality, PatchDatabase, block_split
from patchbeam.errors import JobError
from patchbeam.export import BlockReader, block_encoder, piece_writer, temporary_folder
from patchbeam.exported import kept_patches
from patchbeam.finished import find_finished, write_run
from patchbeam.look import LookOptions, look
from patchbeam.manifest import from_ranges, to_ranges
from patchbeam.pool import Pool
from patchbeam.records.parse import parse_example
from patchbeam.records.tfrecord import read_records
from patchbeam.selection import split_parts
from patchbeam.summary import in_order, summarize
from patchbeam.verify import verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sources(tmp_path_factory.mktemp("splits"))


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


def test_a_pixel_a_record(folder: Path) -> None:
    words = job(split=SPLIT, formatOptions={"sequenceData": True, "kernelSize": 1, "maxFileSize": 30_000})
    done = exports.run_eagerly(folder, words)
    assert done.manifest.patches.dropped == 0  # no margin, no guard
    assert sum(s.records for s in done.manifest.shards) == SIZE * SIZE
    assert verify(str(done.prefix), threads=1).ok


def test_the_reader_normalises_by_the_training_set(folder: Path) -> None:
    done = exports.run_eagerly(folder, job(split=SPLIT))
    plain, normal = (
        PatchDatabase(
            str(done.prefix), split="test", modalities={"x": Modality(bands=("red",), normalize=how)}
        )
        for how in (False, "train")
    )
    statistics = done.manifest.bands[0].split_statistics["train"]  # type: ignore[index]
    due = (plain.load(3)[0] - statistics.mean) / statistics.standard_deviation
    assert normal.load(3)[0] == pytest.approx(due, rel=1e-5, abs=1e-5)
    with pytest.raises(JobError, match=r"'trian' is no split .* \(did you mean 'train'"):
        PatchDatabase(str(done.prefix), split="test", normalize="trian")


def test_verify_finds_a_leak(folder: Path) -> None:
    done = exports.run_eagerly(folder, job(split=SPLIT))
    path = Path(f"{done.prefix}-manifest.json")
    manifest = json.loads(path.read_text())
    parts = manifest["splits"]["parts"]
    kept = [from_ranges(part["keptPatches"]) for part in parts]
    pair = next(p for p in zip(kept[0].tolist(), kept[0][1:].tolist(), strict=False) if p[1] - p[0] == 1)
    # as if the second of two neighbours of the training set belonged to the test set
    for number, indices in ((0, np.setdiff1d(kept[0], pair[1:])), (2, np.union1d(kept[2], pair[1:]))):
        parts[number]["keptPatches"] = to_ranges(indices).tolist()
    path.write_text(json.dumps(manifest))
    texts = [finding.text for finding in verify(str(done.prefix), threads=1).findings]
    assert any("share pixels through their margins of 2 × 2" in text for text in texts), texts
    parts[0]["keptPatches"] = to_ranges(kept[0]).tolist()
    manifest["patches"] |= {"written": done.manifest.patches.written + 1}
    manifest["patches"]["dropped"] -= 1
    manifest["shards"][-1]["records"] += 1
    path.write_text(json.dumps(manifest))
    texts = [finding.text for finding in verify(str(done.prefix), threads=1).findings]
    assert any(f"patch {pair[1]} is in train and in test" in text for text in texts), texts


@settings(max_examples=6)
@given(st.data())
def test_the_records_of_two_splits_share_no_pixel(data: Any) -> None:
    """Every pixel has a number of its own; what the shards of a split hold is read from its files alone."""
    patch = data.draw(st.tuples(st.integers(2, 9), st.integers(2, 9)))
    kernel = data.draw(st.tuples(st.integers(1, 2 * patch[0]), st.integers(1, 2 * patch[1])))
    block = data.draw(st.tuples(st.integers(4, 6), st.integers(4, 6)))
    words = {
        "sources": "pixels.tif",
        "formatOptions": {"patchDimensions": list(patch), "kernelSize": list(kernel)},
        "split": {
            "a": 0.5,
            "b": 0.25,
            "c": 0.25,
            "block": list(block),
            "seed": data.draw(st.integers(0, 99)),
        },
        "numbers": "native",
        "edge": data.draw(st.sampled_from(["drop", "pad"])),
        "output": "out/scene",
    }
    with tempfile.TemporaryDirectory() as name:
        values = np.arange(1, 120 * 110 + 1, dtype=np.int32).reshape(110, 120)
        eager.write_tif(Path(name) / "pixels.tif", values, names=["number"], nodata=0)
        plan = eager.plan_of(words, Path(name))
        eager.export(plan)
        held: list[set[int]] = []
        for split in ("a", "b", "c"):
            found: set[int] = set()
            for path in sorted((Path(name) / "out").glob(f"scene-{split}-*")):
                for record in read_records(path):
                    found.update(np.unique(parse_example(record)["number"]).tolist())  # type: ignore[arg-type]
            held.append(found - {0})
        assert all(held)
        assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])


def test_what_is_finished_is_taken_up_again(folder: Path, tmp_path: Path) -> None:
    words = {**job(split=SPLIT, statistics="full", blockBytes=1 << 16), "output": str(tmp_path / "scene")}
    plan = eager.plan_of(words, folder)
    reader = BlockReader(plan, threads=1)
    pieces = []
    with Pool(1) as pool:
        encoder, writer = block_encoder(plan, pool), piece_writer(plan, pool)
        for block in range(plan.blocks.count):
            for run in encoder.runs(reader.read(block)):
                made = list(writer.write(run))
                write_run(temporary_folder(plan), made)
                pieces += made
    reader.close()
    found = find_finished(temporary_folder(plan), plan.blocks)
    assert found.blocks.tolist() == list(range(plan.blocks.count))
    due, again = (
        summarize(in_order(list(p), plan.patches.count), 2, 3, plan.split_parts)
        for p in (pieces, found.pieces)
    )
    assert due.moments == again.moments and due.split_moments == again.split_moments
    assert due.kept.tolist() == again.kept.tolist()


def test_the_manifest_does_not_depend_on_threads(folder: Path, tmp_path: Path) -> None:
    texts = set()
    for threads in (1, 2, 5):
        output = str(tmp_path / str(threads) / "scene")
        words = job(split=SPLIT, statistics="full", sample={"patches": 120}, blockBytes=1 << 16)
        plan = eager.plan_of({**words, "output": output}, folder)
        eager.export(plan, threads=threads)
        texts.add(Path(f"{output}-manifest.json").read_text())
    assert len(texts) == 1


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
