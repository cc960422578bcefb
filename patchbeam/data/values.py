"""Values of record features as arrays, and the columns that a modality is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.modality import cast_into
from patchbeam.errors import JobError, nearest
from patchbeam.records.parse import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of one modality.

    Attributes:
        name: of the modality.
        columns: their names, in order.
        alone: whether it was given as one name: its values then have no axis for columns.
        dtype: of the values; ``None`` for that of the columns.
    """

    name: str
    columns: tuple[str, ...]
    alone: bool
    dtype: str | None


def resolve_columns(
    wanted: Mapping[str, str | Sequence[str]],
    known: Sequence[str],
    dtypes: Mapping[str, str] | None,
    where: str,
    *,
    closed: bool,
) -> tuple[Columns, ...]:
    """Checks what a user asks for.

    Args:
        wanted: modality → one column, or several.
        known: columns that are there.
        dtypes: modality → NumPy type.
        where: the set, for messages.
        closed: whether there are no others than those known.

    Raises:
        JobError: no such column or modality, or no NumPy type.
    """
    if not wanted:
        raise JobError(f"modalities: name at least one; {where} has {', '.join(known)}")
    for name, dtype in (dtypes or {}).items():
        if name not in wanted:
            raise JobError(
                f"dtypes: no modality {name!r}; there are {', '.join(wanted)}{nearest(name, wanted)}"
            )
        try:
            np.dtype(dtype)
        except TypeError:
            raise JobError(f"dtypes.{name}: {dtype!r} is no NumPy type") from None
    found = []
    for name, what in wanted.items():
        columns = (what,) if isinstance(what, str) else tuple(what)
        if not columns:
            raise JobError(f"modalities.{name}: no columns; {where} has {', '.join(known)}")
        for column in columns:
            if column not in known and (closed or nearest(column, known)):
                raise JobError(
                    f"modalities.{name}: no {column!r} in {where}; it has "
                    f"{', '.join(known)}{nearest(column, known)}"
                )
        found.append(
            Columns(name=name, columns=columns, alone=isinstance(what, str), dtype=(dtypes or {}).get(name))
        )
    return tuple(found)


def numbers_of(values: Values) -> NDArray[Any] | None:
    """Returns a feature's numbers, raw bytes as uint8, or ``None`` where it has none."""
    if isinstance(values, list):
        return np.frombuffer(b"".join(values), np.uint8)
    return values


def typed(values: NDArray[Any], dtype: str | None, where: str) -> NDArray[Any]:
    """Returns values in a type, new in memory.

    Raises:
        DataError: an integer type cannot hold one of them.
    """
    target = np.empty(values.shape, values.dtype.newbyteorder("=") if dtype is None else dtype)
    cast_into(target, values, where)
    return target
