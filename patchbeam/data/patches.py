"""Image patches as items: what an export wrote, by bands, in patch order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.bandlayout import BandLayout, from_manifest, from_record
from patchbeam.data.collate import Item
from patchbeam.data.database import Database, Spec, digest
from patchbeam.data.decode import PatchDecoder
from patchbeam.data.errors import DataError, note
from patchbeam.data.exports import Export, Source, open_export
from patchbeam.data.memory import MEMORY
from patchbeam.data.modality import Modality, Normalize, resolve
from patchbeam.data.order import Ints
from patchbeam.data.places import Affine6, PatchPlace, place_of_manifest, place_of_mixer
from patchbeam.errors import JobError
from patchbeam.manifest import Manifest, from_ranges
from patchbeam.mixer import Mixer
from patchbeam.records.parse import feature_kinds


class PatchDatabase(Database):
    """The patches of an image export, one item a record, in patch order.

    With a manifest nothing has to be spelled out; with a mixer alone bands and sizes are read from the
    first record, and what that leaves open is asked for. Images are ``(channel, row, col)``.

    Attributes:
        manifest: of the export, where there is one.
        mixer: where there is one and no manifest.
        place: how patches lie on the map; ``None`` where they do not.
        bands: of a record, in order.
    """

    joint_batches = True

    def __init__(
        self,
        source: Source,
        *,
        modalities: Mapping[str, Modality | Sequence[str] | str] | None = None,
        normalize: Normalize = False,
        margin: Literal["keep", "crop"] = "keep",
        split: str | None = None,
        manifest: str | PathLike[str] | Manifest | None = None,
        mixer: str | PathLike[str] | Mixer | None = None,
        kernel_size: int | tuple[int, int] | None = None,
        depths: Mapping[str, int] | None = None,
        cache: str | Path | None = None,
        offline: bool | None = None,
    ) -> None:
        """Opens an export; with a manifest no record file is touched yet.

        Args:
            source: prefix of the export, a record file, or all record files in order; local, ``gs://``
                or ``https://`` (copied into the cache when first needed).
            modalities: name → band names or a :class:`Modality`. Default: ``image``, of all bands.
            normalize: of modalities that are given by their bands alone, and of the default one.
            margin: whether the pixels of the kernel's margin are kept or cut off.
            split: of an export with splits.
            manifest: where it does not lie beside the records.
            mixer: likewise.
            kernel_size: of the export, only where there is no manifest.
            depths: values a pixel of array bands, only where there is no manifest.
            cache: folder of the cache.
            offline: whether nothing may be fetched.

        Raises:
            JobError: no such export, band or split, or something that only the user knows has to be given.
            CountMismatch: there are not as many records as the mixer or manifest says; of gzip files that
                cannot be sought it is said when all of them have been read.
            CorruptRecord: a record file is damaged; with file, record and byte.
        """
        if margin not in ("keep", "crop"):
            raise JobError(f"margin: {margin!r} is neither keep nor crop")
        export = open_export(
            source,
            manifest=manifest,
            mixer=mixer,
            split=split,
            cache=cache,
            offline=offline,
            patches=True,
        )
        self.manifest = export.manifest
        self.mixer = export.mixer
        self.records = export.records
        self._name = export.name
        self.place: PatchPlace | None
        if self.manifest is not None:
            if kernel_size is not None or depths is not None:
                raise JobError("kernel_size and depths are what the manifest says; leave them out")
            self.bands = from_manifest(self.manifest, export.name)
            self.place = place_of_manifest(self.manifest)
            kernel = self.manifest.format_options.kernel_width_height
            margins = kernel[0] // 2, kernel[1] // 2
            self._patches = _kept(export, self.manifest)
        else:
            kernel_pair = (kernel_size, kernel_size) if isinstance(kernel_size, int) else kernel_size
            self.bands, margins = _without_manifest(export, kernel_pair, depths)
            self.place = None if self.mixer is None else place_of_mixer(self.mixer, margins)
            self._patches = None
        self.crop = margins if margin == "crop" else (0, 0)
        self.resolved = resolve(modalities, self.bands, self.crop, normalize, export.name)
        self._decoder = PatchDecoder(self.resolved, self.crop)
        self._specs = {modality.name: modality.spec for modality in self.resolved}

    @property
    def modalities(self) -> tuple[str, ...]:
        """Names of the modalities."""
        return tuple(modality.name for modality in self.resolved)

    @property
    def specs(self) -> Mapping[str, Spec]:
        """Shape, type and layout of every modality."""
        return self._specs

    def __len__(self) -> int:
        return len(self.records)

    def load(self, index: int) -> Item:
        """Decodes a record into new arrays."""
        targets = [np.empty(modality.shape, modality.dtype) for modality in self.resolved]
        self._decoder.fill(self.records[index], targets, lambda: self.records.where(index))
        return tuple(t[0] if m.squeeze else t for m, t in zip(self.resolved, targets, strict=True))

    def load_batch(self, indices: Ints | Sequence[int]) -> tuple[Any, ...]:
        """Decodes records straight into the arrays of a batch, new in memory: ``(item, channel, row, col)``.

        Raises:
            CorruptRecord: a record is damaged; with file, record and byte.
            DataError: a record is not as the others; with file and record.
        """
        numbers = [self._at(int(i)) for i in indices]
        if not numbers:
            raise DataError("a batch of no items; give at least one")
        wholes = [MEMORY.empty((len(numbers), *m.shape), m.dtype) for m in self.resolved]
        at = 0
        with closing(self.records.blocks(np.array(numbers, np.int64))) as blocks:
            while at < len(numbers):
                try:
                    block = next(blocks)
                    if isinstance(block, memoryview):
                        self._fill(block, wholes, at, numbers)
                        at += 1
                        continue
                    if self._decoder.fill_rows(block, [whole[at : at + len(block)] for whole in wholes]):
                        at += len(block)
                        continue
                    for row in block:
                        self._fill(row.data, wholes, at, numbers)
                        at += 1
                except Exception as error:
                    note(error, f"item {numbers[at]} (patch {self.key(numbers[at])})")
                    raise
        return tuple(w[:, 0] if m.squeeze else w for m, w in zip(self.resolved, wholes, strict=True))

    def _fill(self, data: memoryview, wholes: list[NDArray[Any]], at: int, numbers: list[int]) -> None:
        self._decoder.fill(data, [whole[at] for whole in wholes], partial(self.records.where, numbers[at]))

    @property
    def patch_indices(self) -> Ints:
        """The patch of each item in the export's patch grid, int64 ``(item,)``."""
        return np.arange(len(self), dtype=np.int64) if self._patches is None else self._patches

    def key(self, index: int) -> Hashable:
        """Returns the patch of an item in the export's patch grid."""
        return index if self._patches is None else int(self._patches[index])

    def position(self, index: int) -> tuple[int, int]:
        """Returns the patch row and column of an item.

        Raises:
            DataError: there is neither mixer nor manifest, so patches lie nowhere.
        """
        return self._placed().row_col(int(self.patch_indices[self._at(index)]))

    def transform(self, index: int) -> Affine6:
        """Returns the affine of an item, from its pixels as they are given out to the CRS.

        The six numbers xScale, xShear, xTranslate, yShear, yScale, yTranslate are in the order of
        ``rasterio.Affine``. The origin is that of the margin where it is kept.

        Raises:
            DataError: there is neither mixer nor manifest, so patches lie nowhere.
        """
        place = self._placed()
        return place.transform(int(self.patch_indices[self._at(index)]), margin=self.crop == (0, 0))

    @property
    def fingerprint(self) -> str:
        """A digest of the records, modalities apart."""
        return digest("patches", self.records.fingerprint)

    def _placed(self) -> PatchPlace:
        if self.place is None:
            raise DataError(
                f"{self._name}: there is neither mixer nor manifest, so its patches lie nowhere; give mixer="
            )
        return self.place


def _kept(export: Export, manifest: Manifest) -> NDArray[np.int64] | None:
    """The patch of each record, or ``None`` where record i is patch i."""
    count, expected = len(export.records), sum(s.records for s in manifest.shards if s.split == export.split)
    ranges = manifest.kept_patches
    if export.split is not None and manifest.splits is not None:
        ranges = next(part.kept_patches for part in manifest.splits.parts if part.name == export.split)
    if ranges is None and export.first == 0 and count == expected:
        return None
    kept = np.arange(manifest.patches.planned, dtype=np.int64) if ranges is None else from_ranges(ranges)
    return kept[export.first : export.first + count]


def _without_manifest(
    export: Export, kernel: tuple[int, int] | None, depths: Mapping[str, int] | None
) -> tuple[tuple[BandLayout, ...], tuple[int, int]]:
    records, mixer = export.records, export.mixer
    if mixer is None:
        raise JobError(
            f"{export.name}: neither manifest nor mixer beside the records, so the patch size is not known; "
            "give "
            "mixer= or manifest=, or use RecordDatabase for records that are no image patches"
        )
    return from_record(
        feature_kinds(records.first()),
        mixer.patch_width_height,
        kernel_width_height=kernel,
        depths=depths,
        where=records.where(0),
    )
