"""Predictions written by TensorFlow's own writer, as a user's predict loop does, become a map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from maps import cut, import_map, mixer
from shared import shared_data

from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.plan import read_sidecar

tf = pytest.importorskip("tensorflow")
LAYOUT = MapLayout.from_mixer(mixer(5, 7, (24, 16))).with_kernel((8, 8))
HEIGHT, WIDTH = 7 * 16, 5 * 24


def floats(values: np.ndarray) -> object:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel()))


def integers(values: np.ndarray) -> object:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values.ravel()))


def write(folder: Path, make: object, *, gzip: bool, files: int = 2) -> list[str]:
    names = []
    for number, part in enumerate(np.array_split(np.arange(LAYOUT.patches.count), files)):
        name = str(folder / f"predictions-{number:05d}.tfrecord{'.gz' if gzip else ''}")
        with tf.io.TFRecordWriter(name, "GZIP" if gzip else "") as writer:
            for i in part:
                example = tf.train.Example(features=tf.train.Features(feature=make(int(i))))
                writer.write(example.SerializeToString())
        names.append(name)
    return names


@pytest.mark.parametrize("gzip", [False, True])
def test_cropped_floats_classes_and_probabilities(tmp_path: Path, gzip: bool) -> None:
    random = np.random.default_rng(8)
    score = random.normal(size=(HEIGHT, WIDTH)).astype(np.float32)
    classes = random.integers(0, 12, (HEIGHT, WIDTH))
    probabilities = random.random((3, HEIGHT, WIDTH)).astype(np.float32)

    def make(i: int) -> dict[str, object]:
        return {
            "score": floats(cut(score, LAYOUT.patches, i, margin=False)),
            "class": integers(cut(classes, LAYOUT.patches, i, margin=False)),
            "probabilities": floats(cut(probabilities, LAYOUT.patches, i, margin=False)),
        }

    records = write(tmp_path, make, gzip=gzip)
    depths = {"probabilities": 3}
    import_map(LAYOUT, records, str(tmp_path / "score"), ImportOptions(bands=("score",), depths=depths))
    with rasterio.open(tmp_path / "score.tif") as made:
        np.testing.assert_array_equal(made.read(1), score)
    options = ImportOptions(bands=("class",), depths=depths, type="uint8", nodata=255)
    import_map(LAYOUT, records, str(tmp_path / "class"), options)
    with rasterio.open(tmp_path / "class.tif") as made:
        np.testing.assert_array_equal(made.read(1), classes)
    options = ImportOptions(bands=("probabilities",), depths=depths, argmax=None)
    import_map(LAYOUT, records, str(tmp_path / "best"), options)
    with rasterio.open(tmp_path / "best.tif") as made:
        np.testing.assert_array_equal(made.read(1), probabilities.argmax(axis=0))


def test_predictions_with_the_margin_and_bytes(tmp_path: Path) -> None:
    image = np.random.default_rng(9).integers(0, 256, (HEIGHT, WIDTH)).astype(np.uint8)

    def make(i: int) -> dict[str, object]:
        data = cut(image, LAYOUT.patches, i, margin=True).tobytes()
        return {"b": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data]))}

    # as many values as two channels without the margin would have: depths says which
    options = ImportOptions(depths={"b": 1})
    import_map(LAYOUT, write(tmp_path, make, gzip=True), str(tmp_path / "m"), options)
    with rasterio.open(tmp_path / "m.tif") as made:
        assert made.dtypes == ("uint8",)
        np.testing.assert_array_equal(made.read(1), image)


def test_one_sequence_example_a_pixel(tmp_path: Path) -> None:
    random = np.random.default_rng(10)
    a = random.normal(size=(HEIGHT, WIDTH)).astype(np.float32)
    k = random.integers(-3, 400, (HEIGHT, WIDTH))
    series = random.normal(size=(2, HEIGHT, WIDTH)).astype(np.float32)
    layout = MapLayout.from_mixer(mixer(5, 7, (24, 16)))
    name = str(tmp_path / "pixels.tfrecord")
    with tf.io.TFRecordWriter(name) as writer:
        for i in range(layout.patches.count):
            w = layout.patches.window(i)
            for row in range(w.row_off, w.row_stop):
                for col in range(w.col_off, w.col_stop):
                    steps = [floats(series[step, row, col]) for step in range(2)]
                    pixel = tf.train.SequenceExample(
                        context=tf.train.Features(
                            feature={"a": floats(a[row, col]), "k": integers(k[row, col])}
                        ),
                        feature_lists=tf.train.FeatureLists(
                            feature_list={"s": tf.train.FeatureList(feature=steps)}
                        ),
                    )
                    writer.write(pixel.SerializeToString())
    import_map(layout, [name], str(tmp_path / "m"), ImportOptions(depths={"s": 2}))
    with rasterio.open(tmp_path / "m.tif") as made:
        assert made.descriptions == ("a", "k", "s_1", "s_2")
        np.testing.assert_array_equal(made.read(), np.stack([a, k, *series]))


def test_a_real_export_becomes_a_map(tmp_path: Path) -> None:
    data = shared_data()
    if data is None:
        pytest.skip("real files are not here")
    folder = data / "earth-engine"
    layout, _ = read_sidecar(str(folder / "image_2021.json"))
    record = str(folder / "image_2021.tfrecord.gz")
    import_map(layout, [record], str(tmp_path / "m"), ImportOptions())
    (parsed,) = tf.data.TFRecordDataset([record], compression_type="GZIP")
    example = tf.train.Example.FromString(parsed.numpy())
    with rasterio.open(tmp_path / "m.tif") as made:
        assert made.crs.to_epsg() == 4326
        size = 8.983152841195215e-05
        left, top = 89.39005136557161, 27.448158253564596
        assert made.bounds == pytest.approx((left, top - 256 * size, left + 256 * size, top), abs=1e-12)
        assert made.count == 8 and made.descriptions == tuple(sorted(made.descriptions))
        for name, band in zip(made.descriptions, made.read(), strict=True):
            want = np.array(example.features.feature[name].float_list.value, np.float32).reshape(256, 256)
            np.testing.assert_array_equal(band, want)
