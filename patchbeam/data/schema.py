"""What the records of a converted set hold: each modality's type to the bit, its shape, and its form.

The schema stands in the manifest under ``dataset``; with it items come back exactly as they were.

Profiles: ``ee`` writes every number as float32, as Earth Engine does, and refuses what that cannot hold;
``typed`` writes floats as float lists, integers as int64 lists, bytes as bytes; ``packed`` writes the bits
of every value densely, so that a mask takes one bit a pixel. Types of which a list does not hold every value
(float64 and uint64 in ``typed``) are written as bytes, little-endian.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec
from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError
from patchbeam.data.tensor import Tensor
from patchbeam.errors import JobError, nearest, short
from patchbeam.manifest import WireType

Profile = Literal["ee", "typed", "packed"]
Encoding = Literal["values", "packed", "text", "bytes"]
Shape = tuple[int | None, ...]

SHAPE_ENDING = "/shape"
"""Of the name of the feature that holds the shape of a modality whose items differ in shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    """One modality.

    Attributes:
        name: of the modality, and key of its feature.
        dtype: its type, ``uint1`` to ``float64``; ``text`` or ``bytes``.
        container: NumPy type of its items; empty for text and bytes.
        shape: of an item; ``None`` in the place of a size that varies.
        layout: what the axes are, where that is known.
        wire: which list of a feature holds it.
        encoding: ``values`` one number a value; ``packed`` bits, densely; ``text`` or ``bytes`` as it is.
    """

    name: str
    dtype: str
    container: str
    shape: Shape
    layout: str | None
    wire: WireType
    encoding: Encoding

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return self.encoding in ("values", "packed")

    @property
    def fixed(self) -> bool:
        """Whether every item has one shape."""
        return self.numeric and None not in self.shape

    @property
    def channel_axis(self) -> int | None:
        """The axis of the channels; statistics are told for each."""
        if self.layout is not None:
            return self.layout.index("C") if "C" in self.layout else None
        return 0 if len(self.shape) == 3 and self.shape[0] is not None else None

    @property
    def channels(self) -> int:
        """Number of statistics of it."""
        if not self.numeric:
            return 0
        size = None if self.channel_axis is None else self.shape[self.channel_axis]
        return 1 if size is None else size

    def length(self, shape: Sequence[int]) -> int:
        """Returns the length of the feature of an item: numbers, or bytes of a ``bytes`` feature."""
        count = math.prod(shape)
        return DType.of(self.dtype).packed_nbytes(count) if self.encoding == "packed" else count

    @property
    def spec(self) -> Spec:
        """What its items are."""
        if not self.numeric:
            return Spec()
        return Spec(shape=self.shape, dtype=self.container, layout=self.layout)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchema:
    """All modalities, in order.

    Attributes:
        profile: how they were written.
        fields: one a modality.
    """

    profile: Profile
    fields: tuple[FieldSchema, ...]

    @property
    def fixed(self) -> bool:
        """Whether all records have one size."""
        return all(field.fixed and field.wire != "int64" for field in self.fields)

    def to_json(self) -> dict[str, Any]:
        """Returns the schema as plain values."""
        modalities = [{key: v for key, v in asdict(field).items() if v is not None} for field in self.fields]
        return {"profile": self.profile, "modalities": [{**m, "shape": list(m["shape"])} for m in modalities]}

    @classmethod
    def from_json(cls, value: Any, where: str) -> SetSchema:
        """Reads what :meth:`to_json` has made; keys that are not known are passed over.

        Raises:
            JobError: a key is missing or holds what it must not.
        """
        try:
            fields = tuple(
                FieldSchema(
                    name=str(entry["name"]),
                    dtype=str(entry["dtype"]),
                    container=str(entry["container"]),
                    shape=tuple(None if size is None else int(size) for size in entry["shape"]),
                    layout=entry.get("layout"),
                    wire=entry["wire"],
                    encoding=entry["encoding"],
                )
                for entry in value["modalities"]
            )
            schema = cls(profile=value["profile"], fields=fields)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise JobError(
                f"{where}: dataset: {type(error).__name__}: {error}; the manifest is damaged"
            ) from None
        if schema.profile not in get_args(Profile):
            raise JobError(
                f"{where}: dataset: profile {short(schema.profile)} is not known; use the version that wrote "
                "it, or a newer one"
            )
        for field in schema.fields:
            if field.wire not in get_args(WireType) or field.encoding not in get_args(Encoding):
                raise JobError(
                    f"{where}: dataset: modality {field.name!r}: {field.wire!r} with {field.encoding!r} "
                    f"is not known; "
                    "use the version that wrote it, or a newer one"
                )
            layout: object = field.layout
            if layout is not None and not (isinstance(layout, str) and len(layout) == len(field.shape)):
                raise JobError(
                    f"{where}: dataset: modality {field.name!r}: layout {short(layout)} is not a letter for "
                    f"each of {len(field.shape)} axes; the manifest is damaged"
                )
            if field.numeric:
                DType.of(field.dtype)
        return schema


