"""Every classic set on a synthetic archive of its layout: batches against a plain loop."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import (
    LAND,
    Server,
    SmallCIFAR10,
    SmallCIFAR100,
    cifar10,
    cifar100,
    digests_of,
    eurosat,
    idx,
    imagenette,
    mnist,
    pets,
    tgz,
)
from PIL import Image
from shared import ROOT

from patchbeam.data import (
    CIFAR10,
    KMNIST,
    MNIST,
    EuroSAT,
    FashionMNIST,
    Imagenette,
    Imagewoof,
    LabeledImage,
    OxfordPets,
    SegmentedImage,
)
from patchbeam.data.errors import DataError
from patchbeam.errors import JobError


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Any]:
    servers: list[Any] = []

    def run(kind: Any, files: Any, *, batch_size: int = 10, **options: Any) -> Any:
        context = Server(files).running()
        server = context.__enter__()
        servers.append(context)
        options = {"seed": 3, "root": tmp_path / "cache", "digests": digests_of(files), **options}
        first = kind(batch_size, url=server.url, **options)
        context.__exit__(None, None, None)
        # the server has gone
        again = kind(batch_size, url=server.url, **options)
        assert again.folder == first.folder
        return again

    yield run


def plain(images: np.ndarray, mean: Any, std: Any) -> np.ndarray:
    out = np.empty((len(images), *images.shape[2:], images.shape[1]), np.float32)
    for channel in range(images.shape[1]):
        value = images[:, channel].astype(np.float32) / np.float32(255)
        if mean is not None:
            value = (value - np.float32(mean[channel])) / np.float32(std[channel])
        out[..., channel] = value
    return out


@pytest.mark.parametrize(("kind", "made"), [(SmallCIFAR10, cifar10), (SmallCIFAR100, cifar100)])
def test_cifar(opened: Any, kind: Any, made: Any) -> None:
    files, parts = made()
    data = opened(kind, files)
    expected = plain(parts["validation"][0], *kind.normalization)
    batches = list(data.validation)
    assert [len(batch.label) for batch in batches] == [10, 10, 5]
    for at, batch in enumerate(batches):
        assert isinstance(batch, LabeledImage) and batch.label.dtype == np.int32
        assert batch.data.tobytes() == expected[at * 10 : at * 10 + 10].tobytes()
        np.testing.assert_array_equal(batch.label, parts["validation"][1][at * 10 : at * 10 + 10])
    train_images, train_labels = plain(parts["training"][0], *kind.normalization), parts["training"][1]
    orders = []
    for epoch, batches in enumerate(data.training.prefix(2)):
        indices = np.concatenate([batches.indices(at) for at in range(len(batches))])
        orders.append(indices.tolist())
        assert sorted(indices) == list(range(60)) and epoch == len(orders) - 1
        for at, batch in enumerate(batches):
            images, labels = batch
            chosen = batches.indices(at)
            assert images.tobytes() == train_images[chosen].tobytes()
            np.testing.assert_array_equal(labels, train_labels[chosen])
    assert orders[0] != orders[1]
    raw = opened(kind, files, normalize=False, layout="NCHW").validation[0].data
    np.testing.assert_array_equal(raw, parts["validation"][0][:10] / np.float32(255))


def test_statistics_that_are_the_constants_give_mean_0_and_deviation_1() -> None:
    from patchbeam.data import make_batch

    mean, std = CIFAR10.normalization  # type: ignore[misc]
    # evenly spread values: as wide as the constants say, they just fit into 0..255
    noise = np.random.default_rng(0).uniform(-(3**0.5), 3**0.5, (500, 3, 32, 32))
    columns = [np.array(values).reshape(1, 3, 1, 1) for values in (mean, std)]
    images = ((columns[0] + columns[1] * noise) * 255).round().clip(0, 255).astype(np.uint8)
    batch = make_batch(images, np.zeros(500), (mean, std))
    assert np.abs(batch.data.mean((0, 1, 2))).max() < 0.01
    assert np.abs(batch.data.std((0, 1, 2)) - 1).max() < 0.01


def test_generators_and_normalisations_of_ones_own(opened: Any) -> None:
    files, parts = cifar10()
    one = opened(SmallCIFAR10, files, seed=np.random.default_rng(5))
    two = opened(SmallCIFAR10, files, seed=np.random.default_rng(5))
    assert one.seed == two.seed
    assert one.training[3].indices(0).tolist() == two.training[3].indices(0).tolist()
    own = opened(SmallCIFAR10, files, normalize=([0.5] * 3, [0.25] * 3)).validation[0].data
    assert own.tobytes() == plain(parts["validation"][0][:10], [0.5] * 3, [0.25] * 3).tobytes()
    with pytest.raises(JobError, match="batch_size"):
        SmallCIFAR10(0)


@pytest.mark.parametrize("change", ["short", "label"])
def test_cifar_files_of_another_size_or_label_are_refused(opened: Any, change: str) -> None:
    record = np.zeros((12, 3073), np.uint8)
    record[3, 0] = 10 if change == "label" else 0
    data = record.tobytes()[: -1 if change == "short" else None]
    files = {f"cifar-10-batches-bin/data_batch_{i}.bin": data for i in range(1, 6)}
    archive = {
        "cifar-10-binary.tar.gz": tgz({**files, "cifar-10-batches-bin/test_batch.bin": bytes(25 * 3073)})
    }
    message = "make 36876" if change == "short" else r"data_batch_1.bin: record 3, byte 0: label 10"
    with pytest.raises(DataError, match=message):
        opened(SmallCIFAR10, archive)


@pytest.mark.parametrize("kind", [MNIST, FashionMNIST, KMNIST])
def test_mnist_family(opened: Any, kind: Any) -> None:
    files, parts = mnist()
    images, labels = opened(kind, files).validation[1]
    np.testing.assert_array_equal(images, plain(parts["validation"][0][10:], None, None))
    assert images.shape == (7, 28, 28, 1) and labels.tolist() == parts["validation"][1][10:].tolist()
    data = opened(kind, files, flatten=True, normalize=True)
    images = data.validation[0].data
    expected = parts["validation"][0][:10].reshape(10, 784).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(images, expected * 2 - 1)
    assert data.training[0][0].data.shape == (10, 784)


def test_mnist_headers_are_checked(opened: Any) -> None:
    files, _ = mnist()
    import gzip

    for name, array, message in (
        ("train-images-idx3-ubyte.gz", np.zeros((40, 28, 27), np.uint8), "28 × 28"),
        ("train-labels-idx1-ubyte.gz", np.zeros(39, np.uint8), "each of 40 images"),
        ("t10k-labels-idx1-ubyte.gz", np.full(17, 10, np.uint8), "a label of 10"),
    ):
        with pytest.raises(DataError, match=message):
            opened(MNIST, {**files, name: gzip.compress(idx(array))})


@pytest.mark.parametrize(("kind", "stem"), [(Imagenette, "imagenette"), (Imagewoof, "imagewoof")])
def test_imagenette(opened: Any, kind: Any, stem: str) -> None:
    files, labels = imagenette(f"{stem}-160")
    data = opened(kind, files, size=160, output_size=24, batch_size=4)
    images, found = data.validation[0]
    np.testing.assert_array_equal(found, labels["validation"][:4])
    paths = sorted((data.folder / "val").rglob("n*.JPEG"))[:4]
    raw = [
        np.array(Image.open(path).convert("RGB").resize((24, 24), Image.Resampling.BILINEAR))
        for path in paths
    ]
    expected = plain(np.stack(raw).transpose(0, 3, 1, 2), *kind.normalization)
    assert images.tobytes() == expected.tobytes()
    images, found = data.training[0][0]
    assert images.shape == (4, 24, 24, 3) and len(data.training[0]) == 3
    with pytest.raises(JobError, match="size: 200"):
        kind(4, size=200)


def test_pets(opened: Any) -> None:
    files, names = pets()
    data = opened(OxfordPets, files, image_size=32, batch_size=2)
    assert list(data.database("validation").keys) == names["test"]
    assert list(data.database("training").keys) == names["trainval"]
    batch = data.validation[0]
    assert isinstance(batch, SegmentedImage) and batch.mask.shape == (2, 32, 32, 1)
    assert batch.mask.dtype == np.int32
    for at, name in enumerate(names["test"]):
        image = Image.open(data.folder / "images" / f"{name}.jpg").resize((32, 32), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(batch.image[at], np.array(image) / np.float32(255))
        trimap = Image.open(data.folder / "annotations" / "trimaps" / f"{name}.png")
        nearest = np.array(trimap.resize((32, 32), Image.Resampling.NEAREST)).astype(np.int32) - 1
        np.testing.assert_array_equal(batch.mask[at, ..., 0], nearest)
    assert opened(OxfordPets, files, image_size=32, batch_size=2, layout="NCHW").training[0][
        0
    ].mask.shape == (2, 1, 32, 32)


def test_eurosat_colours(opened: Any) -> None:
    data = opened(EuroSAT, eurosat(), batch_size=6)
    assert data.classes == LAND
    train, validation = data.database("training"), data.database("validation")
    assert (len(train), len(validation)) == (24, 6)
    assert np.bincount([label for _, label in validation]).tolist() == [2, 2, 2]
    images, labels = data.validation[0]
    assert images.dtype == np.float32 and labels.dtype == np.int32
    np.testing.assert_array_equal(images, plain(np.stack([i for i, _ in validation]), None, None))
    again = opened(EuroSAT, eurosat(), batch_size=6, seed=9)
    assert [k for k in again.database("validation").keys] == [k for k in validation.keys]


def test_eurosat_all_bands_uses_the_statistics_of_the_training_part(opened: Any) -> None:
    data = opened(EuroSAT, eurosat("all", each=5), bands="all", batch_size=3)
    train = np.stack([image for image, _ in data.database("training")]).astype(np.float64)
    mean, std = data.chosen_normalization()
    np.testing.assert_allclose(mean, train.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(std, train.std((0, 2, 3)), rtol=1e-12)
    images, _ = data.validation[0]
    raw = data.database("validation")[0][0].astype(np.float32)
    expected = (raw - np.array(mean, np.float32)[:, None, None]) / np.array(std, np.float32)[:, None, None]
    assert images[0].transpose(2, 0, 1).tobytes() == expected.tobytes()


def test_large_sets_stay_on_disk(tmp_path: Path) -> None:
    """A pass over 200 MiB of images takes the memory of a few batches."""
    program = f"""
