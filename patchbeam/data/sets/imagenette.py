"""Imagenette and Imagewoof: ten classes of ImageNet each, easy and hard to tell apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from patchbeam.data.containers import Normalization
from patchbeam.data.database import Database
from patchbeam.data.ensure import Resource
from patchbeam.data.errors import DataError
from patchbeam.data.sets.base import ImageSet, Split
from patchbeam.data.stimuli import ImageFolder
from patchbeam.errors import JobError

Size = Literal["full", 160, 320]

_HOME = "https://s3.amazonaws.com/fast-ai-imageclas"
_FOLDERS = {"training": "train", "validation": "val"}


class _Imagenette(ImageSet):
    normalization: ClassVar[Normalization | None] = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    stem: ClassVar[str]
    published: ClassVar[Mapping[Size, tuple[int, str]]] = {}
    """Size and SHA-256 of the archives of which they are published."""

    def __init__(self, batch_size: int, *, size: Size = 320, output_size: int = 224, **options: Any) -> None:
        """Opens the set; fetches and processes it the first time.

        Args:
            batch_size: items a batch.
            size: which archive: pixels of the shorter side, 160 or 320, or ``full``.
            output_size: rows and columns that images are resized to (bilinear) when they are read.
            options: ``seed``, ``normalize``, ``layout``, ``root``, ``url``, ``digests``, ``offline`` as of
                every set.
        """
        if size not in get_args(Size):
            raise JobError(f"size: {size!r} is none of full, 160, 320")
        if isinstance(output_size, bool) or not isinstance(output_size, int) or output_size < 1:
            raise JobError(f"output_size: {output_size!r} is not a number of pixels")
        self.output_size = output_size
        name = f"{self.stem}.tgz" if size == "full" else f"{self.stem}-{size}.tgz"
        size_bytes, sha256 = self.published.get(size, (None, None))
        self.resources = (  # type: ignore[misc]  # which archive it is depends on the size
            Resource(name=name, urls=(f"{_HOME}/{name}",), sha256=sha256, size_bytes=size_bytes),
        )
        super().__init__(batch_size, **options)

    @classmethod
    def process(cls, sources: Mapping[str, Path], target: Path) -> None:
        """Moves the two parts into place; images stay the files that they are."""
        folder = next(iter(sources.values()))
        inside = [path.parent for path in sorted(folder.rglob("train")) if (path.parent / "val").is_dir()]
        if not inside:
            raise DataError("the archive has no folders train and val side by side")
        classes = []
        for name in _FOLDERS.values():
            os.replace(inside[0] / name, target / name)
            classes.append(ImageFolder(target / name).classes)
        if classes[0] != classes[1]:
            raise DataError(f"train has the classes {', '.join(classes[0])}; val has {', '.join(classes[1])}")

    def database(self, split: Split = "training") -> Database:
        """Returns the items of a part: uint8 ``(3, output_size, output_size)`` and int32 labels.

        Labels are positions in the sorted folder names; images are decoded when they are asked for.
        """
        self.check_split(split)
        return ImageFolder(self.folder / _FOLDERS[split], size=self.output_size)


class Imagenette(_Imagenette):
    """Ten classes of ImageNet that are easy to tell apart."""

    name = "imagenette"
    stem = "imagenette"
    published: ClassVar[Mapping[Size, tuple[int, str]]] = {
        320: (341289752, "0e3ac85d7f3fd0a63d5e27d85c68511be9ac4dae260345b6f7434a0d4fa24b3f"),
        160: (98752094, "4bacf19aa3f2454e330ac366c98ac1e470ccc6bebca8ff63ecc7f339cb2ead11"),
    }


class Imagewoof(_Imagenette):
    """Ten breeds of dogs; no digest is published, so the first download's is kept in mind."""

    name = "imagewoof"
    stem = "imagewoof"
