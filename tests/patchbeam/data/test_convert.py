"""Records of any database: what goes in comes out, in every profile."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sets_eager import run_eagerly, same
from training_sets import write_export

from patchbeam.data import (
    DTYPES,
    ArrayDatabase,
    Database,
    GeneratedShapes,
    PatchDatabase,
    RecordDatabase,
    Spec,
    block_split,
)
from patchbeam.data.convert import SetPlan, plan_set
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.itemcodec import ItemCodec
from patchbeam.data.schema import SetSchema, schema_of
from patchbeam.errors import EncodeError, JobError, OutputExists
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer
from patchbeam.records.parse import parse_example

PROFILES = ("ee", "typed", "packed")


class Listed(Database):
    """Items as they are given."""

    def __init__(self, items: Sequence[tuple[Any, ...]], names: Sequence[str] = ("a", "b")) -> None:
        self.items, self.names = items, names

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(self.names)[: len(self.items[0]) if self.items else 1]

    def __len__(self) -> int:
        return len(self.items)

    def load(self, index: int) -> tuple[Any, ...]:
        return tuple(self.items[index])


def convert(database: Any, output: Path, *, overwrite: bool = False, **options: Any) -> RecordDatabase:
    """Converts without Beam."""
    plan = plan_set(lambda: database, str(output), overwrite=overwrite, **options)
    run_eagerly(plan, overwrite=overwrite)
    return RecordDatabase(output)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("gzip", ["indexed", "zlib6", None])
def test_round_trip_over_several_shards(tmp_path: Path, profile: Any, gzip: Any) -> None:
    shapes = GeneratedShapes(50, size=12, seed=4)
    size = {"ee": 2500, "typed": 700, "packed": 580}[profile]
    found = convert(shapes, tmp_path / "s", profile=profile, gzip=gzip, max_file_size_bytes=size * 17)
    assert len(found.manifest.shards) > 2
    same(shapes, found)
    same(shapes, pickle.loads(pickle.dumps(found)))
    assert [part.name for part in tmp_path.iterdir() if part.name.startswith(".")] == []
    images, masks, labels = found.load_batch([3, 40])
    assert images.shape == (2, 3, 12, 12) and masks.dtype == np.uint8 and labels.dtype == np.int32
    assert found.specs["image"] == shapes.specs["image"]


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values()], ids=str)
@pytest.mark.parametrize("profile", PROFILES)
def test_every_type_at_the_ends_of_its_range(tmp_path: Path, profile: Any, dtype: Any) -> None:
    ends = np.array([[dtype.low, dtype.high, 0]], dtype.container)
    items = [(ends, np.array(dtype.high, dtype.container)), (ends[:, ::-1], np.array(0, dtype.container))]
    database = Listed(items)
    options = {"profile": profile, "dtypes": {"a": dtype.name, "b": dtype.name}}
    with np.errstate(over="ignore"):
        exact = all(int(end) == int(np.float32(end)) for end in ends.ravel()) if dtype.bits < 64 else False
    if dtype.kind != "float" and profile == "ee" and not exact and dtype.high == int(dtype.high):
        # -2**31 is a float32, 2**31 - 1 is not
        with pytest.raises(EncodeError, match=r"item 0, modality 'a': \d+ cannot be held by float32"):
            convert(database, tmp_path / "s", **options)
    elif dtype.name == "float64" and profile == "ee":
        with pytest.raises(EncodeError, match="cannot be held by float32"):
            convert(database, tmp_path / "s", **options)
    else:
        same(database, convert(database, tmp_path / "s", **options))


@pytest.mark.parametrize("profile", PROFILES)
def test_text_bytes_booleans_scalars_nan_and_varying_shapes(tmp_path: Path, profile: Any) -> None:
    names = ("text", "raw", "flag", "mask", "number", "real", "ragged")
    items = [
        (
            "é" * n,
            bytes([n]) * n,
            bool(n % 2),
            np.array([True, False, n > 1]),
            n,
            np.float16(n / 3) if n else np.float16("nan"),
            np.arange(2 * n, dtype=np.uint16).reshape(2, n),
        )
        for n in range(4)
    ]
    found = convert(Listed(items, names), tmp_path / "s", profile=profile, shapes={"ragged": (2, None)})
    same(Listed(items, names), found)
    assert found.dtypes["mask"].name == "uint1" and found.specs["ragged"].shape == (2, None)


@given(st.data())
def test_any_numbers_come_back(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from([d for d in DTYPES.values() if d.kind != "float"]))
    profile = data.draw(st.sampled_from(("typed", "packed")))
    values = st.integers(int(dtype.low), int(dtype.high))
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3).map(tuple))
    count = int(np.prod(shape))
    items = [
        (
            np.array(data.draw(st.lists(values, min_size=count, max_size=count)), dtype.container).reshape(
                shape
            ),
        )
        for _ in range(2)
    ]
    database = Listed(items)
    schema = schema_of(database, profile, dtypes={"a": dtype})
    assert SetSchema.from_json(json.loads(json.dumps(schema.to_json())), "x") == schema
    codec = ItemCodec(schema)
    encoded = codec.encode(items, 0)
    start = 0
    for item, size in zip(items, encoded.sizes.tolist(), strict=True):
        features = parse_example(encoded.data[start + 12 : start + size - 4].tobytes())
        (found,) = codec.decode(features, "x")
        np.testing.assert_array_equal(found, item[0])
        assert np.asarray(found).dtype == item[0].dtype
        start += size


@pytest.mark.parametrize("layout", [0, "C", ["C", "H", "W"]], ids=["number", "short", "list"])
def test_a_layout_that_is_none(layout: Any) -> None:
    items = [(np.zeros((3, 2, 2), np.uint8),)]
    given = schema_of(Listed(items), "typed").to_json()
    given["modalities"][0]["layout"] = layout
    with pytest.raises(JobError, match=r"x: dataset: modality 'a': layout .* for each of 3 axes"):
        SetSchema.from_json(given, "x")


def test_masks_of_one_bit_and_class_maps_of_four(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    mask = rng.integers(0, 2, (8, 64, 64)).astype(np.uint8)
    database = ArrayDatabase(mask=mask, classes=mask * 9, dtypes={"mask": "uint1"})
    found = convert(database, tmp_path / "s", profile="packed", dtypes={"classes": "uint4"})
    features = parse_example(found.records[0])
    assert len(features["mask"][0]) * 32 == mask[0].astype(np.float32).nbytes  # type: ignore[index]
    assert len(features["classes"][0]) * 8 == mask[0].astype(np.float32).nbytes  # type: ignore[index]
    same(database, found)


def test_statistics_equal_numpys(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.normal(100, 7, (300, 3, 16, 16)).astype(np.float32)
    images[5, 1, 2, 3] = np.nan
    database = ArrayDatabase(
        image=images, label=rng.integers(0, 9, 300, dtype=np.int64), layouts={"image": "CHW"}
    )
    plan = plan_set(lambda: database, str(tmp_path / "s"))
    plan = SetPlan(**{**{f: getattr(plan, f) for f in plan.__dataclass_fields__}, "range_items": 7})
    run_eagerly(plan)
    found = RecordDatabase(tmp_path / "s").statistics
    for channel in range(3):
        values = images[:, channel].astype(np.float64)
        one = found["image"][channel]
        assert one["count"] == np.count_nonzero(~np.isnan(values))
        assert one["min"] == np.nanmin(values) and one["max"] == np.nanmax(values)
        np.testing.assert_allclose(one["mean"], np.nanmean(values), rtol=1e-12)
        np.testing.assert_allclose(one["standardDeviation"], np.nanstd(values), rtol=1e-12)
    assert found["label"][0]["max"] == 8


@pytest.mark.parametrize("profile", PROFILES)
def test_patches_of_an_export_keep_their_place(tmp_path: Path, profile: Any) -> None:
    written = write_export(tmp_path, bands=("B1", "B2", "B3"))
    patches = PatchDatabase(written.prefix, modalities={"image": ["B1", "B3"], "other": "B2"})
    found = convert(patches, tmp_path / "set", profile=profile)
    same(patches, found)
    assert found.place == patches.place
    parts = [block_split(d, {"a": 0.5, "b": 0.5}, 1, block=(1, 1))["a"].keys for d in (patches, found)]
    assert len(parts[0]) == len(parts[1]) > 0
    mixer = tmp_path / "set-mixer.json"
    assert mixer.exists() == (profile == "ee")
    if profile == "ee":
        assert Mixer.from_text(mixer.read_text(), "m").total_patches == len(patches)
    some = convert(patches.select([7, 2]), tmp_path / "some", profile="ee")
    assert some.patch_indices.tolist() == [7, 2] and not (tmp_path / "some-mixer.json").exists()


def test_what_cannot_be_converted_is_refused_with_its_place(tmp_path: Path) -> None:
    good = (np.zeros((2, 2), np.uint8), 1)
    output = tmp_path / "s"
    with pytest.raises(EmptyDatabase):
        convert(Listed([]), output)
    with pytest.raises(JobError, match="did you mean 'packed'"):
        convert(Listed([good]), output, profile="pakced")
    with pytest.raises(JobError, match=r"dtypes\.c: no such modality"):
        convert(Listed([good]), output, dtypes={"c": "uint1"})
    with pytest.raises(DataError, match="item 0, modality 'a': object"):
        convert(Listed([(object(), 1)]), output)
    for wrong, message in (
        ((np.zeros((2, 3), np.uint8), 1), r"item 1, modality 'a': shape \[2, 3\], and \[2, 2\]"),
        ((np.zeros((2, 2), np.int8), 1), "item 1, modality 'a': type int8"),
        ((np.full((2, 2), 2, np.uint8), 1), r"item 1, modality 'a': 2 at index \(0, 0\) is not a uint1"),
        ((np.zeros((2, 2), np.uint8), "x"), "item 1, modality 'b'"),
        ((np.zeros((2, 2), np.uint8),), "item 1"),
    ):
        with pytest.raises((EncodeError, DataError), match=message):
            convert(Listed([good, wrong]), output, dtypes={"a": "uint1"})
    with pytest.raises(EncodeError, match=r"item 1, modality 'a': 0\.1 cannot be held by float32"):
        convert(Listed([(np.float64(0.5),), (np.float64(0.1),)]), output, profile="ee")
    with pytest.raises(EncodeError, match="16777217 cannot be held by float32"):
        convert(Listed([(2**24 + 1,)]), output, profile="ee")
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith(".")]


def test_outputs_are_not_replaced_unasked(tmp_path: Path) -> None:
    convert(GeneratedShapes(40, size=8), tmp_path / "s", max_file_size_bytes=2000)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(OutputExists):
        convert(GeneratedShapes(3, size=8), tmp_path / "s")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    found = convert(GeneratedShapes(3, size=8), tmp_path / "s", overwrite=True)
    same(GeneratedShapes(3, size=8), found)
    assert len(list(tmp_path.glob("s-0*"))) == 1  # no shard of the earlier set is left


def test_other_manifests_and_damaged_ones(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    with pytest.raises(JobError, match="not written by build-dataset; open image patches with PatchDatabase"):
        RecordDatabase(written.prefix)
    convert(GeneratedShapes(3, size=8), tmp_path / "s")
    path = tmp_path / "s-manifest.json"
    text = json.loads(path.read_text())
    del text["dataset"]["modalities"][0]["dtype"]
    path.write_text(json.dumps(text))
    with pytest.raises(JobError, match="dataset: KeyError: 'dtype'"):
        RecordDatabase(tmp_path / "s")


def test_the_manifest_is_one(tmp_path: Path) -> None:
    import jsonschema

    from patchbeam.manifest import schema
    from patchbeam.verify import verify

    for profile in PROFILES:
        prefix = tmp_path / profile
        convert(GeneratedShapes(9, size=8), prefix, profile=profile)  # type: ignore[arg-type]
        text = (tmp_path / f"{profile}-manifest.json").read_text()
        jsonschema.validate(json.loads(text), schema())
        assert Manifest.from_text(text).to_text() == text
        assert verify(str(prefix)).ok


def test_specs_say_which_sizes_vary(tmp_path: Path) -> None:
    class Varying(Listed):
        @property
        def specs(self) -> dict[str, Spec]:
            return {"a": Spec(shape=(None,), dtype="uint8")}

    items = [(np.arange(n, dtype=np.uint8), n) for n in (3, 0, 5)]
    made = convert(Varying(items), tmp_path / "s", profile="packed")
    assert made.specs["a"].shape == (None,) and str(made.specs["a"].dtype) == "uint8"
    same(Varying(items), made)
