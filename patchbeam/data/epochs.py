"""Endless epochs of reshuffled batches; any of them can be had without the ones before."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import count as count_from
from typing import Any, overload

from patchbeam.data.collate import Collate
from patchbeam.data.database import Database, Lazy
from patchbeam.data.order import Seed, ShuffledOrder, check_seed, resolve_seed
from patchbeam.data.provider import Batches, Layout, Recipe
from patchbeam.errors import JobError


class Epochs:
    """Infinite, restartable, lazy: every epoch reshuffled, every batch full.

    Each loop starts at epoch 0 again. The items that do not fill a batch are left out, other ones in
    every epoch. ``epochs[1000]`` costs what ``epochs[0]`` costs; no item is read before a batch is asked for.

    Attributes:
        recipe: how batches are made.
        seed: of the run.
    """

    def __init__(
        self,
        database: Database,
        batch_size: int,
        *,
        seed: Seed = None,
        drop_last: bool = True,
        layout: Layout = "NCHW",
        collate: Collate | None = None,
    ) -> None:
        """Checks the arguments; reads nothing.

        Args:
            database: what items are read from.
            batch_size: items a batch (of all ranks together).
            seed: a number, or a generator of one's own from which it is drawn; ``None`` draws one from
                the system and keeps it in ``seed``.
            drop_last: whether to leave out the items that do not fill a batch.
            layout: ``NCHW`` or ``NHWC``, of modalities that are images.
            collate: makes a batch of items, in the place of stacking each modality.

        Raises:
            JobError: batch size, seed or layout are none, or the items do not fill one batch.
            EmptyDatabase: there are no items.
        """
        self.recipe = Recipe(
            database=database, batch_size=batch_size, drop_last=drop_last, layout=layout, collate=collate
        )
        self.seed = resolve_seed(seed)

    @property
    def database(self) -> Database:
        """What items are read from."""
        return self.recipe.database

    def batches(self, epoch: int) -> Batches:
        """Returns the batches of one epoch."""
        return Batches(
            self.recipe, ShuffledOrder(len(self.database), self.seed, epoch), seed=self.seed, epoch=epoch
        )

    @overload
    def __getitem__(self, epoch: int) -> Batches: ...
    @overload
    def __getitem__(self, epoch: slice) -> Sequence[Batches]: ...
    def __getitem__(self, epoch: int | slice) -> Batches | Sequence[Batches]:
        """Returns the batches of one epoch, or of ``epochs[a:b]`` a sequence of epochs.

        Raises:
            IndexError: the number is negative: there is no last epoch.
        """
        if isinstance(epoch, slice):
            if epoch.stop is None or min(epoch.start or 0, epoch.stop) < 0 or (epoch.step or 1) < 1:
                raise IndexError("epochs never end: give a slice with an end, and no negative numbers")
            chosen = range(epoch.start or 0, epoch.stop, epoch.step or 1)
            return Lazy(lambda at: self.batches(chosen[at]), len(chosen))
        number = operator.index(epoch)
        if number < 0:
            raise IndexError(f"epoch {number}: epochs never end, so there is none to count back from")
        return self.batches(number)

    def __iter__(self) -> Iterator[Batches]:
        """Yields epoch after epoch, without end."""
        return map(self.batches, count_from())

    def prefix(self, count: int) -> EpochsPrefix:
        """Returns the first ``count`` epochs."""
        return EpochsPrefix(self, count)

    def map(self, function: Callable[[Any], Any]) -> Epochs:
        """Returns epochs whose batches ``function`` is run on, when they are asked for."""
        return self._with(recipe=self.recipe.with_function(function))

    def with_seed(self, seed: int) -> Epochs:
        """Returns the same epochs in the orders of another seed."""
        return self._with(seed=check_seed(seed))

    def _with(self, **changes: Any) -> Epochs:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        return made


class EpochsPrefix(Sequence[Batches]):
    """The first epochs of an endless row.

    Attributes:
        epochs: the endless row.
    """

    def __init__(self, epochs: Epochs, count: int) -> None:
        """Takes the first ``count`` of ``epochs``."""
        if count < 0:
            raise JobError(f"prefix({count}): give a number of epochs of at least 0")
        self.epochs = epochs
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, epoch: int) -> Batches: ...
    @overload
    def __getitem__(self, epoch: slice) -> Sequence[Batches]: ...
    def __getitem__(self, epoch: int | slice) -> Batches | Sequence[Batches]:
        """Returns the batches of one epoch, or a sequence of epochs."""
        if isinstance(epoch, slice):
            chosen = range(self._count)[epoch]
            return Lazy(lambda at: self.epochs.batches(chosen[at]), len(chosen))
        return self.epochs.batches(range(self._count)[epoch])

    def map(self, function: Callable[[Any], Any]) -> EpochsPrefix:
        """Returns epochs whose batches ``function`` is run on."""
        return EpochsPrefix(self.epochs.map(function), self._count)

    def with_seed(self, seed: int) -> EpochsPrefix:
        """Returns the same number of epochs in the orders of another seed."""
        return EpochsPrefix(self.epochs.with_seed(seed), self._count)
