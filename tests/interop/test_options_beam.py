"""The same options through Beam's local runner: the files are those of the stages run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from eager import export, plan_of
from option_scene import Reference, job_of, write_scene

from patchbeam.records.parse_sequence import parse_sequence_example
from patchbeam.records.tfrecord import read_records
from pipelines.export_image import run_export

CASES = [
    ("kernelSize", "numbers", "maskBand", "edge"),
    ("own lengths", "numbers", "maskedThreshold"),
    ("collapseBands", "gzip", "defaultValue"),
    ("sequenceData", "collapseBands", "compressed", "maskBand"),
]


@pytest.mark.parametrize("names", CASES, ids=" and ".join)
def test_beam_writes_the_same_bytes(tmp_path: Path, names: tuple[str, ...]) -> None:
    write_scene(tmp_path)
    # small blocks and shards, so that there is something to put together; patches may vary in size
    job = {**job_of(*names), "blockBytes": 1 << 16}
    limit = plan_of(job, tmp_path).record_size[1] * 5
    job["formatOptions"] = {**job["formatOptions"], "maxFileSize": limit}
    by_hand = plan_of({**job, "output": "hand/x"}, tmp_path)
    by_beam = plan_of({**job, "output": "beam/x"}, tmp_path)
    assert export(by_hand) == run_export(by_beam, workers=2)
    hand, beam = ({p.name: p.read_bytes() for p in (tmp_path / d).iterdir()} for d in ("hand", "beam"))
    assert len(hand) > 2
    assert hand.keys() == beam.keys()
    for name in hand:
        assert hand[name] == beam[name], name


def test_own_lengths_through_beam(tmp_path: Path) -> None:
    write_scene(tmp_path)
    job = job_of("own lengths")
    plan = plan_of(job, tmp_path)
    manifest = run_export(plan, workers=2)
    paths = [Path(plan.output).parent / shard.name for shard in manifest.shards]
    found = [parse_sequence_example(bytes(r))[1]["s"] for path in paths for r in read_records(path)]
    expected = [record["s"].tolist() for record in Reference(tmp_path, job).records()]
    assert [[float(step[0]) for step in steps] for steps in found] == expected
    assert {len(steps) for steps in expected} == {0, 1, 2, 3}
