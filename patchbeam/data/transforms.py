"""Views that change what an item is or how often it is read: transforms, and a cache in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from patchbeam.data.collate import Item, collate
from patchbeam.data.database import Database, Spec
from patchbeam.data.errors import DataError, note
from patchbeam.data.order import Ints
from patchbeam.data.randomness import Random, generator
from patchbeam.data.views import View


class TransformedView(View):
    """Items of a database, transformed."""

    def __init__(
        self,
        base: Database,
        chains: Mapping[str, tuple[Callable[..., Any], ...]],
        joint: tuple[Callable[..., Any], ...],
    ) -> None:
        """Runs ``chains`` on each modality, then ``joint`` on all."""
        super().__init__(base)
        self._chains = tuple((base.modality(name), name, chain) for name, chain in chains.items())
        self._joint = joint

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Of the modalities that no transform touches."""
        if self._joint:
            return {}
        changed = {name for _, name, _ in self._chains}
        return {name: spec for name, spec in self.base.specs.items() if name not in changed}

    def load(self, index: int) -> Item:
        """Returns the transformed item."""
        return self._transform(index, self.base[index])

    def load_batch(self, indices: Ints | Sequence[int]) -> tuple[Any, ...]:
        """Returns the batch; transforms run on parts of a batch that was composed at once, where it can "
        "be."""
        if not self.base.joint_batches:
            return super().load_batch(indices)
        whole = self.base.load_batch(indices)
        numbers = [int(i) for i in indices]
        items = [self._transform(i, tuple(part[at] for part in whole)) for at, i in enumerate(numbers)]
        return collate(items, names=self.modalities, indices=numbers)

    def _transform(self, index: int, item: Item) -> Item:
        values = list(item)
        number = 0
        for at, name, chain in self._chains:
            for function in chain:
                number += 1
                values[at] = self._run(function, (values[at],), index, number, f"modality {name!r}")
        for function in self._joint:
            number += 1
            found = self._run(function, tuple(values), index, number, "all modalities")
            if not isinstance(found, tuple | list) or len(found) != len(values):
                raise DataError(
                    f"item {index} ({self.key(index)!r}): the joint transform {_name(function)} gave "
                    f"{f'{len(found)} values' if isinstance(found, tuple | list) else type(found).__name__}, "
                    f"not the {len(values)} of the modalities {', '.join(self.modalities)}"
                )
            values = list(found)
        return tuple(values)

    def _run(
        self, function: Callable[..., Any], values: tuple[Any, ...], index: int, number: int, what: str
    ) -> Any:
        try:
            if isinstance(function, Random):
                return function(generator(index, number), *values)
            return function(*values)
        except Exception as error:
            note(error, f"item {index} ({self.key(index)!r}), {what}, transform {_name(function)}")
            raise

    @property
    def fingerprint(self) -> str:
        """That of the database below: transforms change no item's place."""
        return self.base.fingerprint


class CachedView(View):
    """Items that stay in memory once loaded. Threads may share it; a pickled copy starts empty."""

    def __init__(self, base: Database) -> None:
        """Keeps items of ``base``."""
        super().__init__(base)
        self._items: dict[int, Item] = {}
        self._lock = threading.Lock()

    def load(self, index: int) -> Item:
        """Returns the item, the same each time."""
        item = self._items.get(index)
        if item is None:
            item = tuple(_frozen(value) for value in self.base[index])
            with self._lock:
                item = self._items.setdefault(index, item)
        return item

    @property
    def fingerprint(self) -> str:
        """That of the database below."""
        return self.base.fingerprint

    def __getstate__(self) -> Database:
        return self.base

    def __setstate__(self, base: Database) -> None:
        self.__init__(base)  # type: ignore[misc]


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
    return value


def _name(function: Callable[..., Any]) -> str:
    inner = function.function if isinstance(function, Random) else function
    return str(getattr(inner, "__qualname__", repr(inner)))
