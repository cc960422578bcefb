"""Image patches: every form of an export gives the pixels that were written, in patch order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from training_sets import AFFINE, write_export

from patchbeam.data import DataError, DataProvider, Modality, PatchDatabase
from patchbeam.errors import JobError
from patchbeam.records.tfrecord import read_records


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_CACHE", str(tmp_path / "cache"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([None, "indexed", "zlib6"]),
    st.sampled_from([(1, 1), (3, 5), (4, 4)]),
    st.sampled_from([["float"] * 3, ["bytes", "int64", "float"], ["int64"] * 3]),
    st.sampled_from([[1, 1, 1], [1, 4, 1]]),
    st.booleans(),
    st.sampled_from([(), (3, 4, 11)]),
    st.integers(0, 10**6),
)
def test_the_round_trip_law(
    tmp_path_factory: pytest.TempPathFactory,
    gzip: str | None,
    kernel: tuple[int, int],
    kinds: list[str],
    depths: list[int],
    collapse: bool,
    dropped: tuple[int, ...],
    seed: int,
) -> None:
    if collapse:
        kinds = [kinds[-1]] * 3
    written = write_export(
        tmp_path_factory.mktemp("export"),
        gzip=gzip,
        kernel=kernel,
        kinds=kinds,
        depths=depths,
        collapse=collapse,
        dropped=dropped,
        seed=seed,
    )
    database = PatchDatabase(written.prefix)
    assert len(database) == len(written.pixels)
    assert database.specs["image"].shape == written.pixels.shape[1:]
    for index, want in enumerate(written.pixels):
        (image,) = database[index]
        assert (image == want).all() and image.flags.writeable
    assert (DataProvider(database, len(database))[0][0] == written.pixels).all()
    kept = [i for i in range(12) if i not in dropped]
    assert [int(key) for key in database.keys] == kept
    assert database.position(3) == divmod(kept[3], 4)


@pytest.mark.parametrize("gzip", [None, "indexed", "zlib6"])
def test_the_order_law(tmp_path: Path, gzip: str | None) -> None:
    written = write_export(tmp_path, gzip=gzip, columns_rows=(6, 4), per_shard=7)
    batches = list(DataProvider(PatchDatabase(written.prefix), 5))
    assert [len(batch[0]) for batch in batches] == [5, 5, 5, 5, 4]
    assert (np.concatenate([batch[0] for batch in batches]) == written.pixels).all()
    from_files = [bytes(data) for file in written.files for data in read_records(file)]
    database = PatchDatabase(written.prefix)
    assert [bytes(database.records[i]) for i in range(24)] == from_files


def test_modalities_types_margins_and_normalisation(tmp_path: Path) -> None:
    written = write_export(
        tmp_path, bands=["B4", "B3", "series", "class"], depths=[1, 1, 3, 1], kernel=(5, 3), patch=(8, 6)
    )
    pixels = written.pixels
    database = PatchDatabase(
        written.prefix,
        modalities={
            "image": ["B3", "B4"],
            "series": "series",
            "label": Modality(bands=("class",), dtype="int32", squeeze=True),
        },
        margin="crop",
    )
    assert database.modalities == ("image", "series", "label")
    image, series, label = database[7]
    inner = pixels[7][:, 1:-1, 2:-2]
    assert image.shape == (2, 6, 8) and (image == inner[[1, 0]]).all()
    assert (series == inner[2:5]).all()
    assert label.shape == (6, 8) and label.dtype == np.int32 and (label == inner[5]).all()
    batch = DataProvider(database, 12, layout="NHWC")[0]
    assert [part.shape for part in batch] == [(12, 6, 8, 2), (12, 6, 8, 3), (12, 6, 8)]
    assert (batch[2][7] == label).all() and (batch[0][7] == np.moveaxis(image, 0, 2)).all()

    normal = PatchDatabase(written.prefix, normalize=True)
    got = DataProvider(normal, 12)[0][0]
    statistics = [
        band.statistics for band in written.manifest.bands for _ in range(1 if band.name != "series" else 3)
    ]
    for channel, of in enumerate(statistics):
        want = (pixels[:, channel] - np.float32(of.mean)) / np.float32(of.standard_deviation)
        assert (got[:, channel] == want).all() and got.dtype == np.float32
    assert abs(got[:, 0].mean()) < 1e-4 and abs(got[:, 0].std() - 1) < 1e-4
    own = PatchDatabase(written.prefix, modalities={"x": ["B4"]}, normalize=([100.0], [50.0]))
    assert (own[3][0] == (pixels[3][:1] - np.float32(100)) / np.float32(50)).all()


def test_native_numbers_keep_their_types(tmp_path: Path) -> None:
    written = write_export(tmp_path, kinds=["bytes", "int64", "float"])
    database = PatchDatabase(
        written.prefix, modalities={"a": "B1", "b": "B2", "c": "B3", "all": ["B1", "B2"]}
    )
    assert [value.dtype.name for value in database[0]] == ["uint8", "uint16", "float32", "uint16"]


def test_transform_and_position_agree_with_the_grid(tmp_path: Path) -> None:
    written = write_export(tmp_path, kernel=(5, 3), dropped=[0])
    keep, crop = PatchDatabase(written.prefix), PatchDatabase(written.prefix, margin="crop")
    a, _, c, _, e, f = AFFINE
    # item 5 is patch 6: row 1, column 2, of 8 × 8 pixels
    assert crop.position(5) == (1, 2)
    assert crop.transform(5) == pytest.approx((a, 0, c + 16 * a, 0, e, f + 8 * e))
    assert keep.transform(5) == pytest.approx((a, 0, c + 14 * a, 0, e, f + 7 * e))
    assert keep.place is not None and keep.place.crs == "EPSG:4326"


@pytest.mark.parametrize("wire", [False, True])
def test_a_mixer_alone_is_enough_where_it_leaves_nothing_open(tmp_path: Path, wire: bool) -> None:
    written = write_export(tmp_path, sidecar="mixer", kernel=(4, 4), patch=(8, 6), reverse_wire=wire)
    database = PatchDatabase(written.prefix)
    names = ["B3", "B2", "B1"] if wire else ["B1", "B2", "B3"]
    assert [band.name for band in database.bands] == names
    assert (database[5][0] == written.pixels[5][:: -1 if wire else 1]).all()
    assert database.place is not None and database.place.margin_width_height == (2, 2)
    same = PatchDatabase(written.prefix, modalities={"image": ["B1", "B2", "B3"]})
    assert (same[5][0] == written.pixels[5]).all()


def test_what_a_mixer_leaves_open_is_asked_for(tmp_path: Path) -> None:
    # 24 × 24 is 8 × 8 with a margin of 8, or nine values a pixel
    written = write_export(tmp_path, sidecar="mixer", kernel=(16, 16))
    with pytest.raises(
        JobError, match=r"9 values a pixel as well as a margin of 8 .*kernel_size=\(16, 16\).*depths"
    ):
        PatchDatabase(written.prefix)
    assert (PatchDatabase(written.prefix, kernel_size=16)[0][0] == written.pixels[0]).all()
    assert PatchDatabase(written.prefix, depths=dict.fromkeys(["B1", "B2", "B3"], 9))[0][0].shape == (
        27,
        8,
        8,
    )
    with pytest.raises(JobError, match=r"depths: 'B4'.*did you mean"):
        PatchDatabase(written.prefix, depths={"B4": 9})
    with pytest.raises(DataError, match=r"576 values are not a whole number × 10 × 10"):
        PatchDatabase(written.prefix, kernel_size=3)
    uneven = write_export(tmp_path / "uneven", sidecar="mixer", kernel=(5, 3))
    with pytest.raises(JobError, match=r"fit neither .* give the export's kernel_size"):
        PatchDatabase(uneven.prefix)
    assert (PatchDatabase(uneven.prefix, kernel_size=(5, 3))[0][0] == uneven.pixels[0]).all()
    arrays = write_export(tmp_path / "arrays", sidecar="mixer", depths=[1, 2, 1])
    assert (PatchDatabase(arrays.prefix)[0][0] == arrays.pixels[0]).all()


def test_sources_can_be_named_in_several_ways(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    names = [str(file) for file in written.files]
    for source in (
        written.prefix,
        written.files,
        names,
        f"{written.prefix}-*.tfrecord",
        f"{written.prefix}-manifest.json",
    ):
        database = PatchDatabase(source)
        assert (database[11][0] == written.pixels[11]).all() and database.position(11) == (2, 3)
    second = PatchDatabase(names[1])
    assert len(second) == 5 and second.position(0) == (1, 1) and (second[0][0] == written.pixels[5]).all()
    with pytest.raises(JobError, match=r"starts with record 0 of the export, but 10 follows"):
        PatchDatabase([names[1], names[0]])
    moved = tmp_path / "elsewhere.json"
    (tmp_path / "scene-manifest.json").rename(moved)
    with pytest.raises(JobError, match=r"neither manifest nor mixer"):
        PatchDatabase(written.prefix)
    assert len(PatchDatabase(written.prefix, manifest=moved)) == 12
