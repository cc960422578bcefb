"""MNIST and the sets that are laid out like it: four IDX files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from patchbeam.data.containers import Normalization
from patchbeam.data.ensure import Resource
from patchbeam.data.errors import DataError
from patchbeam.data.loaders.idx import load_idx
from patchbeam.data.sets.base import ImageSet, Normalize, ToBatch, write_items

_PARTS = {"training": "train", "validation": "t10k"}
_FILES = tuple(
    f"{part}-{what}-ubyte.gz" for part in _PARTS.values() for what in ("images-idx3", "labels-idx1")
)


def _resources(homes: tuple[str, ...], about: tuple[tuple[int, str], ...]) -> tuple[Resource, ...]:
    return tuple(
        Resource(
            name=name,
            urls=tuple(f"{home}/{name}" for home in homes),
            sha256=sha256,
            size_bytes=size,
            archive=False,
        )
        for name, (size, sha256) in zip(_FILES, about, strict=True)
    )


class _Mnist(ImageSet):
    normalization: ClassVar[Normalization | None] = ((0.5,), (0.5,))

    def __init__(
        self, batch_size: int, *, flatten: bool = False, normalize: Normalize = False, **options: Any
    ) -> None:
        """Opens the set; fetches and processes it the first time.

        Args:
            batch_size: items a batch.
            flatten: whether images are rows of 784 numbers and not ``(28, 28, 1)``.
            normalize: whether values go from -1 to 1 and not from 0 to 1, or ``((mean,), (deviation,))``.
            options: ``seed``, ``layout``, ``root``, ``url``, ``digests``, ``offline`` as of every set.
        """
        self.flatten = flatten
        super().__init__(batch_size, normalize=normalize, **options)

    @classmethod
    def process(cls, sources: Mapping[str, Path], target: Path) -> None:
        """Checks the headers and writes images and labels of both parts."""
        for split, part in _PARTS.items():
            names = [f"{part}-{what}-ubyte.gz" for what in ("images-idx3", "labels-idx1")]
            images, labels = (_read(sources[name], name) for name in names)
            if images.dtype != np.uint8 or images.shape[1:] != (28, 28):
                raise DataError(f"{names[0]}: {images.shape} {images.dtype}; images of 28 × 28 uint8 are due")
            if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
                raise DataError(
                    f"{names[1]}: {labels.shape} {labels.dtype}; a uint8 label for each of {len(images)} "
                    f"images is due"
                )
            if labels.size and labels.max() > 9:
                raise DataError(f"{names[1]}: a label of {labels.max()}, and there are 10 classes")
            write_items(
                target / f"{split}-image.npy", (len(images), 1, 28, 28), "uint8", [images[:, np.newaxis]]
            )
            np.save(target / f"{split}-label.npy", labels.astype(np.int32))

    def to_batch(self) -> Any:
        """Returns what makes batches of raw images and labels."""
        return ToBatch(normalization=self.chosen_normalization(), layout=self.layout, flatten=self.flatten)


def _read(path: Path, name: str) -> Any:
    with open(path, "rb") as file:
        try:
            return load_idx(file)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None


class MNIST(_Mnist):
    """70,000 handwritten digits of 28 × 28 pixels."""

    name = "mnist"
    resources = _resources(
        (
            "https://storage.googleapis.com/cvdf-datasets/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist",
        ),
        (
            (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    )


class FashionMNIST(_Mnist):
    """70,000 pieces of clothing of 28 × 28 pixels."""

    name = "fashion-mnist"
    resources = _resources(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",),
        (
            (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    )


class KMNIST(_Mnist):
    """70,000 cursive Japanese characters of 28 × 28 pixels."""

    name = "kmnist"
    resources = _resources(
        ("http://codh.rois.ac.jp/kmnist/dataset/kmnist",),
        (
            (18165135, "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4"),
            (29497, "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17"),
            (3041136, "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5"),
            (5120, "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c"),
        ),
    )