def schema_of(
    database: Database,
    profile: str,
    *,
    dtypes: Mapping[str, str | DType] | None = None,
    shapes: Mapping[str, Shape] | None = None,
) -> SetSchema:
    """Returns how a database is written; looks at its specs and its first item.

    Args:
        database: at least one item.
        profile: ``ee``, ``typed`` or ``packed``.
        dtypes: modality → a type narrower than that of its values: ``uint1`` for a mask.
        shapes: modality → shape, with ``None`` for sizes that differ from item to item.

    Raises:
        JobError: no such profile, modality or type.
        DataError: the first item is nothing that records hold.
    """
    if profile not in get_args(Profile):
        known = get_args(Profile)
        raise JobError(f"profile: {profile!r} is none of {', '.join(known)}{nearest(str(profile), known)}")
    for key, names in (("dtypes", dtypes), ("shapes", shapes)):
        for name in names or {}:
            if name not in database.modalities:
                raise JobError(
                    f"{key}.{name}: no such modality; there are {', '.join(database.modalities)}"
                    f"{nearest(name, database.modalities)}"
                )
    narrow = {**getattr(database, "dtypes", {}), **(dtypes or {})}
    item: Item = database[0]
    modalities = set(database.modalities)
    fields = []
    for name, value in zip(database.modalities, item, strict=True):
        if name.endswith(SHAPE_ENDING) and name.removesuffix(SHAPE_ENDING) in modalities:
            raise JobError(
                f"modality {name!r}: this is what the shape of {name.removesuffix(SHAPE_ENDING)!r} is called"
            )
        given = (shapes or {}).get(name)
        fields.append(_field(profile, name, value, narrow.get(name), given, database.specs.get(name)))
    return SetSchema(profile=profile, fields=tuple(fields))  # type: ignore[arg-type]


def _field(
    profile: str, name: str, value: Any, narrow: str | DType | None, shape: Shape | None, spec: Spec | None
) -> FieldSchema:
    if isinstance(value, str | bytes):
        kind: Encoding = "text" if isinstance(value, str) else "bytes"
        return FieldSchema(
            name=name, dtype=kind, container="", shape=(), layout=None, wire="bytes", encoding=kind
        )
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise DataError(
            f"item 0, modality {name!r}: {type(value).__name__} of {array.dtype} is nothing that records "
            f"hold; make it "
            "numbers, text or bytes with a transform"
        )
    own = value.dtype if isinstance(value, Tensor) else DType.of(array.dtype)
    dtype = own if narrow is None else DType.of(narrow)
    if (dtype.kind == "float") != (own.kind == "float"):
        raise JobError(f"dtypes.{name}: {dtype} for values of {array.dtype}; give a type of the same kind")
    known = spec.shape if spec is not None and spec.shape is not None else array.shape
    wanted = known if shape is None else tuple(shape)
    if len(wanted) != array.ndim:
        raise JobError(f"shapes.{name}: {list(wanted)} for values of {array.ndim} axes, {list(array.shape)}")
    wire, encoding = _form(profile, dtype)
    return FieldSchema(
        name=name,
        dtype=dtype.name,
        container=array.dtype.name,
        shape=wanted,
        layout=spec.layout if spec is not None else None,
        wire=wire,
        encoding=encoding,
    )


def _form(profile: str, dtype: DType) -> tuple[WireType, Encoding]:
    if profile == "ee":
        return "float", "values"
    if profile == "packed" or dtype.name in ("float64", "uint64"):
        return "bytes", "packed"
    if dtype.kind == "float":
        return "float", "values"
    # uint8 and what is narrower: a byte a value
    return ("bytes", "values") if dtype.kind == "uint" and dtype.bits <= 8 else ("int64", "values")
