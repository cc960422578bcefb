"""What record files hold, with and without a manifest or mixer beside them; the printed parsing dict."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from eager import export, plan_of, shard_paths, write_tif
from golden.regenerate import HERE

from patchbeam.errors import CorruptRecord, JobError
from patchbeam.inspect import common_spec, inspect_file
from patchbeam.records.tfrecord import read_records, write_records
from patchbeam.sidecars import find_sidecar
from patchbeam.spec import feature_spec
from pipelines.cli import main
from pipelines.jobfile import JOBS


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    write_tif(
        tmp_path / "image.tif", np.arange(2 * 8 * 12).reshape(2, 8, 12).astype("u1"), names=["red", 'n"r']
    )
    job = {"sources": "image.tif", "output": "out/x", "numbers": "native", "maskBand": "ok"}
    job["formatOptions"] = {"patchDimensions": [4, 4], "maxFileSize": 400}
    plan = plan_of(job, tmp_path)
    return shard_paths(plan, export(plan))


def test_with_a_manifest(shards: list[Path]) -> None:
    found = inspect_file(str(shards[0]))
    assert found.sidecar == "x-manifest.json"
    assert found.form == "gzip, indexed members"
    assert [(f.name, f.kind, f.length) for f in found.features] == [
        ("red", "bytes", (16, 16)),
        ('n"r', "bytes", (16, 16)),
        ("ok", "bytes", (16, 16)),
    ]
    assert found.spec is not None
    assert [feature.shape for feature in found.spec.features] == [(4, 4)] * 3
    assert found.records == len(list(read_records(shards[0])))


def test_with_a_mixer_alone(shards: list[Path]) -> None:
    (shards[0].parent / "x-manifest.json").unlink()
    found = inspect_file(str(shards[0]))
    assert found.sidecar == "x-mixer.json"
    assert found.spec is not None
    assert [feature.shape for feature in found.spec.features] == [(4, 4)] * 3


def test_with_nothing_beside_it(shards: list[Path], tmp_path: Path) -> None:
    moved = tmp_path / "loose.tfrecord.gz"
    moved.write_bytes(shards[0].read_bytes())
    found = inspect_file(str(moved))
    assert found.sidecar is None
    assert found.spec is not None
    assert [feature.shape for feature in found.spec.features] == [(16,)] * 3
    program: dict = {}
    exec(found.spec.to_python(), program)
    (record, *_) = read_records(moved)
    assert program["parse"](tf.constant(bytes(record)))['n"r'].shape == (16,)


def test_a_manifest_of_another_export_is_not_taken(shards: list[Path]) -> None:
    other = shards[0].with_name("x-00099.tfrecord.gz")
    other.write_bytes(shards[0].read_bytes())
    assert find_sidecar(str(other))[2] == "x-mixer.json"
    assert find_sidecar(str(shards[0].parent / "notes.txt")) == (None, None, None)


@pytest.mark.parametrize(
    ("name", "sequence"),
    [
        ("defaults", False),
        ("sequenceData", True),
        ("sequenceData-own-lengths", True),
        ("sequenceData-native", True),
        ("collapseBands-sequenceData", True),
        ("numbers", False),
    ],
)
def test_the_guessed_spec_parses(name: str, sequence: bool) -> None:
    found = inspect_file(str(HERE / f"{name}.tfrecord"))
    assert found.form == "plain"
    assert found.sequence == sequence
    assert found.stored_bytes == found.size_bytes
    assert found.spec is not None
    program: dict = {}
    exec(found.spec.to_python(), program)
    for record in tf.data.TFRecordDataset(str(HERE / f"{name}.tfrecord")):
        values = program["parse"](record)
        assert set(values) == {feature.name for feature in found.features}
        for feature in found.features:
            size = int(tf.size(values[feature.name]))
            steps = feature.steps or (1, 1)
            assert feature.length[0] * steps[0] <= size <= feature.length[1] * steps[1]
    if name == "sequenceData-own-lengths":
        steps = {feature.name: feature.steps for feature in found.features}
        assert steps["s"] == (0, 3)
        assert steps["a"] is None


def test_features_that_some_records_lack(tmp_path: Path) -> None:
    def example(**values: list[float]) -> bytes:
        features = {
            name: tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
            for name, numbers in values.items()
        }
        return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

    path = tmp_path / "table.tfrecord.gz"
    write_records(path, [example(a=[1.0]), example(a=[1.0, 2.0], b=[3.0])], gzip="zlib6")
    found = inspect_file(str(path))
    assert found.form == "gzip"
    by_name = {feature.name: feature for feature in found.features}
    assert by_name["a"].length == (1, 2)
    assert by_name["b"].missing == 1


def test_the_command(shards: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(path) for path in shards]
    assert main(["inspect", *paths]) == 0
    text = capsys.readouterr().out
    assert "gzip, indexed members" in text
    assert "bytes, 16 bytes, shape [4, 4]" in text
    assert main(["inspect", "--json", *paths]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["records"] for one in told] == [one.records for one in map(inspect_file, paths)]
    assert told[0]["features"][0]["shape"] == [4, 4]
    assert main(["inspect", "--spec", *paths]) == 0
    program: dict = {}
    exec(capsys.readouterr().out, program)
    assert list(program["features"]) == ["red", 'n"r', "ok"]
    assert main(["inspect", "--spec", "--json", paths[0]]) == 0
    assert json.loads(capsys.readouterr().out)["record"] == "Example"


def test_files_that_differ_have_no_common_spec(
    shards: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = [inspect_file(str(shards[0])), inspect_file(str(HERE / "defaults.tfrecord"))]
    with pytest.raises(JobError, match="not like those of"):
        common_spec(found)


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "empty.tfrecord"
    empty.write_bytes(b"")
    found = inspect_file(str(empty))
    assert (found.records, found.features, found.spec) == (0, (), None)
    with pytest.raises(JobError, match="no record"):
        common_spec([found])


def test_damage_is_named(shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = bytearray((HERE / "defaults.tfrecord").read_bytes())
    golden[700] ^= 1
    bad = tmp_path / "bad.tfrecord"
    bad.write_bytes(golden)
    with pytest.raises(CorruptRecord, match="record 1"):
        inspect_file(str(bad))
    assert main(["inspect", str(bad)]) == 1
    assert "bad.tfrecord, record 1" in capsys.readouterr().err
    # also of what does not even begin as a record
    for beginning in (b"\x1f", b"hello" * 100, bytes(11)):
        bad.write_bytes(beginning)
        assert main(["inspect", str(bad)]) == 1
        said = capsys.readouterr().err
        assert "bad.tfrecord, record 0, byte 0: " in said and "fetch or write the file again" in said
    assert main(["inspect", str(tmp_path / "missing.tfrecord")]) == 2
    assert "no such file" in capsys.readouterr().err


def test_a_file_of_another_export(shards: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(shards[0])]) == 0
    assert "which is not the shape" not in capsys.readouterr().out
    plan = {"sources": "image.tif", "output": "out/y", "formatOptions": {"patchDimensions": [2, 2]}}
    folder = shards[0].parent.parent
    made = plan_of(plan, folder)
    other = shard_paths(made, export(made))[0]
    other.replace(shards[0])
    (folder / "out" / "x-manifest.json").write_bytes((folder / "out" / "y-manifest.json").read_bytes())
    text = (folder / "out" / "x-manifest.json").read_text().replace("y-00000", "x-00000")
    (folder / "out" / "x-manifest.json").write_text(text.replace("[2, 2]", "[3, 2]"))
    assert main(["inspect", str(shards[0])]) == 0
    said = capsys.readouterr().out
    assert "4 numbers, which is not the shape [3, 2] of what lies beside it; patchbeam verify tells" in said


def test_the_spec_is_light() -> None:
    import subprocess
    import sys

    program = (
        "import sys, patchbeam.spec, patchbeam.inspect; print({'tensorflow', 'rasterio'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_channels_of_collapsed_bands(tmp_path: Path) -> None:
    write_tif(tmp_path / "image.tif", np.ones((3, 4, 4), "u1"))
    job = {"sources": "image.tif", "output": "x", "bands": ["B1", {"name": "k", "band": [3, 2]}]}
    job["formatOptions"] = {"patchDimensions": 4, "collapseBands": True, "tensorDepths": {"k": 2}}
    (feature,) = feature_spec(export(plan_of(job, tmp_path))).features
    assert (feature.name, feature.shape) == ("B1", (3, 4, 4))
    assert feature.channels == ("B1", "k[0]", "k[1]")


def test_a_prefix_stands_for_its_shards(shards: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(shards) > 1
    prefix = str(shards[0].parent / "x")
    assert main(["inspect", prefix, "--json"]) == 0
    assert [one["path"] for one in json.loads(capsys.readouterr().out)] == [str(path) for path in shards]
    assert main(["inspect", prefix + "y"]) == 2
    assert "the folder has" in capsys.readouterr().err


def test_the_schema_command_names_its_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(kind in said for kind in JOBS)
