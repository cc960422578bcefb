"""Batches of a database, composed when they are asked for."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import numpy as np

from patchbeam.data.collate import Collate
from patchbeam.data.database import Database
from patchbeam.data.errors import EmptyDatabase
from patchbeam.data.memory import MEMORY
from patchbeam.data.order import FileOrder, Ints, Seed, ShuffledOrder, check_seed, resolve_seed
from patchbeam.data.randomness import composing
from patchbeam.errors import JobError, nearest

Layout = Literal["NCHW", "NHWC"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How items become batches; checked when it is made.

    Attributes:
        database: what items are read from.
        batch_size: items a batch (of all ranks together).
        drop_last: whether a last batch with fewer items is left out.
        layout: where batches of images have their channels.
        collate: makes a batch of items in the place of :func:`~patchbeam.data.collate.collate`.
        functions: run on each batch, one after the other.

    Raises:
        JobError: batch size below 1, an unknown layout, or with ``drop_last`` fewer items than one batch.
        EmptyDatabase: there are no items.
    """

    database: Database
    batch_size: int
    drop_last: bool
    layout: Layout = "NCHW"
    collate: Collate | None = None
    functions: tuple[Callable[[Any], Any], ...] = ()

    def __post_init__(self) -> None:
        size = self.batch_size
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise JobError(f"batch_size: {size!r} is not a whole number of at least 1")
        if self.layout not in ("NCHW", "NHWC"):
            raise JobError(
                f"layout: {self.layout!r} is neither NCHW nor "
                f"NHWC{nearest(str(self.layout), ('NCHW', 'NHWC'))}"
            )
        count = len(self.database)
        if count == 0:
            raise EmptyDatabase(
                "the database is empty: there is nothing to make batches of; give one that holds items"
            )
        if self.drop_last and count < size:
            raise JobError(
                f"batch_size: {size} is more than the {count} items of the database, and with drop_last "
                "there "
                "would be no batch; give a smaller batch or drop_last=False"
            )

    @property
    def batch_count(self) -> int:
        """Batches an epoch."""
        count = len(self.database)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def with_function(self, function: Callable[[Any], Any]) -> Recipe:
        """Returns the recipe with one more function."""
        return replace(self, functions=(*self.functions, function))

    def compose(self, indices: Ints, seed: int, epoch: int) -> Any:
        """Reads and collates the items of a batch: these and no others."""
        database = self.database
        with composing(seed, epoch):
            if self.collate is not None:
                batch = self.collate([database[int(i)] for i in indices])
            else:
                batch = tuple(
                    _arranged(value, database, name, self.layout)
                    for name, value in zip(database.modalities, database.load_batch(indices), strict=True)
                )
            for function in self.functions:
                batch = function(batch)
        return batch


def _arranged(value: Any, database: Database, name: str, layout: Layout) -> Any:
    spec = database.specs.get(name)
    have = spec.layout if spec is not None else None
    if have is None and isinstance(value, np.ndarray) and value.ndim == 4:
        have = "CHW"
    if not isinstance(value, np.ndarray) or have not in ("CHW", "HWC") or have == layout[1:]:
        return value
    moved = np.moveaxis(value, 1, 3) if layout == "NHWC" else np.moveaxis(value, 3, 1)
    out = MEMORY.empty(moved.shape, moved.dtype)
    np.copyto(out, moved)
    return out


