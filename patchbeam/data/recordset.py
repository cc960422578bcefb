"""Converted sets: the items of any database, read back from the records that they were written to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.dtypes import DType
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.exports import Source, open_export
from patchbeam.data.itemcodec import ItemCodec
from patchbeam.data.order import Ints
from patchbeam.data.places import PatchPlace
from patchbeam.data.schema import SetSchema
from patchbeam.errors import CorruptRecord, JobError
from patchbeam.manifest import Manifest, from_ranges, to_ranges
from patchbeam.records.parse import ExampleDecoder

DATASET_KEY = "dataset"
"""Of the manifest: what a converted set says of itself."""


class RecordDatabase(Database):
    """The items of a set that ``patchbeam build-dataset`` has written, exactly as they were.

    Threads may share one; it pickles as a recipe.

    Attributes:
        manifest: of the set.
        schema: what its records hold.
        place: how its items lie on the map, when they were patches of an export.
        patch_indices: the patch of each item, then.
    """

    def __init__(
        self,
        source: Source,
        *,
        manifest: str | Path | Manifest | None = None,
        cache: str | Path | None = None,
        offline: bool | None = None,
    ) -> None:
        """Opens the set; reads its manifest alone.

        Args:
            source: prefix of the set, one record file, or several in order.
            manifest: where it does not lie beside the records.
            cache: folder of the cache of remote and inflated files.
            offline: whether nothing may be fetched.

        Raises:
            JobError: there is no such set, or it is an export and no converted set.
            EmptyDatabase: it has no items.
        """
        export = open_export(source, manifest=manifest, cache=cache, offline=offline)
        about = None if export.manifest is None else export.manifest.extra.get(DATASET_KEY)
        if export.manifest is None or not isinstance(about, dict):
            raise JobError(
                f"{export.name}: its manifest "
                f"{'is missing' if export.manifest is None else 'names no dataset'}: it was "
                "not written by build-dataset; open image patches with PatchDatabase, tables with "
                "TableDatabase"
            )
        self.manifest = export.manifest
        self.records = export.records
        if not len(self.records):
            raise EmptyDatabase(f"{export.name}: the set has no items; give one that holds some")
        self.schema = SetSchema.from_json(about, export.name)
        items = sum(shard.records for shard in export.manifest.shards)
        self.place, self.patch_indices = _place(about, export.first, len(self.records), items)
        self._codec = ItemCodec(self.schema)
        self._decoders = threading.local()

    @property
    def modalities(self) -> tuple[str, ...]:
        """As they were in the database that was converted."""
        return tuple(field.name for field in self.schema.fields)

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Of modalities of numbers."""
        return {field.name: field.spec for field in self.schema.fields if field.numeric}

    @property
    def dtypes(self) -> Mapping[str, DType]:
        """The type of each modality of numbers."""
        return {field.name: DType.of(field.dtype) for field in self.schema.fields if field.numeric}

    @property
    def statistics(self) -> Mapping[str, list[dict[str, Any]]]:
        """Of each modality of numbers, for each channel: count, min, max, mean, standardDeviation."""
        found: Mapping[str, list[dict[str, Any]]] = self.manifest.extra[DATASET_KEY].get("statistics", {})
        return found

    def __len__(self) -> int:
        return len(self.records)

    def load(self, index: int) -> Item:
        """Returns an item, new in memory.

        Raises:
            CorruptRecord: its record is damaged; with file, record and byte.
            DataError: it is not what the manifest says.
        """
        decoder = getattr(self._decoders, "decoder", None)
        if decoder is None:
            decoder = self._decoders.decoder = ExampleDecoder()
        data = self.records[index]
        try:
            features = decoder.decode(data)
        except CorruptRecord as error:
            raise DataError(f"{self.records.where(index)}: no Example: {error.what}") from None
        return self._codec.decode(features, self.records.where(index))

    @property
    def fingerprint(self) -> str:
        """A digest of the records."""
        return digest("records", self.records.fingerprint)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoders": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._decoders = threading.local()


def place_to_json(place: PatchPlace, indices: Ints) -> dict[str, Any]:
    """Returns a place as the manifest holds it."""
    rising = len(indices) < 2 or bool((np.diff(indices) > 0).all())
    return {
        "columnsRows": list(place.columns_rows),
        "patchDimensions": list(place.patch_width_height),
        "margin": list(place.margin_width_height),
        "crs": place.crs,
        "affine": list(place.affine),
        **({"ranges": to_ranges(indices).tolist()} if rising else {"patches": indices.tolist()}),
    }


def _place(about: dict[str, Any], first: int, count: int, items: int) -> tuple[PatchPlace | None, Ints]:
    """Returns where the items lie of which ``count`` of the set's ``items`` are read, from ``first`` on."""
    found = about.get("place")
    if not isinstance(found, dict):
        return None, np.arange(count, dtype=np.int64)
    try:
        place = PatchPlace(
            columns_rows=tuple(found["columnsRows"]),
            patch_width_height=tuple(found["patchDimensions"]),
            margin_width_height=tuple(found["margin"]),
            crs=found["crs"],
            affine=tuple(found["affine"]),
        )
        if "ranges" in found:
            pairs = [(int(start), int(length)) for start, length in found["ranges"]]
            # before memory is taken for them
            if (
                min((min(pair) for pair in pairs), default=0) < 0
                or sum(length for _, length in pairs) != items
            ):
                raise ValueError(f"its ranges do not make the {items} items of the set")
            indices = from_ranges(pairs)
        else:
            indices = np.array(found["patches"], np.int64)
            if indices.shape != (items,):
                raise ValueError(f"its patches are not those of the {items} items of the set")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise JobError(f"dataset.place: {type(error).__name__}: {error}; the manifest is damaged") from None
    return place, indices[first : first + count]
