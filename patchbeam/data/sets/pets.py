"""Oxford-IIIT Pets: photographs, and of each pixel whether it is pet, background or border."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from patchbeam.data.collate import Item
from patchbeam.data.containers import Normalization, SegmentedImage, scaled_images
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.dtypes import DTYPES, DType
from patchbeam.data.ensure import Resource
from patchbeam.data.errors import DataError
from patchbeam.data.provider import Layout
from patchbeam.data.sets.base import ImageSet, Normalize, Split, the_file
from patchbeam.data.stimulus import Stimulus
from patchbeam.errors import JobError

_HOME = "https://www.robots.ox.ac.uk/~vgg/data/pets/data"
_LISTS = {"training": "trainval", "validation": "test"}
_CLASSES = 3


class PetsDatabase(Database):
    """The pets of one list: ``image`` uint8 ``(3, S, S)`` and ``mask`` uint8 ``(S, S)``.

    Mask classes are 0 pet, 1 background, 2 border. Images are resized bilinearly, masks to the nearest
    pixel, so that no class appears that is not there.

    Attributes:
        dtypes: a mask's classes fit two bits.
    """

    dtypes: ClassVar[Mapping[str, DType]] = {"mask": DTYPES["uint2"]}

    def __init__(self, folder: Path, listed: str, size: int) -> None:
        """Of the names in ``annotations/LISTED.txt`` below ``folder``."""
        self._folder = folder
        self._listed = listed
        self._size = size
        lines = (folder / "annotations" / f"{listed}.txt").read_text(encoding="utf-8").splitlines()
        self._names = [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]

    @property
    def modalities(self) -> tuple[str, ...]:
        """``image`` and ``mask``."""
        return ("image", "mask")

    @property
    def specs(self) -> Mapping[str, Spec]:
        """What they are."""
        side = self._size
        return {
            "image": Spec(shape=(3, side, side), dtype="uint8", layout="CHW"),
            "mask": Spec(shape=(side, side), dtype="uint8", layout="HW"),
        }

    def __len__(self) -> int:
        return len(self._names)

    def key(self, index: int) -> str:
        """Returns the picture's name."""
        return self._names[index]

    def load(self, index: int) -> Item:
        """Returns the picture and its mask."""
        size = (self._size, self._size)
        image = Stimulus(self.image_path(self._names[index]), mode="RGB", size=size).load()
        source = Stimulus(self.mask_path(self._names[index]), mode=None, size=size, resample="nearest")
        trimap = source.load()
        if trimap.ndim != 2 or trimap.dtype != np.uint8 or not 1 <= trimap.min() <= trimap.max() <= _CLASSES:
            raise DataError(f"{source}: a mask holds 1 (pet), 2 (background) and 3 (border) alone")
        return image, trimap - np.uint8(1)

    def image_path(self, name: str) -> Path:
        """Returns the photograph's path."""
        return self._folder / "images" / f"{name}.jpg"

    def mask_path(self, name: str) -> Path:
        """Returns the trimap's path."""
        return self._folder / "annotations" / "trimaps" / f"{name}.png"

    @property
    def fingerprint(self) -> str:
        """A digest of names and size."""
        return digest("pets", self._names, self._size)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToBatch:
    normalization: Normalization | None
    layout: Layout

    def __call__(self, raw: tuple[Any, ...]) -> SegmentedImage:
        images, masks = raw
        found = scaled_images(images, self.normalization, layout=self.layout)
        classes = np.expand_dims(masks.astype(np.int32), 3 if self.layout == "NHWC" else 1)
        return SegmentedImage(found, classes)


class OxfordPets(ImageSet):
    """7,349 photographs of cats and dogs, each with a mask; batches of float32 ÷ 255 and int32.

    Trained on the list ``trainval``, validated on the list ``test``.
    """

    name = "oxford-pets"
    resources = (
        Resource(
            name="images.tar.gz",
            urls=(f"{_HOME}/images.tar.gz",),
            sha256="67195c5e1c01f1ab5f9b6a5d22b8c27a580d896ece458917e61d459337fa318d",
            size_bytes=791918971,
        ),
        Resource(
            name="annotations.tar.gz",
            urls=(f"{_HOME}/annotations.tar.gz",),
            sha256="52425fb6de5c424942b7626b428656fcbd798db970a937df61750c0f1d358e91",
            size_bytes=19173078,
        ),
    )

    def __init__(
        self, batch_size: int, *, image_size: int = 224, normalize: Normalize = False, **options: Any
    ) -> None:
        """Opens the set; fetches and processes it the first time.

        Args:
            batch_size: items a batch.
            image_size: rows and columns that images and masks are resized to.
            normalize: means and deviations to use; none are published.
            options: ``seed``, ``layout``, ``root``, ``url``, ``digests``, ``offline`` as of every set.
        """
        if isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 1:
            raise JobError(f"image_size: {image_size!r} is not a number of pixels")
        if normalize is True:
            raise JobError(
                "normalize: no means and deviations of this set are published; give your own, or false"
            )
        self.image_size = image_size
        super().__init__(batch_size, normalize=normalize, **options)

    @classmethod
    def process(cls, sources: Mapping[str, Path], target: Path) -> None:
        """Moves pictures, masks and lists into place, after looking that all listed ones are there."""
        images, annotations = sources["images.tar.gz"], sources["annotations.tar.gz"]
        for listed in _LISTS.values():
            the_file(annotations, "annotations", f"{listed}.txt")
        for folder, name in ((images, "images"), (annotations, "annotations")):
            if not (folder / name).is_dir():
                raise DataError(f"the archive has no folder {name}")
            os.replace(folder / name, target / name)
        for listed in _LISTS.values():
            part = PetsDatabase(target, listed, 1)
            if not len(part):
                raise DataError(f"annotations/{listed}.txt names nothing")
            for index in range(len(part)):
                for path in (part.image_path(part.key(index)), part.mask_path(part.key(index))):
                    if not path.is_file():
                        raise DataError(
                            f"annotations/{listed}.txt names {part.key(index)}, and there is no "
                            f"{path.relative_to(target).as_posix()}"
                        )

    def database(self, split: Split = "training") -> PetsDatabase:
        """Returns the pictures and masks of a part."""
        self.check_split(split)
        return PetsDatabase(self.folder, _LISTS[split], self.image_size)

    def to_batch(self) -> Any:
        """Returns what makes batches: float32 images and int32 masks with one channel."""
        return _ToBatch(normalization=self.chosen_normalization(), layout=self.layout)
