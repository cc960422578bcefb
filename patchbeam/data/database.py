"""Databases: sequences of items, each a tuple of values, one a modality.

A database reads nothing before an item is asked for. It has ``__len__`` and ``__getitem__`` and so works
unchanged as a map-style dataset of torch and a source of grain.
"""

from __future__ import annotations

import hashlib
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from patchbeam.data.collate import Item, collate
from patchbeam.data.errors import DataError, note
from patchbeam.data.order import Ints
from patchbeam.errors import JobError, nearest

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What every value of a modality is.

    Attributes:
        shape: sizes of its axes; ``None`` in the place of one that varies; ``None`` when not known.
        dtype: name of its NumPy type; ``None`` when not known.
        layout: what its axes are, a letter each (``CHW``); ``None`` when not known.
    """

    shape: tuple[int | None, ...] | None = None
    dtype: str | None = None
    layout: str | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and self.shape is not None and len(self.layout) != len(self.shape):
            raise JobError(f"layout {self.layout!r} for a shape of {len(self.shape)} axes, {self.shape}")

    def __str__(self) -> str:
        """Returns type, axes and sizes, as far as they are known: ``float32 CHW (4, 320, 320)``."""
        known = (self.dtype, self.layout, self.shape)
        return " ".join(str(part) for part in known if part is not None) or "anything"

    def mismatch(self, value: Any) -> str | None:
        """Returns what is wrong with a value, or ``None``."""
        shape, dtype = getattr(value, "shape", ()), getattr(value, "dtype", None)
        if self.shape is not None and (
            len(shape) != len(self.shape)
            or any(want is not None and have != want for have, want in zip(shape, self.shape, strict=True))
        ):
            return f"shape {tuple(shape)}, but the database says {self.shape}"
        if self.dtype is not None and dtype != np.dtype(self.dtype):
            return f"type {dtype or type(value).__name__}, but the database says {self.dtype}"
        return None


class Database(Sequence[Item], ABC):
    """Items by number. A subclass gives ``modalities``, ``__len__`` and ``load``."""

    joint_batches = False
    """Whether ``load_batch`` is more than collating the items one by one."""

    @property
    @abstractmethod
    def modalities(self) -> tuple[str, ...]:
        """Names of the values of an item, in order."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def load(self, index: int) -> Item:
        """Returns the values of an item, not yet checked; ``index`` is in range."""

    def __repr__(self) -> str:
        """Returns what it is for people: the class, how many items, and their values."""
        count = len(self)
        specs = self.specs
        values = [f"{name}: {specs[name]}" if name in specs else name for name in self.modalities]
        return f"{type(self).__name__}({count} item{'' if count == 1 else 's'} of {', '.join(values)})"

    @property
    def specs(self) -> Mapping[str, Spec]:
        """What is known of the modalities."""
        return {}

    def key(self, index: int) -> Hashable:
        """Returns what an item is called where it comes from; its number unless there is more to say."""
        return index

    @property
    def keys(self) -> Sequence[Hashable]:
        """The keys of all items, found as they are asked for."""
        return Lazy(self.key, len(self))

    @property
    def fingerprint(self) -> str:
        """A digest of which items these are, by which a saved position knows its database."""
        return digest(type(self).__name__, len(self), self.modalities)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Database: ...
    def __getitem__(self, index: int | slice) -> Item | Database:
        """Returns an item: loaded, transformed and checked; of a slice a view.

        Raises:
            DataError: it is not what ``specs`` say; names item and modality.
            IndexError: there is no such item.
        """
        if isinstance(index, slice):
            return self.select(range(len(self))[index])
        at = self._at(index)
        try:
            item = self.load(at)
        except Exception as error:
            note(error, f"item {at} ({self.key(at)!r}) of {type(self).__name__}")
            raise
        self._check(at, item)
        return item

    def load_batch(self, indices: Ints | Sequence[int]) -> tuple[Any, ...]:
        """Returns the items of a batch, collated; every array is new in memory."""
        return collate(
            [self[int(i)] for i in indices], names=self.modalities, indices=[int(i) for i in indices]
        )

    def with_transforms(self, *, joint: Sequence[Callable[..., Any]] = (), **chains: Any) -> Database:
        """Returns a view whose items are transformed.

        Args:
            joint: functions of all modalities that return all of them, run after the chains: the same
                crop or flip for an image and its mask.
            chains: for each modality a function, or several, each of one value. A function marked
                with :class:`~patchbeam.data.randomness.Random` gets a generator first.

        Raises:
            JobError: there is no such modality.
        """
        from patchbeam.data.transforms import TransformedView

        lists = {name: (chain,) if callable(chain) else tuple(chain) for name, chain in chains.items()}
        return TransformedView(self, lists, (joint,) if callable(joint) else tuple(joint))

    def select(self, indices: Iterable[int]) -> Database:
        """Returns a view of chosen items, in the order given.

        Raises:
            IndexError: one is not there.
        """
        from patchbeam.data.views import SelectedView

        return SelectedView(self, indices)

    def take(self, count: int) -> Database:
        """Returns a view of the first ``count`` items, or of all when there are fewer."""
        if count < 0:
            raise JobError(f"take({count}): give a count of at least 0")
        return self.select(range(min(count, len(self))))

    def concat(self, *others: Database) -> Database:
        """Returns a view of this database's items followed by the others'.

        Raises:
            DataError: modalities differ.
        """
        from patchbeam.data.views import ConcatenatedView

        return ConcatenatedView((self, *others))

    def zip(self, *others: Database) -> Database:
        """Returns a view whose items have the modalities of all databases side by side.

        Raises:
            DataError: lengths differ, or two modalities have one name.
        """
        from patchbeam.data.views import ZippedView

        return ZippedView((self, *others))

    def cache(self) -> Database:
        """Returns a view that keeps each item in memory once it has been loaded; its arrays are read-only."""
        from patchbeam.data.transforms import CachedView

        return CachedView(self)

    def modality(self, name: str) -> int:
        """Returns the position of a modality.

        Raises:
            JobError: there is none of this name.
        """
        if name not in self.modalities:
            raise JobError(
                f"modality {name!r}: this database has {', '.join(self.modalities)}"
                f"{nearest(name, self.modalities)}"
            )
        return self.modalities.index(name)

    def _repr_html_(self) -> str:
        from patchbeam.repr import database_html

        return database_html(self)

    def _at(self, index: int) -> int:
        at = operator.index(index)
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(f"item {index} of a database of {len(self)}")
        return at

    def _check(self, index: int, item: Item) -> None:
        names = self.modalities
        if not isinstance(item, tuple) or len(item) != len(names):
            found = f"{len(item)} values" if isinstance(item, tuple) else f"a {type(item).__name__}"
            raise DataError(
                f"item {index} ({self.key(index)!r}): load gave {found}, but the modalities are "
                f"{', '.join(names)}"
            )
        specs = self.specs
        for name, value in zip(names, item, strict=True):
            wrong = specs[name].mismatch(value) if name in specs else None
            if wrong is not None:
                raise DataError(f"item {index} ({self.key(index)!r}), modality {name!r}: {wrong}")


class Lazy(Sequence[T]):
    """A sequence whose values are computed when asked for."""

    def __init__(self, function: Callable[[int], T], count: int) -> None:
        """Of ``function(0) … function(count - 1)``."""
        self._function = function
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        """Returns one value, or a list of several."""
        if isinstance(index, slice):
            return [self._function(i) for i in range(self._count)[index]]
        return self._function(range(self._count)[index])


def digest(*parts: object) -> str:
    """Returns a short digest of values with a stable ``repr``."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
