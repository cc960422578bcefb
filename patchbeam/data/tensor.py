"""One array that knows its type to the bit and what its axes are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from patchbeam.data.cast import Mode, cast
from patchbeam.data.dtypes import DType, Kind
from patchbeam.data.errors import DataError
from patchbeam.data.packing import Bytes, Packing, pack, unpack
from patchbeam.errors import JobError


class Tensor:
    """An array with a type of any width and a name for each axis.

    Attributes:
        dtype: the type of its values.
        layout: a letter an axis, such as ``CHW``, ``HWC`` or ``NCHW``; ``None`` when not known.
    """

    __slots__ = ("_values", "dtype", "layout")

    def __init__(
        self, values: ArrayLike, dtype: DType | str | None = None, *, layout: str | None = None
    ) -> None:
        """Checks that every value fits.

        Args:
            values: numbers, any shape; not copied where they have the type already.
            dtype: default: that of ``values``.
            layout: what the axes are.

        Raises:
            DataError: a value does not fit the type.
            JobError: the layout has not as many letters as there are axes, or one twice.
        """
        given = np.asarray(values)
        self.dtype = DType.of(given.dtype if dtype is None else dtype)
        plain = given.dtype == self.dtype.container and self.dtype.bits >= 8
        self._values: NDArray[Any] = given if plain else cast(given, self.dtype)
        self.layout = _checked(layout, self._values.ndim)

    @classmethod
    def from_packed(
        cls,
        data: bytes | Bytes,
        dtype: DType | str,
        shape: tuple[int, ...],
        *,
        packing: Packing = "dense",
        layout: str | None = None,
    ) -> Tensor:
        """Returns what :meth:`packed` was made of.

        Raises:
            DataError: there are more or fewer bytes than the values take.
        """
        return cls(unpack(data, dtype, shape, packing), dtype, layout=layout)

    @property
    def dims(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._values.shape

    shape = dims

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._values.ndim

    @property
    def size(self) -> int:
        """Number of values."""
        return self._values.size

    @property
    def data_type(self) -> Kind:
        """What the numbers are: ``float``, ``int`` or ``uint``."""
        return self.dtype.kind

    @property
    def precision(self) -> int:
        """Bits of one value."""
        return self.dtype.bits

    def numpy(self) -> NDArray[Any]:
        """Returns the values in the type's NumPy container; the tensor's own memory."""
        return self._values

    def packed(self, packing: Packing = "dense") -> Bytes:
        """Returns the values packed to their bits, uint8.

        Raises:
            JobError: the type has no slots, or there is no such packing.
        """
        return pack(self._values, self.dtype, packing)

    def astype(self, dtype: DType | str, mode: Mode = "strict") -> Tensor:
        """Returns the values in another type.

        Raises:
            DataError: in ``strict`` mode: a value does not fit.
        """
        return Tensor(cast(self._values, dtype, mode), dtype, layout=self.layout)

    def to_layout(self, layout: str) -> Tensor:
        """Returns the tensor with its axes in another order, contiguous in memory.

        Raises:
            JobError: the layout is not known, or the other one has other axes.
        """
        if self.layout is None:
            raise JobError(f"to_layout({layout!r}): the tensor's own layout is not known; give layout=")
        if sorted(layout) != sorted(self.layout):
            raise JobError(f"to_layout({layout!r}): the axes are {self.layout}; give the same letters")
        moved = self._values.transpose([self.layout.index(axis) for axis in layout])
        return Tensor(np.ascontiguousarray(moved), self.dtype, layout=layout)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Returns the values as NumPy asks for them."""
        if dtype is None or np.dtype(dtype) == self._values.dtype:
            return self._values.copy() if copy else self._values
        if copy is False:
            raise ValueError(f"{self.dtype} values cannot be {np.dtype(dtype)} without a copy")
        return self._values.astype(dtype)

    def __dlpack__(self, **arguments: Any) -> Any:
        """Returns a DLPack capsule of the container's values."""
        return self._values.__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Returns the device, the processor."""
        kind, number = self._values.__dlpack_device__()
        return int(kind), int(number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        same = (self.dtype, self.layout, self.dims) == (other.dtype, other.layout, other.dims)
        return same and bool(np.array_equal(self._values, other._values, equal_nan=self.data_type == "float"))

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a tensor without axes has no length")
        return len(self._values)

    def __repr__(self) -> str:
        layout = f", {self.layout}" if self.layout else ""
        return f"Tensor({self.dtype} {self.dims}{layout})"

    @classmethod
    def collate(cls, tensors: list[Tensor]) -> Tensor:
        """Stacks tensors of one shape, type and layout; the batch's axis is ``N``.

        Raises:
            DataError: they differ.
        """
        first = tensors[0]
        for at, tensor in enumerate(tensors):
            if (tensor.dims, tensor.dtype, tensor.layout) != (first.dims, first.dtype, first.layout):
                raise DataError(f"item {at} of the batch is {tensor!r}, the first is {first!r}")
        layout = None if first.layout is None or "N" in first.layout else f"N{first.layout}"
        return cls(np.stack([tensor._values for tensor in tensors]), first.dtype, layout=layout)


def _checked(layout: str | None, axes: int) -> str | None:
    if layout is not None and (len(layout) != axes or len(set(layout)) != axes):
        raise JobError(f"layout: {layout!r} for {axes} axes; give a letter an axis, each once")
    return layout
