"""Stimuli and their loaders; databases of files, folders and arrays."""

from __future__ import annotations

import gzip
import io
import pickle
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import idx, picture
from shared import ROOT

from patchbeam.data import (
    ArrayDatabase,
    Epochs,
    ImageFolder,
    LabeledImage,
    StimuliDatabase,
    Stimulus,
    loaders,
    make_batch,
    register_loader,
)
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.errors import JobError
from patchbeam.records.layout import ExampleLayout, Feature
from patchbeam.records.tfrecord import write_records

RGB = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(np.uint8)
CHW = RGB.transpose(2, 0, 1)


def npz() -> bytes:
    out = io.BytesIO()
    np.savez(out, a=CHW, b=np.arange(3))
    return out.getvalue()


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "options", "expected"),
    [
        ("a.npy", npy(CHW), {}, CHW),
        ("a.npz", npz(), {"array": "a"}, CHW),
        ("a.png", picture(RGB), {}, CHW),
        ("a.png", picture(RGB[..., 0]), {}, RGB[..., 0]),
        ("a.ppm", b"P6\n# made by hand\n7 5\n255\n" + RGB.tobytes(), {}, CHW),
        ("a.pgm", b"P2 2 2 9\n0 1 # one\n2 9\n", {}, np.array([[0, 1], [2, 9]], np.uint8)),
        ("a.pgm", b"P5 2 1 1000 " + b"\x03\xe8\x00\x01", {}, np.array([[1000, 1]], np.uint16)),
        ("t10k-images-idx3-ubyte", idx(CHW), {}, CHW),
        ("labels.idx", idx(np.array([1.5, -2])), {}, np.array([1.5, -2])),
        ("x-ubyte.gz", gzip.compress(idx(np.array([-7], np.int16)), mtime=0), {}, np.array([-7], np.int16)),
    ],
)
def test_formats(
    tmp_path: Path, name: str, data: bytes, options: dict[str, Any], expected: np.ndarray
) -> None:
    (tmp_path / name).write_bytes(data)
    stimulus = Stimulus(tmp_path / name, **options)
    found = pickle.loads(pickle.dumps(stimulus)).load()
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    assert Stimulus(data, format=stimulus.format, **options).load().tolist() == expected.tolist()


def test_jpeg_and_geotiff(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "a.jpg").write_bytes(picture(RGB, "JPEG"))
    decoded = np.array(Image.open(tmp_path / "a.jpg")).transpose(2, 0, 1)
    np.testing.assert_array_equal(Stimulus(tmp_path / "a.jpg").load(), decoded)
    import rasterio

    with rasterio.open(
        tmp_path / "a.tif", "w", driver="GTiff", width=7, height=5, count=3, dtype="uint8"
    ) as file:
        file.write(CHW)
    np.testing.assert_array_equal(Stimulus(tmp_path / "a.tif").load(), CHW)
    np.testing.assert_array_equal(Stimulus(tmp_path / "a.tif", bands=(3, 1)).load(), CHW[[2, 0]])


def test_a_record_of_a_file(tmp_path: Path) -> None:
    layout = ExampleLayout([Feature("image", "float", 6), Feature("mask", "bytes", 1)])
    framed = [layout.encode([np.full(6, n), np.array([5 + n])]) for n in range(3)]
    write_records(tmp_path / "a.tfrecord", [record[12:-4] for record in framed])
    image = Stimulus(tmp_path / "a.tfrecord", record=2, feature="image", shape=(2, 3))
    np.testing.assert_array_equal(image.load(), np.full((2, 3), 2, np.float32))
    mask = Stimulus(tmp_path / "a.tfrecord", record=0, feature="mask", dtype="uint1", shape=(2, 4))
    assert mask.load().tolist() == [[1, 0, 1, 0], [0, 0, 0, 0]]
    with pytest.raises(DataError, match="no record 3"):
        Stimulus(tmp_path / "a.tfrecord", record=3, feature="image").load()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.npy", b"nonsense", "npy format"),
        ("a.png", b"nonsense", "no image"),
        ("a.ppm", b"P6 2 2 255\nabc", "3 bytes of pixels where 12"),
        ("a.idx", idx(CHW)[:-1], "bytes, and the header's sizes"),
        ("a.idx", b"\0\0\x07\1", "no IDX file"),
        ("a.tif", b"nonsense", "no raster"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        Stimulus(tmp_path / name).load()
    assert str(tmp_path / name) in str(caught.value)


def test_pickles_in_npy_are_not_run(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([print], object), allow_pickle=True)
    with pytest.raises(DataError):
        Stimulus(tmp_path / "a.npy").load()


def test_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "_LOADERS", {k: dict(v) for k, v in loaders._LOADERS.items()})
    monkeypatch.setattr(loaders, "_SUFFIXES", dict(loaders._SUFFIXES))

    @register_loader("raw", backend="mine", suffixes=[".raw"])
    def load_raw(file: Any, *, width: int) -> np.ndarray:
        return np.frombuffer(file.read(), np.uint8).reshape(-1, width)

    assert Stimulus(b"abcd", format="raw", width=2).load().shape == (2, 2)
    assert loaders.format_of("x.RAW") == "raw"
    register_loader("png", lambda file: np.zeros(3), backend="mine")
    assert Stimulus(picture(RGB), format="png").load().shape == (3,)
    assert Stimulus(picture(RGB), format="png", backend="pillow").load().shape == (3, 5, 7)
    register_loader("png", "no_such_library:load", backend="other", extra="images", package="Nolib")
    with pytest.raises(JobError, match=r'png: Nolib is needed .* pip install "patchbeam\[images\]"'):
        Stimulus(picture(RGB), format="png", backend="other").load()
    with pytest.raises(JobError, match=r"'pmg' is not known.* formats are bmp, .*npz.*pnm"):
        Stimulus(b"", format="pmg").load()
    with pytest.raises(JobError, match="its name says no format"):
        Stimulus("picture.xyz")


