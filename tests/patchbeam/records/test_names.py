"""Names: both conventions, and from names back to shards without mistaking a neighbour's."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.errors import JobError
from patchbeam.records.names import (
    existing_outputs,
    index_name,
    manifest_name,
    mixer_name,
    parse_shards,
    shard_name,
)


def test_names_of_both_conventions():
    assert shard_name("d/scene", 0, 1) == "d/scene-00000.tfrecord.gz"
    assert shard_name("scene", 12, 13, compressed=False) == "scene-00012.tfrecord"
    assert shard_name("scene", 0, 1, naming="gcs") == "scene.tfrecord.gz"
    assert shard_name("scene", 1, 2, naming="gcs") == "scene00001.tfrecord.gz"
    assert shard_name("scene", 100_000, 100_001) == "scene-100000.tfrecord.gz"
    assert shard_name("scene", 3, 4, split="train") == "scene-train-00003.tfrecord.gz"
    assert mixer_name("scene", 1) == mixer_name("scene", 5) == "scene-mixer.json"
    assert mixer_name("scene", 1, naming="gcs") == "scene.json"
    assert mixer_name("scene", 2, naming="gcs") == "scenemixer.json"
    assert manifest_name("gs://b/scene") == "gs://b/scene-manifest.json"
    assert index_name("scene") == "scene-index.npz"
    with pytest.raises(ValueError, match="shard 2 of 2"):
        shard_name("scene", 2, 2)


PREFIX = st.text(st.sampled_from("ab-_/.0129"), min_size=1, max_size=6)


@given(
    PREFIX,
    st.integers(1, 40),
    st.sampled_from(["drive", "gcs"]),
    st.booleans(),
    st.sampled_from([None, "train"]),
)
def test_written_names_are_found_again(prefix, count, naming, compressed, split):
    names = [
        shard_name(prefix, i, count, naming=naming, compressed=compressed, split=split) for i in range(count)
    ]
    mixed = [*names, mixer_name(prefix, count, naming=naming), manifest_name(prefix), "other.txt"]
    random.Random(count).shuffle(mixed)
    assert parse_shards(mixed, prefix, split=split) == names
    found = existing_outputs(mixed, prefix, splits=["train"] if split else [])
    assert sorted(set(mixed) - {"other.txt"}) == found


@pytest.mark.parametrize("naming", ["drive", "gcs"])
def test_past_five_digits(naming):
    names = [shard_name("scene", i, 100_003, naming=naming, compressed=False) for i in range(100_003)]
    assert parse_shards(names[::-1], "scene") == names
    # Two series whose names run into each other: number 0 of scene1, number 100000 of scene.
    assert parse_shards([*names[:3], "scene100000.tfrecord"], "scene") == names[:3]


def test_a_neighbours_files_are_not_ours():
    neighbours = [
        f"{other}{rest}"
        for other in ("scene2", "scene-b", "scene_", "scen", "scene1", "xscene")
        for rest in (
            "-00000.tfrecord.gz",
            "00000.tfrecord.gz",
            "00001.tfrecord",
            ".tfrecord",
            "-mixer.json",
            "mixer.json",
            ".json",
            "-manifest.json",
            "-index.npz",
            "-train-00000.tfrecord.gz",
        )
    ]
    assert existing_outputs(neighbours, "scene") == []
    assert parse_shards(neighbours, "scene") == []
    assert existing_outputs([*neighbours, "scene-train-00000.tfrecord"], "scene", splits=["train"]) == [
        "scene-train-00000.tfrecord"
    ]
    assert (
        existing_outputs(["scene.json.bak", "scene-0000.tfrecord", "scene-00000.tfrecord.tmp"], "scene") == []
    )


def test_every_form_is_read():
    of = [f"scene-{i:05d}-of-00003.tfrecord" for i in range(3)]
    assert parse_shards(of[::-1], "scene") == of
    assert parse_shards(["scene.tfrecord"], "scene") == ["scene.tfrecord"]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["s-00000.tfrecord", "s-00002.tfrecord"], "1 of 3 are missing: number 00001"),
        (["s-00001.tfrecord.gz"], "00000"),
        (["s-00000.tfrecord", "s-00000.tfrecord.gz"], r"same number: s-00000.tfrecord, s-00000.tfrecord.gz"),
        (["s-00000.tfrecord", "s00000.tfrecord"], "same number"),
        (["s.tfrecord.gz", "s-00000.tfrecord.gz"], "same number"),
        (["s-00000-of-00002.tfrecord"], "1 of 2 are missing: number 00001"),
        (
            ["s-00000-of-00001.tfrecord", "s-00001-of-00002.tfrecord"],
            "2 files, but names say s-00000-of-00001",
        ),
        ([f"s-{i:05d}.tfrecord" for i in range(0, 60, 2)], "29 of 59 are missing.* and 19 more"),
    ],
)
def test_gaps_and_duplicates_are_named(names, message):
    with pytest.raises(JobError, match=message):
        parse_shards(names, "s")
