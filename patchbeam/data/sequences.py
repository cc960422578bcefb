"""Pixels as items: one SequenceExample a pixel, as an export with ``sequenceData`` writes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.collate import Item
from patchbeam.data.database import Database, digest
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.exports import Export, Source, open_export
from patchbeam.data.values import Columns, numbers_of, resolve_columns, typed
from patchbeam.errors import JobError
from patchbeam.manifest import Manifest, from_ranges
from patchbeam.mixer import Mixer
from patchbeam.records.parse import Values
from patchbeam.records.sequence import parse_sequence_example

Lists = dict[str, list[Values]]


class SequenceDatabase(Database):
    """The pixels of an export, patch after patch, row by row within each.

    Scalar bands are the *context* of a pixel, array bands its *sequences*. Without ``modalities`` an item
    has ``context``, float32 ``(band,)``, and ``sequence``, ``(step, band)``, those of the two that there are.
    Sequences of each pixel's own length are batched with ``collate=pad_collate``.

    Attributes:
        manifest: of the export, where there is one.
        context: names of the scalar bands.
        lists: names of the array bands.
    """

    def __init__(
        self,
        source: Source,
        *,
        modalities: Mapping[str, str | Sequence[str]] | None = None,
        dtypes: Mapping[str, str] | None = None,
        split: str | None = None,
        manifest: str | PathLike[str] | Manifest | None = None,
        mixer: str | PathLike[str] | Mixer | None = None,
        cache: str | Path | None = None,
        offline: bool | None = None,
    ) -> None:
        """Opens an export and reads its first record.

        Args:
            source: prefix of the export, a record file, or all record files in order.
            modalities: name → bands that become ``(band,)`` or ``(step, band)``, or one band without that
                axis; scalar and array bands are not mixed in one.
            dtypes: modality → NumPy type.
            split: of an export with splits.
            manifest: where it does not lie beside the records.
            mixer: likewise.
            cache: folder of the cache.
            offline: whether nothing may be fetched.

        Raises:
            JobError: there is no such export or band, or its records are image patches.
            EmptyDatabase: there are no records.
            CorruptRecord: a record file is damaged; with file, record and byte.
        """
        export = open_export(
            source, manifest=manifest, mixer=mixer, split=split, cache=cache, offline=offline
        )
        self.manifest = export.manifest
        self.records = export.records
        if self.manifest is not None and not self.manifest.format_options.sequence_data:
            raise JobError(
                f"{export.name}: its records are image patches (no sequenceData); open it with PatchDatabase"
            )
        if not len(self.records):
            raise EmptyDatabase(f"{export.name}: there are no records; give an export that holds some")
        context, lists = parse_sequence_example(self.records[0])
        self.context, self.lists = tuple(context), tuple(lists)
        scalars = [numbers_of(values) for values in context.values()]
        if any(value is None or value.size != 1 for value in scalars) or not (context or lists):
            raise JobError(
                f"{self.records.where(0)}: it is no SequenceExample of one pixel; image patches are opened "
                "with PatchDatabase, rows of a table with TableDatabase"
            )
        wanted = modalities
        if wanted is None:
            wanted = {
                name: bands for name, bands in (("context", self.context), ("sequence", self.lists)) if bands
            }
        self._wanted = resolve_columns(wanted, (*self.context, *self.lists), dtypes, export.name, closed=True)
        for columns in self._wanted:
            if len({column in self.lists for column in columns.columns}) > 1:
                raise JobError(
                    f"modalities.{columns.name}: scalar bands ({', '.join(self.context)}) and array bands "
                    f"({', '.join(self.lists)}) cannot be one array; make them two modalities"
                )
        self._patch = _patch_size(export)
        self._kept = _kept_patches(export)
        self._first = export.first

    @property
    def modalities(self) -> tuple[str, ...]:
        """Names of the modalities."""
        return tuple(wanted.name for wanted in self._wanted)

    def __len__(self) -> int:
        return len(self.records)

    def load(self, index: int) -> Item:
        """Returns the values of a pixel, new in memory."""
        context, lists = parse_sequence_example(self.records[index])
        found = []
        for wanted in self._wanted:
            bands = [self._band(column, context, lists, index) for column in wanted.columns]
            found.append(typed(self._joined(wanted, bands, index), wanted.dtype, self.records.where(index)))
        return tuple(found)

    def _band(self, name: str, context: dict[str, Values], lists: Lists, index: int) -> NDArray[Any]:
        if name in self.lists:
            # a pixel without observations may have no list at all
            steps = [numbers_of(step) for step in lists.get(name, [])]
            if not steps:
                return np.empty(0, np.float32)
            if any(step is None or steps[0] is None or step.size != steps[0].size for step in steps):
                raise DataError(
                    f"{self.records.where(index)}, band {name!r}: steps have unequal numbers of values"
                )
            rows = np.stack([step for step in steps if step is not None])
            return rows[:, 0] if rows.shape[1] == 1 else rows
        values = numbers_of(context.get(name))
        if values is None or values.size != 1:
            size = 0 if values is None else values.size
            raise DataError(f"{self.records.where(index)}, band {name!r}: {size} values where one is due")
        return values.reshape(())

    def _joined(self, wanted: Columns, bands: list[NDArray[Any]], index: int) -> NDArray[Any]:
        if wanted.alone or (len(bands) == 1 and bands[0].ndim == 2):
            return bands[0]
        if len({band.shape[:1] for band in bands}) > 1:
            lengths = ", ".join(f"{c}: {len(b)}" for c, b in zip(wanted.columns, bands, strict=True))
            raise DataError(
                f"{self.records.where(index)}, modality {wanted.name!r}: sequences of unequal length "
                f"({lengths}); make "
                "each a modality of its own"
            )
        return np.stack(bands, axis=-1)

    def key(self, index: int) -> Hashable:
        """Returns ``(patch, row, column)`` of a pixel where that is known, else its number."""
        return index if self._patch is None else self.position(index)

    def position(self, index: int) -> tuple[int, int, int]:
        """Returns the patch of a pixel, and the row and column in the patch.

        Raises:
            DataError: there is neither mixer nor manifest.
        """
        if self._patch is None:
            raise DataError("there is neither mixer nor manifest, so the pixels lie nowhere; give mixer=")
        width, height = self._patch
        patch, pixel = divmod(self._at(index) + self._first, width * height)
        row, col = divmod(pixel, width)
        return int(self._kept[patch]) if self._kept is not None else patch, row, col

    @property
    def fingerprint(self) -> str:
        """A digest of the records."""
        return digest("sequences", self.records.fingerprint)


def _patch_size(export: Export) -> tuple[int, int] | None:
    if export.manifest is not None:
        return export.manifest.format_options.patch_width_height
    return None if export.mixer is None else export.mixer.patch_width_height


def _kept_patches(export: Export) -> NDArray[np.int64] | None:
    manifest = export.manifest
    if manifest is None:
        return None
    ranges = manifest.kept_patches
    if export.split is not None and manifest.splits is not None:
        ranges = next(part.kept_patches for part in manifest.splits.parts if part.name == export.split)
    return None if ranges is None else from_ranges(ranges)
