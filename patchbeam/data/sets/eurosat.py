"""EuroSAT: 27,000 Sentinel-2 scenes of 64 × 64 pixels in ten classes of land cover."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.arrays import ArrayDatabase, ArrayFile
from patchbeam.data.containers import Normalization
from patchbeam.data.database import Database
from patchbeam.data.ensure import Resource
from patchbeam.data.errors import DataError
from patchbeam.data.order import check_seed
from patchbeam.data.sets.base import ImageSet, Split, ToBatch, write_items
from patchbeam.data.split import split as split_database
from patchbeam.data.stimulus import Stimulus
from patchbeam.data.views import SelectedView
from patchbeam.errors import JobError

Bands = Literal["rgb", "all"]

_HOME = "http://madm.dfki.de/files/sentinel"
_SHAPES: dict[str, tuple[int, ...]] = {"rgb": (3, 64, 64), "all": (13, 64, 64)}
_RESOURCES = {
    "rgb": Resource(
        name="EuroSAT.zip",
        urls=(f"{_HOME}/EuroSAT.zip",),
        sha256="8ebea626349354c5328b142b96d0430e647051f26efc2dc974c843f25ecf70bd",
        size_bytes=94280567,
    ),
    "all": Resource(
        name="EuroSATallBands.zip",
        urls=(f"{_HOME}/EuroSATallBands.zip",),
        sha256="751f070f9bffa2eed48b24ca2dd0b02959280c08837e8c9a5532a67ba611df59",
        size_bytes=2067725275,
    ),
}


class EuroSAT(ImageSet):
    """Scenes and their land cover; colours (values ÷ 255) or all 13 bands.

    The set has no parts of its own: they are a stratified split, the same for the same ``split_seed``.
    All bands are normalised with the statistics of the training part.

    Attributes:
        classes: names of the classes, sorted; a label is the position in it.
    """

    name = "eurosat"

    def __init__(
        self,
        batch_size: int,
        *,
        bands: Bands = "rgb",
        validation_fraction: float = 0.2,
        split_seed: int = 0,
        **options: Any,
    ) -> None:
        """Opens the set; fetches and processes it the first time.

        Args:
            batch_size: items a batch.
            bands: ``rgb``, or ``all`` 13 (needs rasterio the first time).
            validation_fraction: share of each class that is for validation.
            split_seed: of the split into parts.
            options: ``seed``, ``normalize``, ``layout``, ``root``, ``url``, ``digests``, ``offline`` as of
                every set.
        """
        if bands not in get_args(Bands):
            raise JobError(f"bands: {bands!r} is neither rgb nor all")
        self.bands = bands
        self.resources = (_RESOURCES[bands],)  # type: ignore[misc]  # which archive depends on the bands
        self._fractions = {"training": 1 - validation_fraction, "validation": validation_fraction}
        self._split_seed = check_seed(split_seed)
        super().__init__(batch_size, **options)
        about = json.loads((self.folder / "classes.json").read_text(encoding="utf-8"))
        self.classes: tuple[str, ...] = tuple(about)

    @classmethod
    def process(cls, sources: Mapping[str, Path], target: Path) -> None:
        """Decodes every scene into one array, with the statistics of each beside it."""
        name, folder = next(iter(sources.items()))
        bands = "rgb" if name == _RESOURCES["rgb"].name else "all"
        suffixes = (".jpg", ".jpeg") if bands == "rgb" else (".tif", ".tiff")
        paths = sorted(
            (path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.name[0] != "."),
            key=lambda path: (path.parent.name, path.name),
        )
        classes = sorted({path.parent.name for path in paths})
        if not paths or len({path.parent.parent for path in paths}) > 1:
            raise DataError(
                f"{name}: it has not one folder that holds a folder of {suffixes[0]} files for each class"
            )
        shape = (len(paths), *_SHAPES[bands])
        moments = np.empty((2, len(paths), shape[1]), np.float64)
        dtype = "uint8" if bands == "rgb" else "uint16"
        write_items(target / "image.npy", shape, dtype, _scenes(paths, bands, moments))
        labels = np.array([classes.index(path.parent.name) for path in paths], np.int32)
        np.save(target / "label.npy", labels)
        np.save(target / "moments.npy", moments)
        (target / "classes.json").write_text(json.dumps(classes), encoding="utf-8")

    def database(self, split: Split = "training") -> Database:
        """Returns the items of a part: raw scenes ``(band, row, col)`` and int32 labels."""
        self.check_split(split)
        labels = np.load(self.folder / "label.npy")
        whole = ArrayDatabase(
            image=ArrayFile(self.folder / "image.npy"), label=labels, layouts={"image": "CHW"}
        )
        return split_database(whole, self._fractions, self._split_seed, stratify=labels.tolist())[split]

    def chosen_normalization(self) -> Normalization | None:
        """Returns what is given; for all bands by default the statistics of the training part."""
        if self.bands == "rgb" or self._normalize is not True:
            return self._own()
        part = self.database("training")
        assert isinstance(part, SelectedView)
        means, squares = np.load(self.folder / "moments.npy")[:, part.indices]
        mean = means.mean(axis=0)
        pixels = 64 * 64
        variance = (squares.sum(axis=0) + pixels * ((means - mean) ** 2).sum(axis=0)) / (pixels * len(means))
        deviation = np.sqrt(variance)
        deviation[deviation == 0] = 1  # a constant band becomes 0 everywhere
        return tuple(mean.tolist()), tuple(deviation.tolist())

    def to_batch(self) -> Any:
        """Returns what makes batches of raw scenes and labels."""
        divisor = 255 if self.bands == "rgb" else 1
        return ToBatch(normalization=self.chosen_normalization(), layout=self.layout, divisor=divisor)

    normalization: ClassVar[Normalization | None] = None


def _scenes(paths: list[Path], bands: str, moments: NDArray[np.float64]) -> Iterator[NDArray[Any]]:
    """Yields scene after scene; leaves mean and sum of squared deviations of each band in ``moments``."""
    for at, path in enumerate(paths):
        scene = Stimulus(path, mode="RGB").load() if bands == "rgb" else Stimulus(path).load()
        wanted = np.dtype(np.uint8 if bands == "rgb" else np.uint16)
        if scene.shape != _SHAPES[bands] or scene.dtype != wanted:
            raise DataError(f"{path.name}: {scene.shape} {scene.dtype}; {_SHAPES[bands]} {wanted} is due")
        numbers = scene.reshape(len(scene), -1).astype(np.float64)
        moments[0, at] = numbers.mean(axis=1)
        moments[1, at] = ((numbers - moments[0, at][:, np.newaxis]) ** 2).sum(axis=1)
        yield scene[np.newaxis]
