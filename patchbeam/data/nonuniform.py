"""Epochs of samples of unequal size: batches of like samples, the largest of all first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.data.collate import Collate, pad_collate
from patchbeam.data.database import Database
from patchbeam.data.epochs import Epochs
from patchbeam.data.order import Ints, Seed, order
from patchbeam.data.provider import Batches, Layout
from patchbeam.errors import JobError


@dataclass(frozen=True, slots=True, eq=False)
class SortedOrder:
    """A shuffle whose mega-batches are each sorted by size, the largest first.

    Attributes:
        sizes: of the items, int64.
        seed: of the run.
        epoch: from 0.
        mega_batch: items that are sorted together.
    """

    sizes: Ints
    seed: int
    epoch: int
    mega_batch: int

    def __call__(self) -> Ints:
        """Returns the order of the items."""
        shuffled = order(len(self.sizes), self.seed, self.epoch)
        blocks = np.arange(len(shuffled)) // self.mega_batch
        # The block that holds the largest item comes first: what memory a run takes shows at once.
        blocks[blocks == blocks[np.argmax(self.sizes[shuffled])]] = -1
        return shuffled[np.lexsort((-self.sizes[shuffled], blocks))]


class NonuniformEpochs(Epochs):
    """Like :class:`~patchbeam.data.epochs.Epochs`, for samples of unequal size.

    The items of an epoch are shuffled and cut into mega-batches; each of these is sorted, the largest
    first, and cut into batches. So little is padded, the first batch is the largest of all, and what is
    beside what still changes from epoch to epoch.
    """

    def __init__(
        self,
        database: Database,
        batch_size: int,
        *,
        sizes: Sequence[int] | Callable[[int], int],
        seed: Seed = None,
        batches_per_sort: int | None = None,
        drop_last: bool = True,
        layout: Layout = "NCHW",
        collate: Collate | None = pad_collate,
    ) -> None:
        """Checks the arguments; reads nothing but what ``sizes`` reads.

        Args:
            database: what items are read from.
            batch_size: items a batch.
            sizes: of each item, or a function of its number.
            seed: as for :class:`~patchbeam.data.epochs.Epochs`.
            batches_per_sort: batches that are sorted together; by default a fiftieth of the epoch, and
                at least 2.
            drop_last: whether to leave out the items that do not fill a batch.
            layout: ``NCHW`` or ``NHWC``; only without ``collate``.
            collate: by default pads with 0.

        Raises:
            JobError: there are not as many sizes as items, or another argument is none.
        """
        super().__init__(database, batch_size, seed=seed, drop_last=drop_last, layout=layout, collate=collate)
        count = len(database)
        found = [sizes(i) for i in range(count)] if callable(sizes) else sizes
        self.sizes: Ints = np.asarray(found, np.int64)
        if self.sizes.shape != (count,):
            raise JobError(f"sizes: {self.sizes.shape} for {count} items; give one number an item")
        if batches_per_sort is not None and batches_per_sort < 1:
            raise JobError(f"batches_per_sort: {batches_per_sort} is less than 1")
        self._mega_batch = batch_size * (batches_per_sort or max(2, count // (batch_size * 50)))

    def batches(self, epoch: int) -> Batches:
        """Returns the batches of one epoch."""
        ordered = SortedOrder(self.sizes, self.seed, epoch, self._mega_batch)
        return Batches(self.recipe, ordered, seed=self.seed, epoch=epoch)
