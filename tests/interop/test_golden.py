"""The golden files made anew: not a byte may change, whatever the machine and the versions of libraries."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from eager import export, plan_of
from golden.regenerate import CASES, HERE, job_of, make, write_scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    write_scene(folder)
    return folder


@pytest.fixture(scope="module")
def made(scene: Path) -> dict[str, dict[str, bytes]]:
    return {name: make(name, scene) for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_not_a_byte_has_changed(made: dict[str, dict[str, bytes]], name: str) -> None:
    assert made[name]
    for file, data in made[name].items():
        assert (HERE / file).read_bytes() == data, (
            f"{file} has changed. If that is meant, run python tests/golden/regenerate.py"
        )


def test_no_golden_file_is_left_over(made: dict[str, dict[str, bytes]]) -> None:
    wanted = {file for files in made.values() for file in files}
    there = {path.name for path in HERE.iterdir() if path.suffix in (".tfrecord", ".json")}
    assert there == wanted
    assert all((HERE / name).stat().st_size < 8192 for name in there)


@pytest.mark.parametrize("profile", ["indexed", "zlib6"])
@pytest.mark.parametrize("name", ["defaults", "sequenceData-own-lengths", "maskedThreshold"])
def test_compressed_holds_the_same(scene: Path, name: str, profile: str) -> None:
    job = job_of(name, formatOptions={"compressed": True}, gzip=profile)
    job["formatOptions"] = {**job_of(name)["formatOptions"], "compressed": True}
    plan = plan_of(job, scene)
    manifest = export(plan, overwrite=True)
    stored = (Path(plan.output).parent / manifest.shards[0].name).read_bytes()
    assert gzip.decompress(stored) == (HERE / f"{name}.tfrecord").read_bytes()


@pytest.mark.parametrize("name", ["kernelSize", "sequenceData-own-lengths", "edge"])
def test_the_size_of_blocks_changes_nothing(scene: Path, name: str) -> None:
    assert make(name, scene, blockBytes=1 << 16) == make(name, scene)