class Batches(Sequence[Any]):
    """The batches of one epoch. Nothing is read, and no order computed, before one is asked for.

    Attributes:
        recipe: how they are made.
        seed: of the run.
        epoch: which epoch this is.
    """

    def __init__(self, recipe: Recipe, order: Callable[[], Ints], *, seed: int = 0, epoch: int = 0) -> None:
        """Takes the items in the order that ``order()`` gives."""
        self.recipe = recipe
        self.seed = seed
        self.epoch = epoch
        self._make_order = order
        self._order: Ints | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.recipe.batch_count

    def indices(self, batch: int) -> Ints:
        """Returns which items a batch holds, int64 ``(item,)``.

        Raises:
            IndexError: there is no such batch.
        """
        at = operator.index(batch)
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(f"batch {batch} of an epoch of {len(self)}")
        with self._lock:
            if self._order is None:
                self._order = self._make_order()
            order = self._order
        return order[at * self.recipe.batch_size : (at + 1) * self.recipe.batch_size]

    @overload
    def __getitem__(self, batch: int) -> Any: ...
    @overload
    def __getitem__(self, batch: slice) -> Sequence[Any]: ...
    def __getitem__(self, batch: int | slice) -> Any:
        """Returns a batch, composed now and new in memory; of a slice a lazy sequence of them."""
        if isinstance(batch, slice):
            from patchbeam.data.database import Lazy

            chosen = range(len(self))[batch]
            return Lazy(lambda at: self[chosen[at]], len(chosen))
        return self.recipe.compose(self.indices(batch), self.seed, self.epoch)

    def get_item(self, batch: int) -> Any:
        """Returns a batch: ``batches[batch]`` under the name that data providers give it."""
        return self[batch]

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches in order."""
        return (self[at] for at in range(len(self)))

    def map(self, function: Callable[[Any], Any]) -> Batches:
        """Returns batches that ``function`` is run on."""
        return Batches(
            self.recipe.with_function(function), self._make_order, seed=self.seed, epoch=self.epoch
        )

    def __getstate__(self) -> tuple[Any, ...]:
        return self.recipe, self._make_order, self.seed, self.epoch

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        recipe, order, seed, epoch = state
        self.__init__(recipe, order, seed=seed, epoch=epoch)  # type: ignore[misc]


class DataProvider(Sequence[Any]):
    """Composes the batches of a database.

    Not shuffled, its batches are the items in file order, the last batch with fewer kept: what is
    predicted from them can go straight to the import. Shuffled, ``provider[k]`` belongs to epoch 0 and
    every loop over the provider is the next epoch.

    Attributes:
        recipe: how batches are made.
        shuffle: whether items are shuffled.
        seed: of the run.
        next_epoch: the epoch that the next loop is.
    """

    def __init__(
        self,
        database: Database,
        batch_size: int,
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: Seed = None,
        layout: Layout = "NCHW",
        collate: Collate | None = None,
    ) -> None:
        """Checks the arguments; reads nothing.

        Args:
            database: what items are read from.
            batch_size: items a batch.
            shuffle: whether to shuffle.
            drop_last: whether to leave out a last batch with fewer items.
            seed: of the shuffles; ``None`` draws one from the system and keeps it in ``seed``.
            layout: ``NCHW`` or ``NHWC``, of modalities that are images.
            collate: makes a batch of items, in the place of stacking each modality.
        """
        self.recipe = Recipe(
            database=database, batch_size=batch_size, drop_last=drop_last, layout=layout, collate=collate
        )
        self.shuffle = shuffle
        self.seed = resolve_seed(seed) if shuffle or seed is not None else 0
        self.next_epoch = 0
        self._first: Batches | None = None

    @property
    def database(self) -> Database:
        """What items are read from."""
        return self.recipe.database

    def epoch(self, number: int) -> Batches:
        """Returns the batches of one epoch."""
        count = len(self.database)
        order = ShuffledOrder(count, self.seed, number) if self.shuffle else FileOrder(count)
        return Batches(self.recipe, order, seed=self.seed, epoch=number)

    def __len__(self) -> int:
        return self.recipe.batch_count

    @overload
    def __getitem__(self, batch: int) -> Any: ...
    @overload
    def __getitem__(self, batch: slice) -> Sequence[Any]: ...
    def __getitem__(self, batch: int | slice) -> Any:
        """Returns a batch of the first epoch."""
        if self._first is None:
            self._first = self.epoch(0)  # its order is computed once
        return self._first[batch]

    def get_item(self, batch: int) -> Any:
        """Returns ``provider[batch]``."""
        return self[batch]

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of the next epoch."""
        number = self.next_epoch
        if self.shuffle:
            self.next_epoch += 1
        return iter(self.epoch(number))

    def map(self, function: Callable[[Any], Any]) -> DataProvider:
        """Returns a provider whose batches ``function`` is run on."""
        return self._with(recipe=self.recipe.with_function(function))

    def with_seed(self, seed: int) -> DataProvider:
        """Returns a provider that shuffles by another seed."""
        return self._with(seed=check_seed(seed))

    def _with(self, **changes: Any) -> DataProvider:
        made = DataProvider.__new__(DataProvider)
        made.__dict__.update(self.__dict__, _first=None, **changes)
        return made
