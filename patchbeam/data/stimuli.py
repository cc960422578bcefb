"""Databases of single files: any list of stimuli, and folders of images with a folder a class."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.loaders import suffixes_of
from patchbeam.data.stimulus import Stimulus
from patchbeam.errors import JobError

_IMAGES = ("png", "jpeg", "bmp", "gif", "webp", "pnm", "geotiff", "npy")


class StimuliDatabase(Database):
    """Items that are tuples of stimuli, one a modality, each loaded when it is asked for."""

    def __init__(
        self,
        items: Mapping[Hashable, Sequence[Any]] | Iterable[Sequence[Any]],
        modalities: Sequence[str],
        *,
        specs: Mapping[str, Spec] | None = None,
        dtypes: Mapping[str, DType | str] | None = None,
    ) -> None:
        """Takes the items; loads nothing.

        Args:
            items: key → stimuli, or the stimuli of each item; what is no :class:`Stimulus` becomes one.
            modalities: their names, in order.
            specs: what the values of a modality are, where it is known.
            dtypes: modality → a type narrower than that of its values, for conversions.

        Raises:
            JobError: an item has another number of stimuli, or two items have one key.
        """
        self._modalities = tuple(modalities)
        pairs = list(items.items()) if isinstance(items, Mapping) else list(enumerate(items))
        self._keys: list[Hashable] = [key for key, _ in pairs]
        self._items: list[tuple[Stimulus, ...]] = []
        for key, row in pairs:
            values = row if isinstance(row, tuple | list) else (row,)
            if len(values) != len(self._modalities):
                raise JobError(
                    f"item {key!r}: {len(values)} stimuli for the modalities {', '.join(self._modalities)}"
                )
            self._items.append(tuple(v if isinstance(v, Stimulus) else Stimulus(v) for v in values))
        self._specs = dict(specs or {})
        for name in {**self._specs, **(dtypes or {})}:
            self.modality(name)
        self.dtypes = {name: DType.of(dtype) for name, dtype in (dtypes or {}).items()}

    @property
    def modalities(self) -> tuple[str, ...]:
        """As they were named."""
        return self._modalities

    @property
    def specs(self) -> Mapping[str, Spec]:
        """As they were given."""
        return self._specs

    def __len__(self) -> int:
        return len(self._items)

    def key(self, index: int) -> Hashable:
        """Returns the item's key."""
        return self._keys[index]

    def load(self, index: int) -> Item:
        """Returns the loaded stimuli."""
        return tuple(stimulus.load() for stimulus in self._items[index])

    @property
    def fingerprint(self) -> str:
        """A digest of keys and sources."""
        return digest("stimuli", self._modalities, [repr(key) for key in self._keys])


class ImageFolder(Database):
    """Images in folders, a folder a class: ``(image, label)``.

    The label is the position of the folder's name among all, sorted; hidden files are skipped. Within a
    class images are in the order of their paths.

    Attributes:
        root: the folder.
        classes: names of the folders, sorted; ``label`` is the position in it.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        size: int | tuple[int, int] | None = None,
        mode: str | None = "RGB",
        classes: Sequence[str] | None = None,
        choose: Callable[[str], bool] | None = None,
    ) -> None:
        """Lists the files; loads none.

        Args:
            root: holds a folder for each class.
            size: ``height, width``, or one number for both, that images are resized to (bilinear).
            mode: what images are converted to: ``RGB``, ``L``; ``None`` leaves them as they are.
            classes: names of the classes; default: the folders that there are.
            choose: given a path from ``root``, whether the file belongs to the set.

        Raises:
            JobError: there is no such folder, or a class has none.
            EmptyDatabase: there are no images.
        """
        self.root = Path(root)
        if not self.root.is_dir():
            raise JobError(
                f"{self.root}: there is no such folder; give one that holds a folder for each class"
            )
        found = sorted(p.name for p in self.root.iterdir() if p.is_dir() and not p.name.startswith("."))
        self.classes = tuple(found if classes is None else classes)
        missing = [name for name in self.classes if name not in found]
        if missing:
            raise JobError(f"{self.root}: no folder of the class {missing[0]!r}; it has {', '.join(found)}")
        self._size = (size, size) if isinstance(size, int) else size
        self._mode = mode
        suffixes = suffixes_of(_IMAGES)
        self._paths: list[str] = []
        labels: list[int] = []
        for label, name in enumerate(self.classes):
            paths = sorted(
                path.relative_to(self.root).as_posix()
                for path in (self.root / name).rglob("*")
                if path.suffix.lower() in suffixes
                and not any(part.startswith(".") for part in path.relative_to(self.root).parts)
            )
            paths = [path for path in paths if choose is None or choose(path)]
            self._paths += paths
            labels += [label] * len(paths)
        if not self._paths:
            raise EmptyDatabase(f"{self.root}: there are no images in the folders {', '.join(self.classes)}")
        self.labels = np.array(labels, np.int32)

    @property
    def modalities(self) -> tuple[str, ...]:
        """``image`` and ``label``."""
        return ("image", "label")

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Of the images what size and mode say; labels are int32."""
        label = Spec(shape=(), dtype="int32")
        if self._mode is None:
            return {"label": label}
        size: tuple[int | None, int | None] = self._size or (None, None)
        shape = size if self._mode == "L" else (3, *size)
        layout = "HW" if self._mode == "L" else "CHW"
        if self._mode not in ("L", "RGB"):
            return {"label": label}
        return {"image": Spec(shape=shape, dtype="uint8", layout=layout), "label": label}

    def __len__(self) -> int:
        return len(self._paths)

    def key(self, index: int) -> str:
        """Returns the path from the root."""
        return self._paths[index]

    def load(self, index: int) -> Item:
        """Returns the image, uint8 ``(channel, row, col)`` for RGB, and its label."""
        stimulus = Stimulus(self.root / self._paths[index], **self._options(self._paths[index]))
        value = stimulus.load()
        if not isinstance(value, np.ndarray):
            raise DataError(f"{stimulus}: a {type(value).__name__} is no image")
        return value, np.int32(self.labels[index])

    def _options(self, path: str) -> dict[str, Any]:
        if path.lower().endswith((".tif", ".tiff", ".npy", ".pgm", ".ppm", ".pnm")):
            return {}
        options: dict[str, Any] = {"mode": self._mode}
        return options if self._size is None else {**options, "size": self._size}

    @property
    def fingerprint(self) -> str:
        """A digest of the paths and of how images are read."""
        return digest("folder", self._paths, self._size, self._mode)
