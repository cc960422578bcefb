"""Image patches: every form of an export gives the pixels that were written, in patch order."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shared import ROOT, shared_data
from training_sets import AFFINE, write_export

from patchbeam.data import DataError, DataProvider, Epochs, Loader, Modality, PatchDatabase
from patchbeam.errors import CorruptRecord, CountMismatch, JobError
from patchbeam.records.tfrecord import read_records, write_records


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


def test_nothing_is_read_before_a_batch_with_a_manifest(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    hidden = [file.rename(file.with_suffix(".hidden")) for file in written.files]
    database = PatchDatabase(written.prefix)
    batches = Epochs(database, 4, seed=1)[1000]
    assert len(database) == 12 and len(batches) == 3 and len(batches.indices(0)) == 4
    for file, name in zip(hidden, written.files, strict=True):
        file.rename(name)
    assert (batches[0][0] == written.pixels[batches.indices(0)]).all()
    # only the shard that holds the item is opened
    single = PatchDatabase(written.prefix)
    _ = single[7]
    assert [opened is not None for opened in single.records._open] == [False, True, False]


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    with pytest.raises(JobError, match=r"no band 'b1' .*did you mean 'B1'"):
        PatchDatabase(written.prefix, modalities={"image": ["b1"]})
    with pytest.raises(JobError, match=r"modalities.image: no bands"):
        PatchDatabase(written.prefix, modalities={"image": []})
    with pytest.raises(JobError, match=r"squeeze: 2 channels"):
        PatchDatabase(written.prefix, modalities={"x": Modality(bands=("B1", "B2"), squeeze=True)})
    with pytest.raises(JobError, match=r"'flot32' is no NumPy type"):
        PatchDatabase(written.prefix, modalities={"x": Modality(bands=("B1",), dtype="flot32")})
    with pytest.raises(JobError, match=r"1 means and 1 deviations for 3 channels"):
        PatchDatabase(written.prefix, normalize=([1], [1]))
    with pytest.raises(JobError, match=r"must be above 0"):
        PatchDatabase(written.prefix, normalize=([1] * 3, [0] * 3))
    with pytest.raises(JobError, match=r"no record files with this prefix"):
        PatchDatabase(str(tmp_path / "nothing"))
    with pytest.raises(JobError, match=r"has no splits"):
        PatchDatabase(written.prefix, split="train")
    with pytest.raises(JobError, match=r"leave them out"):
        PatchDatabase(written.prefix, kernel_size=3)
    narrow = PatchDatabase(written.prefix, modalities={"x": Modality(bands=("B1",), dtype="uint8")})
    with pytest.raises(DataError, match=r"record 0, feature 'B1': np.float32\(\d+.0\) is no uint8"):
        _ = narrow[0]
    mixed = write_export(tmp_path / "mixer", sidecar="mixer")
    with pytest.raises(JobError, match=r"no statistics of B1, B2, B3 \(only a manifest"):
        PatchDatabase(mixed.prefix, normalize=True)
    mixed.files[2].unlink()
    with pytest.raises(
        CountMismatch, match=r"10 records \(.*00000.tfrecord: 5, .*\), but the mixer says 12 patches"
    ):
        PatchDatabase(mixed.prefix)


def test_damage_is_an_error_at_its_batch_with_file_record_and_byte(tmp_path: Path) -> None:
    written = write_export(tmp_path)
    file = written.files[1]
    stored = bytearray(file.read_bytes())
    size = len(stored) // 5
    stored[2 * size + 300] ^= 1
    file.write_bytes(stored)
    database = PatchDatabase(written.prefix)
    loader = Loader(DataProvider(database, 3), threads=2)
    got = []
    with pytest.raises(CorruptRecord) as caught:
        for batch in loader:
            got.append(batch)
    error = caught.value
    assert (error.file, error.record, error.byte) == (str(file), 2, 2 * size) and len(got) == 2
    assert "item 7 (patch 7)" in error.__notes__[0]
    file.write_bytes(stored[: 4 * size])
    with pytest.raises(
        CountMismatch, match=rf"00001.tfrecord: has {4 * size} bytes, its manifest says {5 * size}"
    ):
        _ = PatchDatabase(written.prefix)[7]


def test_a_record_unlike_the_others_is_named(tmp_path: Path) -> None:
    one, other = write_export(tmp_path / "a"), write_export(tmp_path / "b", bands=["B1", "B2", "X"])
    datas = [list(read_records(file)) for file in one.files]
    datas[1][3] = next(iter(read_records(other.files[0])))
    write_records(one.files[1], datas[1])
    database = PatchDatabase(one.prefix, modalities={"image": ["B1", "B3"]})
    assert len(database) == 12
    with (
        pytest.raises(CountMismatch, match=r"bytes, its manifest says")
        if one.files[1].stat().st_size != one.manifest.shards[1].stored_bytes
        else pytest.raises(DataError, match=r"record 3: no feature 'B3'; it has B1, B2, X")
    ):
        _ = database[8]


def test_pickles_to_a_process_that_starts_afresh(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6")
    database = PatchDatabase(written.prefix)
    _ = database[0]
    (tmp_path / "it").write_bytes(pickle.dumps(Epochs(database, 4, seed=1)))
    program = f"import pickle; print(pickle.load(open({str(tmp_path / 'it')!r}, 'rb'))[3][1][0].sum())"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert float(run.stdout) == Epochs(database, 4, seed=1)[3][1][0].sum()


def test_one_stream_gzip_is_inflated_once_and_kept(tmp_path: Path) -> None:
    written = write_export(tmp_path, gzip="zlib6")
    _ = PatchDatabase(written.prefix)[0]
    copies = sorted((tmp_path / "cache" / "inflated").glob("*.tfrecord"))
    assert len(copies) == 1
    before = copies[0].stat().st_mtime_ns
    again = PatchDatabase(written.prefix)
    assert (again[0][0] == written.pixels[0]).all() and copies[0].stat().st_mtime_ns == before
    assert (again[11][0] == written.pixels[11]).all()
    assert len(list((tmp_path / "cache" / "inflated").glob("*.tfrecord"))) == 2
    assert list((tmp_path / "cache" / "inflated").glob("part-*")) == []


def test_real_records_of_earth_engine_train_from_their_mixer_alone() -> None:
    folder = shared_data()
    if folder is None or not (folder / "earth-engine" / "image_2021.tfrecord.gz").exists():
        pytest.skip("no real files here")
    database = PatchDatabase(folder / "earth-engine" / "image_2021")
    assert len(database) == 1 and database.mixer is not None
    assert database.specs["image"].shape == (8, 256, 256) and database.specs["image"].dtype == "float32"
    assert database.place is not None and database.place.margin_width_height == (0, 0)
    (batch,) = next(iter(DataProvider(database, 32)))
    assert batch.shape == (1, 8, 256, 256) and np.isfinite(batch).all()
    from patchbeam.records.example import parse_example

    data = next(iter(read_records(folder / "earth-engine" / "image_2021.tfrecord.gz")))
    for at, values in enumerate(parse_example(data).values()):
        assert (batch[0, at].reshape(-1) == values).all()


def test_memory_stays_bounded_over_a_set_larger_than_may_be_taken(tmp_path: Path) -> None:
    written = write_export(tmp_path, patch=(256, 256), columns_rows=(8, 16), bands=["B1", "B2"], per_shard=40)
    total = sum(file.stat().st_size for file in written.files)
    limit = 48 << 20
    assert total > 60 << 20
    program = f"""
import resource, json
from patchbeam.data import Epochs, Loader, PatchDatabase
loader = Loader(Epochs(PatchDatabase({written.prefix!r}), 8, seed=1).prefix(2), threads=1)
have = int(next(l for l in open("/proc/self/status") if l.startswith("VmData")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_DATA, (have + {limit}, have + {limit}))
print(json.dumps([sum(len(b[0]) for b in loader)]))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [256]
