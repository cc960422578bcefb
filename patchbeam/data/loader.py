"""Batches ahead of time: threads, ranks, and a position that can be saved.

The order of the batches, and what is in them, depend on the seed alone: not on the number of threads,
and not on the number of ranks as long as the global batch is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from patchbeam.data.database import Database
from patchbeam.data.epochs import Epochs, EpochsPrefix
from patchbeam.data.order import check_seed
from patchbeam.data.provider import Batches, DataProvider, Recipe
from patchbeam.errors import JobError

Source = Epochs | EpochsPrefix | DataProvider | Batches
# What a rank composes of a last batch that has fewer items than there are ranks.
_NO_SHARE = object()
_KEYS = ("seed", "epoch", "samples", "fingerprint")


class Loader:
    """Composes batches in threads, in order, a few ahead of the one in use.

    A loader is a position in a run: each loop goes on where the last one stopped, from batch to batch
    and over :class:`~patchbeam.data.epochs.Epochs` from epoch to epoch. Over a provider, over the batches
    of one epoch or over a prefix it ends, and then stands at the start again (a shuffled provider: at
    the next epoch). A batch counts as handed out once the loop has it; what was composed ahead does not.

    Attributes:
        rank: of this process.
        world: number of processes.
        threads: that compose batches; with 0 the caller's own does.
    """

    def __init__(
        self, source: Source, *, threads: int = 1, ahead: int = 2, rank: int = 0, world: int = 1
    ) -> None:
        """Starts nothing and reads nothing.

        Args:
            source: whose ``batch_size`` is that of all ranks together.
            threads: that compose batches.
            ahead: batches that wait, complete, for the one in use.
            rank: of this process, from 0; it gets its share of every batch.
            world: number of processes.

        Raises:
            JobError: a number is out of range, or the global batch cannot be shared equally.
        """
        for name, value, least in (("threads", threads, 0), ("ahead", ahead, 1), ("world", world, 1)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise JobError(f"{name}: {value!r} is not a whole number of at least {least}")
        if not 0 <= rank < world:
            raise JobError(f"rank: {rank} is not from 0 to {world - 1} (world is {world})")
        recipe = _recipe(source)
        if recipe.batch_size % world:
            raise JobError(
                f"batch_size: a global batch of {recipe.batch_size} cannot be shared equally by world = "
                f"{world} ranks"
            )
        self.threads = threads
        self.rank = rank
        self.world = world
        self._ahead = ahead
        self._source = source
        self._epoch = self._first = source.epoch if isinstance(source, Batches) else 0
        self._samples = 0

    @property
    def database(self) -> Database:
        """What items are read from."""
        return _recipe(self._source).database

    @property
    def seed(self) -> int:
        """The seed of the run."""
        source = self._source
        return source.epochs.seed if isinstance(source, EpochsPrefix) else source.seed

    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to."""
        return self._epoch

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches that follow. No thread is left when the loop ends, in whatever way."""
        positions = self._positions()
        if self.threads == 0:
            for epoch, at, batches in positions:
                batch = self._compose(batches, at)
                self._handed_out(epoch, at, batches)
                if batch is not _NO_SHARE:
                    yield batch
            self._restart()
            return
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="patchbeam-loader")
        waiting: deque[tuple[int, int, Batches, Future[Any]]] = deque()
        try:
            while True:
                while len(waiting) < self.threads + self._ahead - 1:
                    following = next(positions, None)
                    if following is None:
                        break
                    epoch, at, batches = following
                    waiting.append((epoch, at, batches, pool.submit(self._compose, batches, at)))
                if not waiting:
                    break
                epoch, at, batches, future = waiting.popleft()
                batch = future.result()
                del future
                self._handed_out(epoch, at, batches)
                if batch is not _NO_SHARE:
                    yield batch
                # The consumer's reference is then the only one, and the memory can come back.
                del batch
            self._restart()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    @property
    def recipe(self) -> Recipe:
        """How batches are made."""
        return _recipe(self._source)

    def peek(self) -> Any:
        """Returns the batch that comes next, and stays where it is."""
        for _, at, batches in self._positions():
            return self._compose(batches, at)
        raise IndexError("the loader stands at the end; make another, or give more epochs")

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, ready for JSON: seed, epoch, samples handed out in it, fingerprint.

        The same on every rank: samples are counted over all of them.
        """
        return {
            "seed": self.seed,
            "epoch": self._epoch,
            "samples": self._samples,
            "fingerprint": self.database.fingerprint,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a saved position; the next batch is the one that would have followed.

        Args:
            state: of a loader over the same database with the same global batch; threads, ranks and
                the seed given to this loader do not matter.

        Raises:
            JobError: it is of another database, or not at the border of a batch of this size.
        """
        missing = [key for key in _KEYS if key not in state]
        if missing:
            raise JobError(f"loader state: {', '.join(missing)} missing; give what state_dict() returned")
        if state["fingerprint"] != self.database.fingerprint:
            raise JobError(
                f"loader state: fingerprint {state['fingerprint']} is that of another database; this one, of "
                f"{len(self.database)} items, has {self.database.fingerprint}"
            )
        recipe = _recipe(self._source)
        epoch, samples = int(state["epoch"]), int(state["samples"])
        count = len(self.database)
        if epoch < 0 or not 0 <= samples <= count or (samples % recipe.batch_size and samples != count):
            raise JobError(
                f"loader state: epoch {epoch} and {samples} samples are no border of global batches of "
                f"{recipe.batch_size} in {count} items; keep the global batch of the run that is resumed"
            )
        seed = check_seed(state["seed"])
        if seed != self.seed:
            self._source = _reseeded(self._source, seed)
        self._epoch, self._samples = epoch, samples
        if isinstance(self._source, DataProvider):
            self._first = epoch

    def _positions(self) -> Iterator[tuple[int, int, Batches]]:
        epoch, at = self._epoch, -(-self._samples // _recipe(self._source).batch_size)
        while self._end is None or epoch < self._end:
            batches = self._batches(epoch)
            for number in range(at, len(batches)):
                yield epoch, number, batches
            epoch, at = epoch + 1, 0

    @property
    def _end(self) -> int | None:
        source = self._source
        if isinstance(source, Epochs):
            return None
        if isinstance(source, EpochsPrefix):
            return len(source)
        return source.epoch + 1 if isinstance(source, Batches) else self._first + 1

    def _batches(self, epoch: int) -> Batches:
        source = self._source
        if isinstance(source, EpochsPrefix):
            return source.epochs.batches(epoch)
        if isinstance(source, Epochs):
            return source.batches(epoch)
        return source if isinstance(source, Batches) else source.epoch(epoch)

    def _compose(self, batches: Batches, at: int) -> Any:
        indices = batches.indices(at)
        count = len(indices)
        share = indices[count * self.rank // self.world : count * (self.rank + 1) // self.world]
        if not len(share):
            return _NO_SHARE
        return batches.recipe.compose(share, batches.seed, batches.epoch)

    def _handed_out(self, epoch: int, at: int, batches: Batches) -> None:
        if at + 1 < len(batches):
            self._epoch, self._samples = epoch, (at + 1) * batches.recipe.batch_size
        else:
            self._epoch, self._samples = epoch + 1, 0

    def _restart(self) -> None:
        if isinstance(self._source, DataProvider) and self._source.shuffle:
            self._first += 1
        self._epoch, self._samples = self._first, 0


def _recipe(source: Source) -> Recipe:
    return source.epochs.recipe if isinstance(source, EpochsPrefix) else source.recipe


def _reseeded(source: Source, seed: int) -> Source:
    if not isinstance(source, Batches):
        return source.with_seed(seed)
    raise JobError(
        f"loader state: it is of seed {seed}, these batches are of seed {source.seed}; resume from their "
        "epochs"
    )
