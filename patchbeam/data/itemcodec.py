"""Items of a database to records, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.cast import cast
from patchbeam.data.collate import Item
from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError
from patchbeam.data.packing import pack, unpack
from patchbeam.data.schema import SHAPE_ENDING, FieldSchema, SetSchema
from patchbeam.errors import EncodeError
from patchbeam.records.layout import ExampleLayout, Feature
from patchbeam.records.parse import Values
from patchbeam.rounding import rounded_by_float32
from patchbeam.statistics import EMPTY, Moments, measure

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EncodedItems:
    """The records of consecutive items.

    Attributes:
        data: framed records, uint8.
        sizes: bytes of each, int64.
        moments: statistics of each channel of each modality of numbers.
    """

    data: Bytes
    sizes: Ints
    moments: tuple[Moments, ...]


class ItemCodec:
    """Encodes and decodes the items of one schema."""

    def __init__(self, schema: SetSchema) -> None:
        """Works as ``schema`` says."""
        self.schema = schema
        self._layouts: dict[tuple[int, ...], ExampleLayout] = {}

    def encode(self, items: Sequence[Item], first: int) -> EncodedItems:
        """Returns records and statistics.

        Args:
            items: consecutive ones.
            first: number of the first, for errors.

        Raises:
            DataError: an item is not what the schema says.
            EncodeError: float32 cannot hold a number.
        """
        rows = [self._arrays(item, first + at) for at, item in enumerate(items)]
        features = [self._features(row, first + at) for at, row in enumerate(rows)]
        if self.schema.fixed and rows:
            layout = self._layout(features[0])
            data = np.empty(len(rows) * layout.record_size, np.uint8)
            layout.prepare(data)
            for at, values in enumerate(features):
                for slot, value in zip(layout.slot_views(data, at), values, strict=True):
                    slot[...] = value.reshape(-1)
                layout.seal(data, at)
            sizes = np.full(len(rows), layout.record_size, np.int64)
        else:
            records = [self._layout(values).encode(values) for values in features]
            data = np.frombuffer(b"".join(records), np.uint8)
            sizes = np.array([len(record) for record in records], np.int64)
        return EncodedItems(data=data, sizes=sizes, moments=self._moments(rows))

    def decode(self, features: dict[str, Values], where: str) -> Item:
        """Returns the item of a record.

        Args:
            features: of the record.
            where: which record it is, for errors.

        Raises:
            DataError: a feature is missing, or is not what the schema says.
        """
        return tuple(self._value(field, features, where) for field in self.schema.fields)

    def _arrays(self, item: Item, index: int) -> list[Any]:
        fields = self.schema.fields
        if len(item) != len(fields):
            raise DataError(f"item {index}: {len(item)} modalities, and the first item has {len(fields)}")
        found: list[Any] = []
        for field, value in zip(fields, item, strict=True):
            if not field.numeric:
                if not isinstance(value, str if field.encoding == "text" else bytes):
                    raise DataError(
                        f"item {index}, modality {field.name!r}: a {type(value).__name__}, and the first "
                        f"item has "
                        f"{field.encoding}"
                    )
                found.append(value)
                continue
            array = np.asarray(value)
            if array.dtype.name != field.container:
                raise DataError(
                    f"item {index}, modality {field.name!r}: type {array.dtype}, and the first item has "
                    f"{field.container}; every item of a set has the same"
                )
            if array.ndim != len(field.shape) or any(
                want is not None and have != want for have, want in zip(array.shape, field.shape, strict=True)
            ):
                raise DataError(
                    f"item {index}, modality {field.name!r}: shape {list(array.shape)}, and "
                    f"{list(field.shape)} is due; "
                    f"bring items to one shape, or say with shapes.{field.name} which sizes differ (null)"
                )
            found.append(array)
        return found

    def _features(self, row: list[Any], index: int) -> list[NDArray[Any]]:
        found: list[NDArray[Any]] = []
        for field, value in zip(self.schema.fields, row, strict=True):
            where = f"item {index}, modality {field.name!r}"
            if not field.numeric:
                raw = value.encode() if isinstance(value, str) else value
                found.append(np.frombuffer(raw, np.uint8))
                continue
            found.append(_written(field, value, where))
            if not field.fixed:
                found.append(np.array(value.shape, np.float32 if self.schema.profile == "ee" else np.int64))
        return found

    def _layout(self, values: list[NDArray[Any]]) -> ExampleLayout:
        key = tuple(value.size for value in values)
        layout = self._layouts.get(key)
        if layout is None:
            features = []
            sizes = iter(key)
            for field in self.schema.fields:
                features.append(Feature(field.name, field.wire, next(sizes)))
                if field.numeric and not field.fixed:
                    kind = "float" if self.schema.profile == "ee" else "int64"
                    features.append(Feature(field.name + SHAPE_ENDING, kind, next(sizes)))  # type: ignore[arg-type]
            if len(self._layouts) > 1000:
                self._layouts.clear()
            layout = self._layouts[key] = ExampleLayout(features)
        return layout

    def _moments(self, rows: list[list[Any]]) -> tuple[Moments, ...]:
        found: list[Moments] = []
        for at, field in enumerate(self.schema.fields):
            if not field.channels:
                continue
            arrays = [row[at].view(np.uint8) if row[at].dtype.kind == "b" else row[at] for row in rows]
            axis = field.channel_axis
            for channel in range(field.channels):
                parts = arrays if axis is None else [array.take(channel, axis) for array in arrays]
                joined = np.concatenate([part.reshape(-1) for part in parts]) if parts else None
                found.append(EMPTY if joined is None else measure(joined))
        return tuple(found)

    def _value(self, field: FieldSchema, features: dict[str, Values], where: str) -> Any:
        values = features.get(field.name)
        if values is None:
            raise DataError(f"{where}: no feature {field.name!r}; it has {', '.join(features)}")
        place = f"{where}, modality {field.name!r}"
        if not field.numeric:
            if not isinstance(values, list) or len(values) != 1:
                raise DataError(f"{place}: one text or bytes value is due")
            try:
                return values[0].decode() if field.encoding == "text" else values[0]
            except UnicodeDecodeError as error:
                raise DataError(f"{place}: no UTF-8: {error}") from None
        shape = self._shape(field, features, place)
        if isinstance(values, list) != (field.wire == "bytes"):
            raise DataError(f"{place}: its list is not {field.wire}, as the manifest says")
        raw = np.frombuffer(b"".join(values), np.uint8) if isinstance(values, list) else values
        due = field.length(shape)
        if raw.size != due:
            raise DataError(f"{place}: {raw.size} values, and {due} are due for the shape {list(shape)}")
        if field.encoding == "packed":
            try:
                numbers: NDArray[Any] = unpack(raw, field.dtype, shape)
            except DataError as error:
                raise DataError(f"{place}: {error}") from None
            found = numbers.astype(field.container, copy=False)
        else:
            found = raw.astype(field.container).reshape(shape)
        return found if shape else found[()]

    def _shape(self, field: FieldSchema, features: dict[str, Values], place: str) -> tuple[int, ...]:
        if field.fixed:
            return tuple(size for size in field.shape if size is not None)
        said = features.get(field.name + SHAPE_ENDING)
        if not isinstance(said, np.ndarray) or len(said) != len(field.shape) or (said < 0).any():
            raise DataError(f"{place}: no feature {field.name + SHAPE_ENDING!r} of {len(field.shape)} sizes")
        return tuple(int(size) for size in said)


def _written(field: FieldSchema, value: NDArray[Any], where: str) -> NDArray[Any]:
    """Returns the numbers of a feature: float32, int64 or uint8."""
    dtype = DType.of(field.dtype)
    if value.dtype.kind == "b":
        value = value.view(np.uint8)
    # NaN and infinities are values of a float type and stay what they are
    same = value.dtype == dtype.container and dtype.bits >= 8
    fitting = value if same or dtype.kind == "float" else cast(value, dtype, where=where)
    if field.encoding == "packed":
        if not same and dtype.kind == "float":
            fitting = _narrower(value, dtype, where)
        return pack(fitting, dtype)
    if field.wire == "float":
        if not same and dtype.kind == "float":
            fitting = _narrower(value, dtype, where)
        with np.errstate(over="ignore"):
            stored = fitting.astype(np.float32)
        if rounded_by_float32(fitting, stored):
            wide = fitting.astype(np.float64) if fitting.dtype.kind == "f" else fitting
            with np.errstate(invalid="ignore"):
                changed = ~((stored.astype(wide.dtype) == wide) | np.isnan(wide))
            sample = wide[changed].reshape(-1)[:1].tolist() or [wide.reshape(-1)[0].item()]
            raise EncodeError(
                f"{where}: {sample[0]!r} cannot be held by float32, as profile ee writes it; use profile "
                f"typed or "
                "packed, or make the values float32 first"
            )
        return stored
    return fitting.astype(np.uint8 if field.wire == "bytes" else np.int64, copy=False)


def _narrower(value: NDArray[Any], dtype: DType, where: str) -> NDArray[Any]:
    """Floats in a narrower float type, when that changes none of them."""
    with np.errstate(over="ignore"):
        made = value.astype(dtype.container)
    changed = (made.astype(np.float64) != value.astype(np.float64)) & ~np.isnan(value)
    if changed.any():
        raise EncodeError(
            f"{where}: {value[changed][0].item()!r} cannot be held by {dtype}; choose a wider type"
        )
    return made
