"""CIFAR-10 and CIFAR-100, the binary versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.containers import Normalization
from patchbeam.data.ensure import Resource
from patchbeam.data.errors import DataError
from patchbeam.data.loaders.cifar import IMAGE_BYTES, IMAGE_SHAPE, records_of
from patchbeam.data.sets.base import ImageSet, the_file, write_items

_HOME = "https://www.cs.toronto.edu/~kriz"


class _Cifar(ImageSet):
    """Records of labels and three planes of 32 × 32 pixels."""

    inside: ClassVar[str]
    parts: ClassVar[Mapping[str, Sequence[str]]]
    records_per_file: ClassVar[Mapping[str, int]]
    """Records of each file of a part; a file with more or fewer is refused."""
    label_sizes: ClassVar[tuple[int, ...]]
    """Number of classes of each label byte; the last is the label used."""

    @classmethod
    def process(cls, sources: Mapping[str, Path], target: Path) -> None:
        """Writes the images and the labels of both parts, file by file."""
        folder = next(iter(sources.values())) / cls.inside
        for split, names in cls.parts.items():
            count = cls.records_per_file[split]
            shape = (count * len(names), *IMAGE_SHAPE)
            paths = [the_file(folder.parent, cls.inside, name) for name in names]
            labels: list[NDArray[np.int32]] = []
            write_items(target / f"{split}-image.npy", shape, "uint8", cls._images(paths, count, labels))
            np.save(target / f"{split}-label.npy", np.concatenate(labels))

    @classmethod
    def _images(
        cls, paths: Sequence[Path], count: int, labels: list[NDArray[np.int32]]
    ) -> Iterator[NDArray[np.uint8]]:
        width = len(cls.label_sizes)
        for path in paths:
            due = count * (width + IMAGE_BYTES)
            if path.stat().st_size != due:
                raise DataError(
                    f"{path.name}: {path.stat().st_size} bytes, and {count} records of "
                    f"{width + IMAGE_BYTES} bytes "
                    f"make {due}"
                )
            records = records_of(path.read_bytes(), width)
            for column, classes in enumerate(cls.label_sizes):
                wrong = np.flatnonzero(records[:, column] >= classes)
                if wrong.size:
                    raise DataError(
                        f"{path.name}: record {wrong[0]}, byte {column}: label "
                        f"{records[wrong[0], column]}, and "
                        f"there are {classes} classes"
                    )
            labels.append(records[:, width - 1].astype(np.int32))
            yield records[:, width:].reshape(-1, *IMAGE_SHAPE)


class CIFAR10(_Cifar):
    """60,000 colour images of 32 × 32 pixels in 10 classes; batches of float32 and int32."""

    name = "cifar10"
    resources = (
        Resource(
            name="cifar-10-binary.tar.gz",
            urls=(f"{_HOME}/cifar-10-binary.tar.gz",),
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            size_bytes=170052171,
        ),
    )
    normalization: ClassVar[Normalization | None] = (
        (0.4913996898, 0.4821584196, 0.4465309242),
        (0.2470322324, 0.2434851280, 0.2615878417),
    )
    inside = "cifar-10-batches-bin"
    parts = {  # noqa: RUF012  # never changed
        "training": tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "validation": ("test_batch.bin",),
    }
    records_per_file = {"training": 10_000, "validation": 10_000}  # noqa: RUF012
    label_sizes = (10,)


class CIFAR100(_Cifar):
    """60,000 colour images of 32 × 32 pixels in 100 fine classes; batches of float32 and int32."""

    name = "cifar100"
    resources = (
        Resource(
            name="cifar-100-binary.tar.gz",
            urls=(f"{_HOME}/cifar-100-binary.tar.gz",),
            sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            size_bytes=168513733,
        ),
    )
    normalization: ClassVar[Normalization | None] = ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))
    inside = "cifar-100-binary"
    parts = {"training": ("train.bin",), "validation": ("test.bin",)}  # noqa: RUF012
    records_per_file = {"training": 50_000, "validation": 10_000}  # noqa: RUF012
    label_sizes = (20, 100)
