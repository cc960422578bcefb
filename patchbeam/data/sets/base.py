"""What every ready-made set shares; a new one says what it is made of and how that becomes arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.arrays import ArrayDatabase, ArrayFile
from patchbeam.data.containers import LabeledImage, Normalization, scaled_images
from patchbeam.data.database import Database
from patchbeam.data.ensure import Resource, ensure
from patchbeam.data.epochs import Epochs
from patchbeam.data.errors import DataError
from patchbeam.data.order import Seed, resolve_seed
from patchbeam.data.provider import Batches, DataProvider, Layout
from patchbeam.errors import JobError, nearest

Split = Literal["training", "validation"]
Normalize = bool | Normalization


@dataclass(frozen=True, slots=True, kw_only=True)
class ToBatch:
    """Makes a batch to train on of raw images and labels.

    Attributes:
        normalization: means and deviations, or ``None``.
        layout: of the images.
        divisor: what raw values are divided by first.
        flatten: whether images become rows of numbers.
    """

    normalization: Normalization | None
    layout: Layout
    divisor: float = 255
    flatten: bool = False

    def __call__(self, raw: tuple[Any, ...]) -> LabeledImage:
        """Returns float32 images and int32 labels."""
        images, labels = raw
        found = scaled_images(images, self.normalization, layout=self.layout, divisor=self.divisor)
        if self.flatten:
            found = found.reshape(len(found), -1)
        return LabeledImage(found, labels.astype(np.int32, copy=False))


class ImageSet(ABC):
    """A labelled set with a training and a validation part, kept in a local cache.

    Made the first time that it is used; later uses read the cache and touch no network. A subclass gives
    ``name``, ``resources`` and ``process``; where that writes other files than :func:`write_items` does,
    ``database`` too.

    Attributes:
        batch_size: items a batch.
        seed: of the shuffles.
        folder: of the processed set.
    """

    name: ClassVar[str]
    """Of its folder in the cache."""
    version: ClassVar[str] = "1"
    """Of the processed form: a change makes it anew."""
    resources: ClassVar[tuple[Resource, ...]] = ()
    """What it is made of."""
    normalization: ClassVar[Normalization | None] = None
    """Published means and deviations of the channels, of values from 0 to 1."""

    def __init__(
        self,
        batch_size: int,
        *,
        seed: Seed = None,
        normalize: Normalize = True,
        layout: Layout = "NHWC",
        root: str | Path | None = None,
        url: str | None = None,
        digests: Mapping[str, str | None] | None = None,
        offline: bool | None = None,
    ) -> None:
        """Opens the set; fetches and processes it the first time.

        Args:
            batch_size: items a batch.
            seed: a number, or a generator of one's own from which it is drawn; ``None`` draws one from
                the system and keeps it in ``seed``.
            normalize: whether to normalise with the published means and deviations, or those to use.
            layout: of batches of images.
            root: of the cache.
            url: one's own mirror: the folder that holds the files, or the only file.
            digests: SHA-256 of files of one's own that are not those published.
            offline: whether nothing may be fetched.

        Raises:
            Offline: it is not in the cache, and nothing may be fetched.
            DownloadFailed: it cannot be fetched, or is not what it should be.
            DataError: what was fetched has not the layout of the set.
            WriteFailed: the cache cannot be written or is full.
            JobError: another argument is none.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer) or batch_size < 1:
            raise JobError(f"batch_size: {batch_size!r} is not a whole number of at least 1")
        if layout not in get_args(Layout):
            raise JobError(f"layout: {layout!r} is neither NCHW nor NHWC")
        self.batch_size = int(batch_size)
        self.layout: Layout = layout
        self._normalize = normalize
        self.seed = resolve_seed(seed)
        self.folder = ensure(
            self.name,
            self.resources,
            self.process,
            version=self.version,
            root=root,
            url=url,
            digests=digests,
            offline=offline,
        )

    @classmethod
    @abstractmethod
    def process(cls, sources: Mapping[str, Path], target: Path) -> None:
        """Fills the folder ``target`` with what the set is read from.

        Args:
            sources: of each resource the folder it was extracted to, or the file.
            target: an empty folder.

        Raises:
            DataError: something is not as it should be.
        """

    def database(self, split: Split = "training") -> Database:
        """Returns the items of a part: raw images ``(channel, row, col)`` and labels.

        Raises:
            JobError: there is no such part.
        """
        self.check_split(split)
        return ArrayDatabase(
            image=ArrayFile(self.folder / f"{split}-image.npy"),
            label=ArrayFile(self.folder / f"{split}-label.npy"),
            layouts={"image": "CHW"},
        )

    @property
    def training(self) -> Epochs:
        """The training part: endless epochs, each reshuffled, every batch full."""
        epochs = Epochs(self.database("training"), self.batch_size, seed=self.seed, layout="NCHW")
        return epochs.map(self.to_batch())

    @property
    def validation(self) -> Batches:
        """The validation part: batches in order, the last one with fewer items kept."""
        return (
            DataProvider(self.database("validation"), self.batch_size, layout="NCHW")
            .epoch(0)
            .map(self.to_batch())
        )

    def to_batch(self) -> Any:
        """Returns what makes batches of raw images and labels."""
        return ToBatch(normalization=self.chosen_normalization(), layout=self.layout)

    def chosen_normalization(self) -> Normalization | None:
        """Returns the means and deviations to use: those given, those published, or none."""
        return self.normalization if isinstance(self._normalize, bool) and self._normalize else self._own()

    def _own(self) -> Normalization | None:
        if isinstance(self._normalize, bool):
            return None
        try:
            mean, std = self._normalize
            return tuple(map(float, mean)), tuple(map(float, std))
        except (TypeError, ValueError):
            raise JobError(
                f"normalize: {self._normalize!r}; give true, false, or (means, standard deviations)"
            ) from None

    @staticmethod
    def check_split(split: str) -> None:
        """Refuses a part that there is not."""
        if split not in get_args(Split):
            raise JobError(
                f"split: {split!r} is neither training nor validation{nearest(str(split), get_args(Split))}"
            )


def write_items(path: Path, shape: tuple[int, ...], dtype: str, parts: Iterable[NDArray[Any]]) -> None:
    """Writes an ``.npy`` file part by part, so that only one is in memory.

    Args:
        path: of the file.
        shape: of the whole array, the item in front.
        dtype: NumPy type of its values.
        parts: stretches of items, in order.

    Raises:
        DataError: they are more or fewer than ``shape`` says, or of another shape or type.
    """
    wanted = np.dtype(dtype)
    with open(path, "wb") as file:
        header = {"descr": np.lib.format.dtype_to_descr(wanted), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        written = 0
        for part in parts:
            if part.shape[1:] != shape[1:] or part.dtype != wanted:
                raise DataError(
                    f"{path.name}: items of {part.shape[1:]} {part.dtype}, not {shape[1:]} {wanted}"
                )
            file.write(np.ascontiguousarray(part).data)
            written += len(part)
        if written != shape[0]:
            raise DataError(f"{path.name}: {written} items where {shape[0]} are due")


def the_file(folder: Path, *names: str) -> Path:
    """Returns a file below an extracted folder.

    Raises:
        DataError: it is not there; lists what is.
    """
    path = folder.joinpath(*names)
    if not path.is_file():
        there = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
        raise DataError(f"the archive has no {'/'.join(names)}; it has {', '.join(there[:5]) or 'nothing'}")
    return path