def test_plug_ins_come_through_the_entry_point_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaders, "_LOADERS", {k: dict(v) for k, v in loaders._LOADERS.items()})
    monkeypatch.setattr(loaders, "_SUFFIXES", dict(loaders._SUFFIXES))
    monkeypatch.setattr(loaders, "_plugins_found", False)
    point = metadata.EntryPoint("zeros.mine", "numpy:zeros", loaders.ENTRY_POINTS)
    monkeypatch.setattr(
        loaders.metadata, "entry_points", lambda group: [point] if group == loaders.ENTRY_POINTS else []
    )
    assert loaders.known_formats()["zeros"] == ("mine",)
    assert loaders.find_loader("zeros") is np.zeros and loaders.format_of("a.zeros") == "zeros"


def test_no_third_party_library_is_imported_before_a_file_needs_it() -> None:
    program = (
        "import sys; from patchbeam.data import *; from patchbeam.data import loaders;"
        "Stimulus('a.png'); Stimulus('a.tif'); loaders.known_formats();"
        "print(sorted({'PIL', 'rasterio'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"


def test_kept_in_memory(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", CHW)
    kept = Stimulus(tmp_path / "a.npy", keep_in_memory=True)
    first = kept.load()
    (tmp_path / "a.npy").unlink()
    assert kept.load() is first and not first.flags.writeable


def test_stimuli_database(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", CHW)
    items = {"one": (tmp_path / "a.npy", 1), "two": (Stimulus(CHW + 1), np.int64(2))}
    database = StimuliDatabase(items, ("image", "label"))
    assert list(database.keys) == ["one", "two"] and database[1][1] == 2
    np.testing.assert_array_equal(database[0][0], CHW)
    with pytest.raises(JobError, match="item 'x': 1 stimuli"):
        StimuliDatabase({"x": (1,)}, ("image", "label"))


def test_array_database_in_memory_and_on_disk(tmp_path: Path) -> None:
    images = np.random.default_rng(1).integers(0, 256, (20, 3, 4, 4)).astype(np.uint8)
    labels = np.arange(20, dtype=np.int32)
    np.save(tmp_path / "image.npy", images)
    for database in (
        ArrayDatabase(image=images, label=labels),
        pickle.loads(pickle.dumps(ArrayDatabase(image=tmp_path / "image.npy", label=labels))),
    ):
        order = np.array([3, 4, 5, 19, 0, 0])
        batch = database.load_batch(order)
        np.testing.assert_array_equal(batch[0], images[order])
        assert batch[1].tolist() == order.tolist()
        item = database[7]
        np.testing.assert_array_equal(item[0], images[7])
        item[0][...] = 0
        np.testing.assert_array_equal(database[7][0], images[7])
        assert item[1].dtype == np.int32 and item[1] == 7
    with pytest.raises(JobError, match="different length"):
        ArrayDatabase(image=images, label=labels[:3])
    (tmp_path / "image.npy").write_bytes((tmp_path / "image.npy").read_bytes()[:-1])
    with pytest.raises(DataError, match="cut short"):
        ArrayDatabase(image=tmp_path / "image.npy")


def test_image_folder(tmp_path: Path) -> None:
    for name in ("dog", "cat", ".hidden"):
        (tmp_path / name).mkdir()
        for number in (2, 10):
            (tmp_path / name / f"{number}.png").write_bytes(picture(RGB + number))
        (tmp_path / name / "notes.txt").write_text("no image")
        (tmp_path / name / ".skip.png").write_bytes(b"")
    database = ImageFolder(tmp_path)
    assert database.classes == ("cat", "dog")
    assert list(database.keys) == ["cat/10.png", "cat/2.png", "dog/10.png", "dog/2.png"]
    image, label = database[2]
    np.testing.assert_array_equal(image, CHW + 10)
    assert label == 1 and label.dtype == np.int32
    small = ImageFolder(tmp_path, size=(2, 3), mode="L")
    assert small[0][0].shape == (2, 3)
    images, labels = Epochs(ImageFolder(tmp_path, size=4), 4, seed=1)[0][0]
    assert images.shape == (4, 3, 4, 4) and sorted(labels.tolist()) == [0, 0, 1, 1]
    with pytest.raises(EmptyDatabase):
        ImageFolder(tmp_path / "dog")


def test_make_batch_is_exact() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (6, 3, 4, 5)).astype(np.uint8)
    mean, std = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)
    batch = make_batch(images, [1] * 6, (mean, std))
    assert isinstance(batch, LabeledImage) and batch.image.shape == (6, 4, 5, 3)
    expected = np.empty_like(batch.data)
    for n, c, y, x in np.ndindex(images.shape):
        value = np.float32(images[n, c, y, x]) / np.float32(255)
        expected[n, y, x, c] = (value - np.float32(mean[c])) / np.float32(std[c])
    assert batch.data.tobytes() == expected.tobytes()
    assert batch.label.dtype == np.int32
    channels_first = make_batch(images, [1] * 6, (mean, std), layout="NCHW").data
    np.testing.assert_array_equal(channels_first, expected.transpose(0, 3, 1, 2))
    with pytest.raises(DataError, match="3 channels, and 2 means"):
        make_batch(images, [1] * 6, ((0.5, 0.5), (1.0, 1.0)))
    joined = LabeledImage.collate([LabeledImage(images[0], 1), LabeledImage(images[1], 2)])
    assert joined.image.shape == (2, 3, 4, 5) and joined.label.tolist() == [1, 2]
