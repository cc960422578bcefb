"""Records to maps, without Beam."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from hypothesis import given
from hypothesis import strategies as st
from maps import cut, import_map, mixer, write_patches
from rio_cogeo import cog_validate

from patchbeam.errors import CorruptRecord, EncodeError, JobError
from patchbeam.manifest import to_ranges
from patchbeam.mosaic.layout import KnownBand, MapLayout
from patchbeam.mosaic.options import ImportOptions, MapClass


@pytest.mark.parametrize("gzip", [None, "indexed", "zlib6"])
@pytest.mark.parametrize("margin", [False, True])
def test_patches_land_in_their_places(tmp_path: Path, gzip: str | None, margin: bool) -> None:
    layout = MapLayout.from_mixer(mixer(9, 20)).with_kernel((9, 4) if margin else (1, 1))
    image = np.random.default_rng(0).normal(size=(320, 288)).astype(np.float32)
    records = write_patches(
        tmp_path,
        180,
        lambda i: {"p": cut(image, layout.patches, i, margin=margin)},
        files=3,
        gzip=gzip,
    )
    out = str(tmp_path / "map" / "m")
    import_map(layout, records, out, ImportOptions(tile_size=256))
    names = sorted(path.name for path in (tmp_path / "map").iterdir())
    tifs = [f"m-{y:010d}-{x:010d}.tif" for y in (0, 256) for x in (0, 256)]
    assert names == sorted(
        [
            "m-collection.json",
            "m-import.json",
            "m.vrt",
            *tifs,
            *(t.replace(".tif", ".stac.json") for t in tifs),
        ]
    )
    for tif in tifs:
        valid, errors, warnings = cog_validate(tmp_path / "map" / tif, quiet=True)
        assert valid and not errors and not warnings, (errors, warnings)
    with rasterio.open(out + ".vrt") as dataset:
        assert dataset.crs.to_epsg() == 32633
        assert dataset.transform[:6] == (10, 0, 500000, 0, -10, 5000000)
        assert dataset.descriptions == ("p",)
        assert np.isnan(dataset.nodata)
        np.testing.assert_array_equal(dataset.read(1), image)
    report = json.loads((tmp_path / "map" / "m-import.json").read_text())
    assert report["patchesPlaced"] == 180 and len(report["tiles"]) == 4


def test_kinds_may_be_mixed_and_bands_chosen(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(3, 2))
    random = np.random.default_rng(1)
    images = {
        "z": random.integers(-5, 300, (32, 96)),
        "probs": random.normal(size=(3, 32, 96)).astype(np.float32),
        "a": random.integers(0, 256, (32, 96)).astype(np.uint8),
    }
    records = write_patches(
        tmp_path, 6, lambda i: {n: cut(v, layout.patches, i, margin=False) for n, v in images.items()}
    )
    with pytest.raises(JobError, match=r"3 channels \[D, H, W\], give depths: {probs: 3}"):
        import_map(layout, records, str(tmp_path / "m"), ImportOptions())
    depths = {"probs": 3}
    import_map(layout, records, str(tmp_path / "all"), ImportOptions(depths=depths))
    with rasterio.open(tmp_path / "all.tif") as dataset:
        assert dataset.descriptions == ("a", "probs_1", "probs_2", "probs_3", "z")
        assert dataset.dtypes[0] == "float64"
        want = np.stack([images["a"], *images["probs"], images["z"]])
        np.testing.assert_array_equal(dataset.read(), want)
    options = ImportOptions(depths=depths, bands=("z", "probs_2"), type="float32")
    import_map(layout, records, str(tmp_path / "two"), options)
    with rasterio.open(tmp_path / "two.tif") as dataset:
        np.testing.assert_array_equal(dataset.read(), np.stack([images["z"], images["probs"][1]]))
    with pytest.raises(
        JobError, match=r"bands\[0\]: the records have no 'prob_1' \(did you mean 'probs_1'\?\)"
    ):
        import_map(layout, records, str(tmp_path / "m"), ImportOptions(depths=depths, bands=("prob_1",)))


def test_class_maps(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(3, 2))
    scores = np.random.default_rng(1).integers(0, 4, (3, 32, 96)).astype(np.float32)  # with ties
    names = ("water", "land", "ice")
    records = write_patches(
        tmp_path,
        6,
        lambda i: {n: cut(s, layout.patches, i, margin=False) for n, s in zip(names, scores, strict=True)},
    )
    classes = tuple(MapClass(value=i, name=n, color=(i, 2 * i, 255)) for i, n in enumerate(names))
    options = ImportOptions(argmax=names, classes=classes, nodata=255)
    import_map(layout, records, str(tmp_path / "m"), options)
    for name in ("m.tif", "m.vrt"):
        with rasterio.open(tmp_path / name) as dataset:
            assert dataset.dtypes == ("uint8",) and dataset.nodata == 255
            np.testing.assert_array_equal(dataset.read(1), scores.argmax(axis=0))
            assert dataset.colormap(1)[2] == (2, 4, 255, 255)
            assert dataset.descriptions == ("class",)
    with rasterio.open(tmp_path / "m.tif") as dataset:
        assert dataset.tags(1)["CLASS_1"] == "land"
    assert "<Category>land</Category>" in (tmp_path / "m.vrt").read_text()
    assert cog_validate(tmp_path / "m.tif", quiet=True)[0]


@pytest.mark.parametrize(
    ("dtype", "options", "mixed"),
    [
        ("int64", {}, False),
        ("uint8", {}, False),
        ("int64", {"type": "uint8"}, False),
        ("float32", {}, True),
        ("float32", {"type": "uint8"}, True),
        ("int64", {"type": "float32"}, True),
        ("int64", {"scale": 2, "type": "int64"}, True),
    ],
)
def test_overviews_of_integers_hold_no_number_that_the_map_does_not(
    tmp_path: Path, dtype: str, options: dict[str, Any], mixed: bool
) -> None:
    layout = MapLayout.from_mixer(mixer(20, 40))
    values = np.tile(np.array([[0, 8], [8, 8]], dtype), (8, 16))
    records = write_patches(tmp_path, 800, lambda i: {"p": values})
    import_map(layout, records, str(tmp_path / "m"), ImportOptions(tile_size=1024, **options))
    with rasterio.open(tmp_path / "m.tif", overview_level=0) as made:
        small = made.read(1)
    assert small.shape == (320, 320)
    plain = {0, 8 * options.get("scale", 1)}
    assert bool(set(np.unique(small).tolist()) - plain) == mixed


@pytest.mark.parametrize("blend", ["mean", "hann"])
def test_blended_constants_are_constant_and_ramps_ramps(tmp_path: Path, blend: str) -> None:
    layout = MapLayout.from_mixer(mixer(9, 18)).with_kernel((16, 8))
    ramp = (np.arange(288)[None, :] * 0.37 + np.arange(288)[:, None] * 1.1).astype(np.float32)
    x, y = layout.patches.margin_width_height
    wide = np.arange(-x, 288 + x)[None, :] * 0.37 + np.arange(-y, 288 + y)[:, None] * 1.1

    def make(i: int) -> dict[str, np.ndarray]:
        w = layout.patches.stored_window(i)
        at = slice(w.row_off + y, w.row_stop + y), slice(w.col_off + x, w.col_stop + x)
        return {"c": np.full((w.height, w.width), 7.25, np.float32), "r": wide[at].astype(np.float32)}

    records = write_patches(tmp_path, 162, make, gzip="indexed")
    import_map(layout, records, str(tmp_path / "m"), ImportOptions(overlap=blend, tile_size=256))
    with rasterio.open(tmp_path / "m.vrt") as dataset:
        constant, blended = dataset.read()
    assert (constant == 7.25).all()
    np.testing.assert_allclose(blended, ramp, rtol=2e-7)


def test_hann_hides_the_seams_of_a_biased_predictor(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(4, 8)).with_kernel((32, 16))
    bias = np.random.default_rng(3).normal(size=32).astype(np.float32)
    records = write_patches(tmp_path, 32, lambda i: {"p": np.full((32, 64), bias[i], np.float32)})
    jump = {}
    for overlap in ("discard", "hann"):
        depths = {"p": 1} if overlap == "discard" else {}  # else it might be 4 channels without a margin
        import_map(layout, records, str(tmp_path / overlap), ImportOptions(overlap=overlap, depths=depths))
        with rasterio.open(tmp_path / f"{overlap}.tif") as dataset:
            jump[overlap] = np.abs(np.diff(dataset.read(1), axis=1)).max()
    # the margin of 16 columns spreads a step over 32
    assert jump["hann"] < jump["discard"] / 8, jump


def test_values_out_of_range_name_band_and_patch(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(3, 2))

    def make(i: int) -> dict[str, np.ndarray]:
        values = np.full((16, 32), 200.5, np.float32)
        if i == 4:
            values[3, 5] = 255.6
        return {"p": values}

    records = write_patches(tmp_path, 6, make)
    with pytest.raises(EncodeError, match=r"band p, patch 4: 256.0 is outside of uint8 \(0 to 255\)"):
        import_map(layout, records, str(tmp_path / "m"), ImportOptions(type="uint8"))
    import_map(layout, records, str(tmp_path / "m"), ImportOptions(type="uint8", saturate=True))
    with rasterio.open(tmp_path / "m.tif") as dataset:
        assert dataset.read(1).max() == 255 and dataset.read(1)[0, 0] == 200


def test_nan_in_an_integer_map_needs_nodata(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(3, 2))

    def make(i: int) -> dict[str, np.ndarray]:
        values = np.full((16, 32), 3, np.float32)
        values[0, 0] = np.nan
        return {"p": values}

    records = write_patches(tmp_path, 6, make)
    with pytest.raises(EncodeError, match=r"band p, patch \d: NaN cannot be held by int16; give nodata"):
        import_map(layout, records, str(tmp_path / "m"), ImportOptions(type="int16"))
    import_map(layout, records, str(tmp_path / "m"), ImportOptions(type="int16", nodata=-9))
    with rasterio.open(tmp_path / "m.tif") as dataset:
        masked = dataset.read(1, masked=True)
        assert masked.mask.sum() == 6 and masked.mask[16, 32]


def test_wrong_records_are_named(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(3, 2))
    good = np.zeros((16, 32), np.float32)

    def lacking(i: int) -> dict[str, np.ndarray]:
        return {"prediction" if i != 3 else "predictions": good}

    records = write_patches(tmp_path, 6, lacking)
    with pytest.raises(
        CorruptRecord, match=r"patch 3: has no feature 'prediction' \(did you mean 'predictions'\?\)"
    ) as e:
        import_map(layout, records, str(tmp_path / "m"), ImportOptions())
    assert (e.value.file, e.value.record) == (records[0], 3)
    records = write_patches(tmp_path, 6, lambda i: {"p": good if i < 5 else good[1:]})
    with pytest.raises(CorruptRecord, match=r"patch 5: feature 'p' has 480 values; expected 32 × 16 = 512"):
        import_map(layout, records, str(tmp_path / "m"), ImportOptions())
    wide = layout.with_kernel((4, 4))
    with pytest.raises(
        JobError, match=r"has 480 values; expected 32 × 16 = 512, or with the margin 36 × 20 = 720"
    ):
        import_map(
            wide, write_patches(tmp_path, 6, lambda i: {"p": good[1:]}), str(tmp_path / "m"), ImportOptions()
        )


def test_a_length_with_two_readings_is_refused_until_depths_says_which(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(3, 2, (16, 16))).with_kernel((16, 16))
    image = np.random.default_rng(3).normal(size=(4, 32, 48)).astype(np.float32)
    several = write_patches(tmp_path, 6, lambda i: {"p": cut(image, layout.patches, i, margin=False)})
    with pytest.raises(
        JobError,
        match=r"'p' has 1024 values: one channel of 32 × 32 with the margin, or 4 channels of 16 × 16 "
        r"without; say which with depths: \{p: 1\} or depths: \{p: 4\}",
    ):
        import_map(layout, several, str(tmp_path / "m"), ImportOptions())
    import_map(layout, several, str(tmp_path / "four"), ImportOptions(depths={"p": 4}))
    one = write_patches(tmp_path, 6, lambda i: {"p": cut(image[0], layout.patches, i, margin=True)})
    import_map(layout, one, str(tmp_path / "one"), ImportOptions(depths={"p": 1}))
    # the form in which the export wrote a band needs no word
    known = replace(layout, bands=(KnownBand(name="p", type="float32", depth=1, nodata=None),))
    import_map(known, one, str(tmp_path / "known"), ImportOptions())
    for name, want in (("four", image), ("one", image[:1]), ("known", image[:1])):
        with rasterio.open(tmp_path / f"{name}.tif") as made:
            np.testing.assert_array_equal(made.read(), want)


def test_counts_are_compared_before_any_tile(tmp_path: Path) -> None:
    layout = MapLayout.from_mixer(mixer(4, 4), "scene-mixer.json")
    good = {"p": np.zeros((16, 32), np.float32)}
    for count, text in (
        (15, "1 too few; pred-00003.tfrecord has 3 where 4 are due"),
        (17, "1 too many; pred-00000.tfrecord has 5 where 4 are due"),
    ):
        records = write_patches(tmp_path, count, lambda i: good, files=4)
        with pytest.raises(
            JobError, match=f"{count} records, and scene-mixer.json says 16 patches so 16 are due: {text}"
        ):
            import_map(layout, records, str(tmp_path / "m"), ImportOptions())


@given(st.sets(st.integers(0, 40), min_size=1), st.tuples(st.integers(0, 42), st.integers(0, 42)))
def test_records_of_kept_patches(kept: set[int], asked: tuple[int, int]) -> None:
    numbers, (first, stop) = sorted(kept), sorted(asked)
    layout = replace(MapLayout.from_mixer(mixer(6, 7)), kept=to_ranges(np.array(numbers)))
    patches, record = layout.records_of(first, stop)
    assert patches.tolist() == [n for n in numbers if first <= n < stop]
    assert record == sum(n < first for n in numbers)


def test_dropped_patches_have_no_data(tmp_path: Path) -> None:
    layout = replace(MapLayout.from_mixer(mixer(3, 4)), kept=np.array([[1, 3], [7, 1], [9, 2]]))
    kept = [1, 2, 3, 7, 9, 10]
    records = write_patches(tmp_path, 6, lambda i: {"p": np.full((16, 32), kept[i], np.float32)})
    with pytest.raises(JobError, match="nodata: 6 patches have no records, and a map of uint8 has no value"):
        import_map(layout, records, str(tmp_path / "m"), ImportOptions(type="uint8"))
    import_map(layout, records, str(tmp_path / "m"), ImportOptions(type="uint8", nodata=0))
    with rasterio.open(tmp_path / "m.tif") as dataset:
        corners = dataset.read(1)[::16, ::32]
    assert corners.ravel().tolist() == [i if i in kept else 0 for i in range(12)]
