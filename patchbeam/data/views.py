"""Views of databases: chosen items, items after one another, items side by side."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.errors import DataError
from patchbeam.data.order import Ints


class View(Database):
    """A view of one database, which it passes everything on to."""

    def __init__(self, base: Database) -> None:
        self.base = base

    @property
    def modalities(self) -> tuple[str, ...]:
        """Those of the database below."""
        return self.base.modalities

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Those of the database below."""
        return self.base.specs

    def __len__(self) -> int:
        return len(self.base)

    def load(self, index: int) -> Item:
        """Returns the item of the database below."""
        return self.base[index]

    def key(self, index: int) -> Hashable:
        """Returns the key in the database below."""
        return self.base.key(index)

    @property
    def fingerprint(self) -> str:
        """A digest of the view and of what is below it."""
        return digest(type(self).__name__, self.base.fingerprint)


class SelectedView(View):
    """Chosen items of a database.

    Attributes:
        base: the database.
        indices: of its items, int64.
    """

    def __init__(self, base: Database, indices: Iterable[int]) -> None:
        """Selects ``indices``; negative ones count from the end."""
        super().__init__(base)
        given = indices if isinstance(indices, np.ndarray) else np.array([operator.index(i) for i in indices])
        if given.size and given.dtype.kind not in "iu":
            raise IndexError(f"items are chosen by whole numbers, not by {given.dtype}")
        chosen = given.astype(np.int64).reshape(-1)
        chosen[chosen < 0] += len(base)
        outside = (chosen < 0) | (chosen >= len(base))
        if outside.any():
            raise IndexError(
                f"item {int(given.reshape(-1)[int(outside.argmax())])} of a database of {len(base)}"
            )
        self.indices: Ints = chosen

    @property
    def joint_batches(self) -> bool:  # type: ignore[override]
        """As the database below."""
        return self.base.joint_batches

    def __len__(self) -> int:
        return len(self.indices)

    def load(self, index: int) -> Item:
        """Returns the chosen item."""
        return self.base[int(self.indices[index])]

    def key(self, index: int) -> Hashable:
        """Returns the key of the chosen item."""
        return self.base.key(int(self.indices[index]))

    def load_batch(self, indices: Ints | Sequence[int]) -> tuple[Any, ...]:
        """Returns the batch as the database below composes it."""
        return self.base.load_batch(self.indices[np.asarray(indices, np.int64)])

    @property
    def fingerprint(self) -> str:
        """A digest of the choice and of what is below it."""
        return digest("select", self.base.fingerprint, digest(self.indices.tobytes()))


class ConcatenatedView(Database):
    """Databases after one another."""

    def __init__(self, parts: tuple[Database, ...]) -> None:
        """Of databases with the same modalities."""
        for at, part in enumerate(parts):
            if part.modalities != parts[0].modalities:
                raise DataError(
                    f"concat: database {at} has the modalities {', '.join(part.modalities)}, the first has "
                    f"{', '.join(parts[0].modalities)}"
                )
        self.parts = parts
        self._starts: Ints = np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)

    @property
    def modalities(self) -> tuple[str, ...]:
        """Those of every part."""
        return self.parts[0].modalities

    @property
    def specs(self) -> Mapping[str, Spec]:
        """What all parts say alike."""
        first, *others = (part.specs for part in self.parts)
        return {name: spec for name, spec in first.items() if all(o.get(name) == spec for o in others)}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _place(self, index: int) -> tuple[Database, int]:
        at = int(np.searchsorted(self._starts, index, "right")) - 1
        return self.parts[at], index - int(self._starts[at])

    def load(self, index: int) -> Item:
        """Returns the item of the part that holds it."""
        part, at = self._place(index)
        return part[at]

    def key(self, index: int) -> Hashable:
        """Returns the key in the part that holds the item."""
        part, at = self._place(index)
        return part.key(at)

    @property
    def fingerprint(self) -> str:
        """A digest of the parts."""
        return digest("concat", [part.fingerprint for part in self.parts])


class ZippedView(Database):
    """Databases side by side."""

    def __init__(self, parts: tuple[Database, ...]) -> None:
        """Of databases of one length with modalities of different names."""
        for at, part in enumerate(parts):
            if len(part) != len(parts[0]):
                raise DataError(f"zip: database {at} has {len(part)} items, the first has {len(parts[0])}")
        names = [name for part in parts for name in part.modalities]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise DataError(f"zip: several databases have a modality {', '.join(map(repr, twice))}")
        self.parts = parts
        self._names = tuple(names)

    joint_batches = True

    @property
    def modalities(self) -> tuple[str, ...]:
        """Those of all parts, in order."""
        return self._names

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Those of all parts."""
        return {name: spec for part in self.parts for name, spec in part.specs.items()}

    def __len__(self) -> int:
        return len(self.parts[0])

    def load(self, index: int) -> Item:
        """Returns the values of all parts."""
        return tuple(value for part in self.parts for value in part[index])

    def load_batch(self, indices: Ints | Sequence[int]) -> tuple[Any, ...]:
        """Returns the batches of all parts side by side."""
        return tuple(value for part in self.parts for value in part.load_batch(indices))

    def key(self, index: int) -> Hashable:
        """Returns the key in the first part."""
        return self.parts[0].key(index)

    @property
    def fingerprint(self) -> str:
        """A digest of the parts."""
        return digest("zip", [part.fingerprint for part in self.parts])
