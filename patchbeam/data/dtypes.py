"""The 25 number types: floats of 64, 32 and 16 bits, integers of 64, 32, 16 and 8 down to 1 bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from patchbeam.errors import JobError, nearest

Kind = Literal["float", "int", "uint"]

_FLOAT_BITS = (64, 32, 16)
_INTEGER_BITS = (64, 32, 16, 8, 7, 6, 5, 4, 3, 2, 1)


@dataclass(frozen=True, slots=True)
class DType:
    """A number type; types of fewer than 8 bits live in a byte until they are packed.

    Attributes:
        kind: ``float``, ``int`` (two's complement) or ``uint``.
        bits: of one value. ``int1`` is {-1, 0}, ``uint1`` {0, 1}.
    """

    kind: Kind
    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (_FLOAT_BITS if self.kind == "float" else _INTEGER_BITS):
            raise JobError(f"{self.kind}{self.bits} is not a type; types are {', '.join(DTYPES)}")

    @classmethod
    def of(cls, named: DType | str | np.dtype[Any] | type) -> DType:
        """Returns a type by its name (``uint5``) or its NumPy type; bool is ``uint1``.

        Raises:
            JobError: there is no such type.
        """
        if isinstance(named, DType):
            return named
        if isinstance(named, str) and named in DTYPES:
            return DTYPES[named]
        try:
            found = np.dtype(named)
        except (TypeError, ValueError, SyntaxError):
            raise JobError(
                f"{named!r} is not a type; types are {', '.join(DTYPES)}{nearest(str(named), DTYPES)}"
            ) from None
        name = "uint1" if found.kind == "b" else found.name
        if name not in DTYPES:
            raise JobError(f"{found} is not a type of numbers; types are {', '.join(DTYPES)}")
        return DTYPES[name]

    @property
    def name(self) -> str:
        """Kind and bits: ``int4``."""
        return f"{self.kind}{self.bits}"

    @property
    def container(self) -> np.dtype[Any]:
        """The smallest NumPy type that holds every value."""
        return np.dtype(f"{self.kind}{max(8, self.bits)}")

    @property
    def low(self) -> int | float:
        """The smallest value; of floats the smallest finite one."""
        if self.kind == "float":
            return float(np.finfo(self.container).min)
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> int | float:
        """The largest value; of floats the largest finite one."""
        if self.kind == "float":
            return float(np.finfo(self.container).max)
        return (1 << (self.bits - 1 if self.kind == "int" else self.bits)) - 1

    def packed_nbytes(self, count: int) -> int:
        """Returns the bytes that ``count`` densely packed values take: ceil(count · bits / 8)."""
        return -(-count * self.bits // 8)

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {}
"""Every type by name, from float64 to uint1."""

DTYPES.update({f"float{bits}": DType("float", bits) for bits in _FLOAT_BITS})
DTYPES.update({f"int{bits}": DType("int", bits) for bits in _INTEGER_BITS})
DTYPES.update({f"uint{bits}": DType("uint", bits) for bits in _INTEGER_BITS})
