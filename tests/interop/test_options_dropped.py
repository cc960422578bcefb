"""maskedThreshold: what is dropped, what is left, also when nothing is; through Beam and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import yaml
from eager import export, plan_of, shard_paths, write_tif

from patchbeam.manifest import from_ranges
from patchbeam.records.tfrecord import read_records
from pipelines.cli import main

OPTIONS = {"patchDimensions": [8, 8], "maskedThreshold": 0.3}


def cloudy(path: Path, side: int = 256, masked: float = 0.6) -> np.ndarray:
    """A scene of which a share is masked, in clumps and specks; 0 is nodata."""
    random = np.random.default_rng(5)
    coarse = random.random((side // 16, side // 16)).repeat(16, 0).repeat(16, 1)
    field = coarse + 0.3 * random.random((side, side))
    values = random.integers(1, 200, (side, side)).astype("u1")
    values[field < np.quantile(field, masked)] = 0
    write_tif(path, values, nodata=0)
    return values


def kept_by_loops(values: np.ndarray, size: int, threshold: float) -> list[int]:
    kept = []
    columns = values.shape[1] // size
    for index in range(columns * (values.shape[0] // size)):
        top, left = index // columns * size, index % columns * size
        masked = sum(
            values[row, col] == 0 for row in range(top, top + size) for col in range(left, left + size)
        )
        if masked / (size * size) <= threshold:
            kept.append(index)
    return kept


@pytest.mark.parametrize("form", ["plain", "indexed", "zlib6", "pixels"])
def test_shards_stay_dense_when_most_is_dropped(tmp_path: Path, form: str) -> None:
    values = cloudy(tmp_path / "image.tif")
    assert abs((values == 0).mean() - 0.6) < 0.01
    options: dict[str, Any] = {**OPTIONS, "maxFileSize": 5000, "compressed": form != "plain"}
    if form == "pixels":
        options |= {"sequenceData": True, "maxFileSize": 100_000}
    job = {"sources": "image.tif", "output": "out/x", "formatOptions": options, "blockBytes": 1 << 16}
    plan = plan_of({**job, "gzip": "zlib6" if form == "zlib6" else "indexed"}, tmp_path)
    manifest = export(plan)
    kept = kept_by_loops(values, 8, 0.3)
    assert 100 < len(kept) < 600
    assert from_ranges(manifest.kept_patches).tolist() == kept
    assert manifest.patches.dropped == 1024 - len(kept)
    sizes = [[len(r) + 16 for r in read_records(path)] for path in shard_paths(plan, manifest)]
    assert len(sizes) > 5
    largest = max(max(shard) for shard in sizes)
    # all but the last within one record of the limit
    assert all(
        options["maxFileSize"] - largest < sum(shard) <= options["maxFileSize"] for shard in sizes[:-1]
    )
    assert not (tmp_path / "out" / "x-mixer.json").exists()
    first = next(
        iter(tf.data.TFRecordDataset(str(shard_paths(plan, manifest)[0]), "" if form == "plain" else "GZIP"))
    )
    if form != "pixels":
        parsed = tf.io.parse_single_example(first, {"B1": tf.io.FixedLenFeature([8, 8], tf.float32)})
        top, left = kept[0] // 32 * 8, kept[0] % 32 * 8
        np.testing.assert_array_equal(parsed["B1"], values[top : top + 8, left : left + 8])


def test_the_share_of_the_margin_does_not_count(tmp_path: Path) -> None:
    values = np.ones((24, 24), "u1")
    values[:8] = values[16:] = values[:, :8] = values[:, 16:] = 0
    write_tif(tmp_path / "image.tif", values, nodata=0)
    options = {"patchDimensions": 8, "kernelSize": 17, "maskedThreshold": 0}
    plan = plan_of({"sources": "image.tif", "output": "out/x", "formatOptions": options}, tmp_path)
    assert export(plan).kept_patches == ((4, 1),)


@pytest.mark.parametrize(("masked", "kept"), [(19, True), (20, False)])
def test_a_patch_at_the_threshold_is_kept(tmp_path: Path, masked: int, kept: bool) -> None:
    values = np.ones(64, "u1")
    values[:masked] = 0
    write_tif(tmp_path / "image.tif", values.reshape(8, 8), nodata=0)
    options = {"patchDimensions": 8, "maskedThreshold": 19 / 64}
    plan = plan_of({"sources": "image.tif", "output": "out/x", "formatOptions": options}, tmp_path)
    assert export(plan).patches.written == int(kept)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("sequence", [True, False])
def test_all_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compressed: bool, sequence: bool
) -> None:
    write_tif(tmp_path / "image.tif", np.zeros((20, 20), "u1"), nodata=0)
    options = {**OPTIONS, "compressed": compressed, "sequenceData": sequence}
    job = {"job": "export-image", "sources": "image.tif", "output": "out/x", "formatOptions": options}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert main(["export-image", str(tmp_path / "job.yaml")]) == 0
    text = capsys.readouterr().out
    assert "0 of 4 patches" in text
    assert "every patch was dropped" in text
    manifest = json.loads((tmp_path / "out" / "x-manifest.json").read_text())
    assert manifest["shards"] == []
    assert manifest["keptPatches"] == []
    assert manifest["patches"] == {"planned": 4, "written": 0, "dropped": 4}
    assert manifest["bands"][0]["statistics"] == {"validCount": 0}
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"x-manifest.json"} | ({"x-index.npz"} if compressed else set())


def test_a_whole_shard_may_be_dropped(tmp_path: Path) -> None:
    # three runs of patches fill a shard each when nothing is dropped; the middle one goes
    values = np.ones((24, 32), "u1")
    values[8:16] = 0
    write_tif(tmp_path / "image.tif", values, nodata=0)
    base = {"sources": "image.tif", "output": "out/x"}
    one = plan_of({**base, "formatOptions": {"patchDimensions": 8}}, tmp_path).record_size[0]
    options = {"patchDimensions": 8, "maxFileSize": 4 * one}
    whole = export(plan_of({**base, "formatOptions": options}, tmp_path))
    assert [shard.records for shard in whole.shards] == [4, 4, 4]
    plan = plan_of({**base, "formatOptions": {**options, "maskedThreshold": 0.5}}, tmp_path)
    manifest = export(plan, overwrite=True)
    assert [shard.records for shard in manifest.shards] == [4, 4]
    assert manifest.kept_patches == ((0, 4), (8, 4))
    assert not (tmp_path / "out" / "x-00002.tfrecord.gz").exists()