import numpy as np, resource, sys
from pathlib import Path
from patchbeam.data import ArrayDatabase, ArrayFile, Epochs
from patchbeam.data.sets.base import ToBatch, write_items
path = Path({str(tmp_path)!r}) / "image.npy"
part = np.zeros((1024, 3, 64, 64), np.uint8)
write_items(path, (17 * 1024, 3, 64, 64), "uint8", (part for _ in range(17)))
data = Epochs(ArrayDatabase(image=ArrayFile(path), label=np.zeros(17 * 1024, np.int32)), 100, seed=1)
data = data.map(ToBatch(normalization=None, layout="NHWC"))
data[0][0]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for images, labels in data[0]:
    pass
print(path.stat().st_size >> 20, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    size, grown = map(int, run.stdout.split())
    assert size >= 200 and grown < 40
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


@pytest.mark.long
def test_cifar10_of_its_full_size(opened: Any) -> None:
    rng = np.random.default_rng(0)
    records = np.repeat(rng.integers(0, 256, (10, 3073)).astype(np.uint8), 1000, axis=0)
    records[:, 0] %= 10
    files = {f"cifar-10-batches-bin/data_batch_{i}.bin": records.tobytes() for i in range(1, 6)}
    archive = {
        "cifar-10-binary.tar.gz": tgz({**files, "cifar-10-batches-bin/test_batch.bin": records.tobytes()})
    }
    data = opened(CIFAR10, archive, batch_size=100)
    assert len(data.training[0]) == 500 and len(data.validation) == 100
