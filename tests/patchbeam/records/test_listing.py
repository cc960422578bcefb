"""Which record files a job names, and in which order."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchbeam.errors import JobError
from patchbeam.records.listing import list_records


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_bytes(b"")


def listed(folder: Path, *given: str) -> list[str]:
    return [Path(name).name for name in list_records([str(folder / entry) for entry in given])]


def test_patterns_give_numeric_order(tmp_path: Path) -> None:
    make(tmp_path, *(f"part{i}.tfrecord" for i in range(12)), "part-mixer.json", "part-index.npz")
    assert listed(tmp_path, "part*") == [f"part{i}.tfrecord" for i in range(12)]


def test_counting_may_start_at_one_and_names_may_hold_other_numbers(tmp_path: Path) -> None:
    make(tmp_path, *(f"S2_2021_p{i:02d}-of-03.tfrecord.gz" for i in (1, 2, 3)))
    assert listed(tmp_path, "S2*") == [f"S2_2021_p{i:02d}-of-03.tfrecord.gz" for i in (1, 2, 3)]


def test_a_prefix_finds_its_shards_and_no_others(tmp_path: Path) -> None:
    make(tmp_path, "s-00000.tfrecord", "s-00001.tfrecord", "s2-00000.tfrecord", "s-mixer.json")
    assert listed(tmp_path, "s") == ["s-00000.tfrecord", "s-00001.tfrecord"]
    make(tmp_path, "g00000.tfrecord.gz", "gmixer.json", "one.tfrecord.gz", "one.json")
    assert listed(tmp_path, "g") == ["g00000.tfrecord.gz"]
    assert listed(tmp_path, "one") == ["one.tfrecord.gz"]


def test_listed_files_keep_their_order(tmp_path: Path) -> None:
    make(tmp_path, "b.tfrecord", "a.tfrecord", "x-0.tfrecord", "x-1.tfrecord")
    assert listed(tmp_path, "b.tfrecord", "a.tfrecord") == ["b.tfrecord", "a.tfrecord"]
    assert listed(tmp_path, "b.tfrecord", "x-*") == ["b.tfrecord", "x-0.tfrecord", "x-1.tfrecord"]


@pytest.mark.parametrize(
    ("names", "given", "text"),
    [
        (
            ["p-0.tfrecord", "p-2.tfrecord"],
            ["p-*"],
            "of 3 files like .*p-0.tfrecord, 1 are missing: number 1",
        ),
        (["p-00000.tfrecord", "p-00002.tfrecord"], ["p"], "1 of 3 are missing: number 00001"),
        (["p-1.tfrecord", "p-01.tfrecord"], ["p-*"], "have the same number 1"),
        (["p-1.tfrecord", "p-1.tfrecord.gz"], ["p-*"], "have the same number 1"),
        (["p-0.tfrecord", "q-0.tfrecord"], ["*"], "differ in more than one number"),
        (
            ["p-0.tfrecord", "p-1.tfrecord"],
            ["p-1.tfrecord", "p-0.tfrecord"],
            "against the order of their numbers",
        ),
        (["p.tfrecord"], ["p.tfrecord", "p.tfrecord"], "is listed twice"),
        (["p.tfrecord"], ["q*"], "nothing matches"),
        (
            ["pred.tfrecord"],
            ["prod.tfrecord"],
            r"no record files start with it \(did you mean 'pred.tfrecord'\?\)",
        ),
        (["p.tfrecord"], ["*/p.tfrecord"], "wildcards may stand in the last part only"),
    ],
)
def test_what_is_refused(tmp_path: Path, names: list[str], given: list[str], text: str) -> None:
    make(tmp_path, *names)
    with pytest.raises(JobError, match=text):
        listed(tmp_path, *given)
