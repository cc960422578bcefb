"""Databases of whole arrays: in memory, or in ``.npy`` files that stay on disk."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError
from patchbeam.data.memory import MEMORY
from patchbeam.data.order import Ints
from patchbeam.errors import JobError, ReadFailed


class ArrayFile:
    """An array of items in an ``.npy`` file, read item by item.

    Files are read, not mapped: a pass over a set larger than memory then takes the memory of one batch
    and not of everything touched. Threads may share one; it pickles as its path.

    Attributes:
        path: of the file.
        shape: of the array; the first axis is the item.
        dtype: of its values.
    """

    def __init__(self, path: str | Path) -> None:
        """Reads the header.

        Raises:
            DataError: it is no ``.npy`` file in C order, or is cut short.
            ReadFailed: it cannot be read.
        """
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                version = np.lib.format.read_magic(file)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                self.shape, fortran, self.dtype = read(file)
                self._start = file.tell()
                size = os.fstat(file.fileno()).st_size
        except ValueError as error:
            raise DataError(f"{self.path}: no array in the npy format: {error}") from None
        except OSError as error:
            raise ReadFailed(f"{self.path}: {error.strerror}") from error
        if fortran or self.dtype.hasobject or not self.shape:
            raise DataError(f"{self.path}: it must be an array of numbers in C order with at least one axis")
        self._item_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        if size != self._start + self.shape[0] * self._item_bytes:
            raise DataError(
                f"{self.path}: {size} bytes, and an array of {self.shape} {self.dtype} takes "
                f"{self._start + self.shape[0] * self._item_bytes}; it is cut short or damaged"
            )
        self._lock = threading.Lock()
        self._descriptor: int | None = None

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: int) -> Any:
        """Returns an item, new in memory."""
        out = np.empty((1, *self.shape[1:]), self.dtype)
        self.read_into(out, [index])
        return out[0]

    def take(self, indices: Ints | Sequence[int]) -> NDArray[Any]:
        """Returns several items in one new array."""
        out = MEMORY.empty((len(indices), *self.shape[1:]), self.dtype)
        self.read_into(out, indices)
        return out

    def read_into(self, out: NDArray[Any], indices: Ints | Sequence[int]) -> None:
        """Reads items into a C-ordered array of as many.

        Raises:
            ReadFailed: the file ends early.
        """
        descriptor = self._open()
        size = self._item_bytes
        if not size or not len(indices):
            return
        view = out.reshape(-1).view(np.uint8).data
        numbers = np.asarray(indices, np.int64)
        # neighbours in the file are read at once
        ends = np.flatnonzero(np.diff(numbers) != 1) + 1
        begin = 0
        for end in (*ends.tolist(), len(numbers)):
            place = self._start + int(numbers[begin]) * size
            at, stop = begin * size, end * size
            while at < stop:
                count = os.preadv(descriptor, [view[at:stop]], place)
                if count <= 0:
                    raise ReadFailed(f"{self.path}: ends before item {int(numbers[begin])}; it was cut short")
                at += count
                place += count
            begin = end

    def _open(self) -> int:
        with self._lock:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            return self._descriptor

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def __getstate__(self) -> str:
        return str(self.path)

    def __setstate__(self, path: str) -> None:
        self.__init__(path)  # type: ignore[misc]


class ArrayDatabase(Database):
    """Arrays side by side: item i is the i-th of each."""

    joint_batches = True

    def __init__(
        self,
        arrays: Mapping[str, NDArray[Any] | ArrayFile | str | Path | Sequence[Any]] | None = None,
        *,
        layouts: Mapping[str, str] | None = None,
        dtypes: Mapping[str, DType | str] | None = None,
        keys: Sequence[Hashable] | None = None,
        **named: Any,
    ) -> None:
        """Takes arrays, or paths of ``.npy`` files, by name; nothing is copied.

        Args:
            arrays: modality → array, the item in front.
            layouts: modality → what the axes of an item are, such as ``CHW``.
            dtypes: modality → the type of its values where that is narrower than the array's: ``uint1``
                of a mask. It says how a conversion packs them.
            keys: what the items are called; default their numbers.
            named: more arrays: ``ArrayDatabase(image=images, label=labels)``.

        Raises:
            JobError: there are no arrays, lengths differ, or a name is not that of an array.
        """
        given = {**(arrays or {}), **named}
        if not given:
            raise JobError("ArrayDatabase: give at least one array, such as image=images")
        self._arrays: dict[str, NDArray[Any] | ArrayFile] = {}
        for name, array in given.items():
            if isinstance(array, str | Path):
                array = ArrayFile(array)
            self._arrays[name] = array if isinstance(array, ArrayFile) else np.asarray(array)
            if not self._arrays[name].shape:
                raise JobError(f"ArrayDatabase: {name!r} has no axis of items; give arrays of (item, …)")
        counts = {name: len(array) for name, array in self._arrays.items()}
        if len(set(counts.values())) > 1:
            raise JobError(f"ArrayDatabase: arrays of different length: {counts}; give one entry an item")
        for what, names in (("layouts", layouts), ("dtypes", dtypes)):
            unknown = [name for name in names or {} if name not in self._arrays]
            if unknown:
                raise JobError(f"{what}: no array {unknown[0]!r}; there are {', '.join(self._arrays)}")
        self._layouts = dict(layouts or {})
        self.dtypes = {name: DType.of(dtype) for name, dtype in (dtypes or {}).items()}
        self._keys = keys
        if keys is not None and len(keys) != len(self):
            raise JobError(f"keys: {len(keys)} for {len(self)} items")

    @property
    def modalities(self) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(self._arrays)

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Shape and type of the items."""
        return {
            name: Spec(shape=tuple(array.shape[1:]), dtype=array.dtype.name, layout=self._layouts.get(name))
            for name, array in self._arrays.items()
            if array.dtype.kind in "biuf"
        }

    def __len__(self) -> int:
        return len(next(iter(self._arrays.values())))

    def load(self, index: int) -> Item:
        """Returns the item, new in memory."""
        return tuple(
            array[index] if isinstance(array, ArrayFile) or array.ndim == 1 else array[index].copy()
            for array in self._arrays.values()
        )

    def load_batch(self, indices: Ints | Sequence[int]) -> tuple[Any, ...]:
        """Returns the items of a batch, gathered from each array at once."""
        numbers = np.asarray(indices, np.int64)
        if numbers.size and not (int(numbers.min()) >= 0 and int(numbers.max()) < len(self)):
            raise IndexError(
                f"items {int(numbers.min())} to {int(numbers.max())} of a database of {len(self)}"
            )
        return tuple(_gathered(array, numbers) for array in self._arrays.values())

    def key(self, index: int) -> Hashable:
        """Returns what an item is called."""
        return index if self._keys is None else self._keys[index]

    @property
    def fingerprint(self) -> str:
        """A digest of names, shapes and types, and for files of their names."""
        parts = [
            (name, tuple(a.shape), a.dtype.str, a.path.name if isinstance(a, ArrayFile) else "")
            for name, a in self._arrays.items()
        ]
        return digest("arrays", parts)


def _gathered(array: NDArray[Any] | ArrayFile, numbers: Ints) -> Any:
    if isinstance(array, ArrayFile):
        return array.take(numbers)
    if array.dtype.kind not in "biuf":
        return array[numbers].tolist()
    out = MEMORY.empty((len(numbers), *array.shape[1:]), array.dtype)
    return np.take(array, numbers, axis=0, out=out, mode="clip")
