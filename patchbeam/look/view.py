"""An export opened for looking: which patch has which record, and its pixels."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from odc.geo.geobox import GeoBox

from patchbeam.elements import Array, Ints, Mask
from patchbeam.errors import JobError
from patchbeam.exported import find_export, kept_patches, mixer_patches
from patchbeam.manifest import ManifestBand, ManifestClass, from_ranges
from patchbeam.patch_values import PatchValues
from patchbeam.patches import PatchGrid
from patchbeam.records.files import RecordFiles

DROPPED, MISSING = -1, -2
"""In the place of a record: the patch has none, or its shard is not there."""


class ExportView:
    """An export opened for looking. Close it, or use it in a ``with``.

    Attributes:
        files: its files.
        patches: the patch grid, with margins.
        grid: where it lies on the map.
        values: how records become pixels.
        records: of the shards that are there.
        first_record: of each patch, or :data:`DROPPED` or :data:`MISSING`.
        splits: names of the splits.
        split_of: of each patch the number of its split, -1 for none.
        mask_band: name of the band that says which pixels are valid.
        masked_seen: whether a picture shows a masked pixel; the legend then says what is grey.
    """

    masked_seen = False

    def __init__(
        self, prefix: str, *, kernel: tuple[int, int] | None = None, threads: int | None = None
    ) -> None:
        """Opens an export; its shards are indexed, not read.

        Args:
            prefix: what the names of its files begin with.
            kernel: ``kernelSize``, where there is no manifest and it cannot be told from a record.
            threads: default: all cores.

        Raises:
            JobError: there is no such export, or it cannot be laid out.
            CorruptRecord: a shard is damaged.
        """
        self.files = find_export(prefix)
        manifest = self.files.manifest
        for problem in self.files.problems:
            if problem.about != "mixer" or manifest is None:
                raise JobError(problem.text)
        there = [path for path in self.files.shards if path not in self.files.missing]
        self._stack = ExitStack()
        try:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="patchbeam-look-"))
            self.records = self._stack.enter_context(
                RecordFiles.open(there, spool_folder=folder, threads=threads)
            )
            if manifest is not None:
                said = manifest.format_options.kernel_width_height
                if kernel not in (None, said):
                    raise JobError(
                        f"--kernel-size: {list(kernel or ())} is given and {self.files.manifest_path} says "
                        f"{list(said)}; leave the option out"
                    )
                self._by_manifest()
            else:
                self._by_mixer(kernel)
        except BaseException:
            self._stack.close()
            raise

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the bands; of arrays one a step."""
        return self.values.bands

    def band_entry(self, name: str) -> ManifestBand | None:
        """Returns what the manifest says of a band."""
        if self.files.manifest is None:
            return None
        own = name if name in {band.name for band in self.files.manifest.bands} else name.rpartition("[")[0]
        return next((band for band in self.files.manifest.bands if band.name == own), None)

    @property
    def present(self) -> Ints:
        """Numbers of the patches that have records here."""
        return np.flatnonzero(self.first_record >= 0)

    @property
    def crs_code(self) -> str | None:
        """The code of the CRS, such as ``EPSG:32633``, where one is written in manifest or mixer."""
        if self.files.manifest is not None and self.files.manifest.grid is not None:
            return self.files.manifest.grid.crs_code
        crs = "" if self.files.mixer is None else self.files.mixer.crs
        return crs if 0 < len(crs) <= 16 else None

    def classes_of(self, name: str) -> tuple[ManifestClass, ...] | None:
        """Returns the classes of a band that is a class map."""
        entry = self.band_entry(name)
        return None if entry is None or not entry.classes else tuple(entry.classes)

    def read(self, patch: int, bands: Sequence[str], step: int = 1) -> tuple[list[Array], Mask | None]:
        """Returns bands of a patch, ``(row, col)`` with the margin, and which pixels are masked.

        Args:
            patch: its number.
            bands: names.
            step: for records of one pixel, every how many pixels one is looked at.

        Raises:
            CorruptRecord: its record is damaged.
        """
        names = list(bands)
        if self.mask_band is not None and self.mask_band not in names:
            names.append(self.mask_band)
        first = int(self.first_record[patch])
        records = self.records.read_range(first, self.values.records_per_patch)
        found = self.values.decoder(names).decode(records, step)
        chosen = found[: len(bands)]
        masked: Mask | None = None
        if tuple(bands) == (self.mask_band,):
            pass  # it is shown itself
        elif self.mask_band is not None:
            # the mask band speaks of all bands of the record together, and others may be masked than these
            masked = (found[names.index(self.mask_band)] == 0) & self._all_default(chosen)
        elif all(self._may_be_masked(name) for name in bands):
            masked = self._all_default(chosen)
        unknown = [np.isnan(values) for values in chosen if values.dtype.kind == "f"]
        if unknown and any(u.any() for u in unknown):
            nowhere = np.logical_or.reduce(unknown)
            masked = nowhere if masked is None else masked | nowhere
        return chosen, masked

    def inner(self, values: Array) -> Array:
        """Returns the pixels of a patch without its margin."""
        across, down = self.values.margin_width_height
        height, width = values.shape[:2]
        return values[down : height - down, across : width - across]

    def close(self) -> None:
        """Forgets open files and deletes temporary ones."""
        self._stack.close()

    def __enter__(self) -> ExportView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all_default(self, chosen: Sequence[Array]) -> Mask:
        """Where bands all hold what a masked pixel holds."""
        assert self.files.manifest is not None
        default = np.float64(self.files.manifest.format_options.default_value)
        with np.errstate(over="ignore"):
            same = [
                values == (values.dtype.type(default) if values.dtype.kind == "f" else default)
                for values in chosen
            ]
        every: Mask = np.logical_and.reduce(same)
        return every

    def _may_be_masked(self, name: str) -> bool:
        entry = self.band_entry(name)
        return entry is not None and bool(entry.masked)

    def _by_manifest(self) -> None:
        manifest = self.files.manifest
        assert manifest is not None
        if manifest.grid is None:
            raise JobError(f"{self.files.manifest_path}: these records lie on no map")
        self.values = PatchValues.from_manifest(manifest)
        self.grid: GeoBox = manifest.grid.geobox()
        options = manifest.format_options
        self.patches = PatchGrid(
            width=manifest.grid.width,
            height=manifest.grid.height,
            patch_width_height=options.patch_width_height,
            kernel_width_height=options.kernel_width_height,
            edge=manifest.edge,
        )
        self.mask_band = manifest.mask_band if manifest.mask_band in self.bands else None
        kept = kept_patches(manifest)
        counts = [shard.records for shard in manifest.shards]
        numbers = {file.name: number for number, file in enumerate(self.records.files)}
        own = np.zeros(
            sum(counts), np.int64
        )  # of each record of the export its number among those that are here
        position = before = 0
        for shard, path, count in zip(manifest.shards, self.files.shards, counts, strict=True):
            if path in self.files.missing:
                own[position : position + count] = MISSING
            else:
                number = numbers[path]
                if self.records.counts[number] != count:
                    raise JobError(
                        f"{path}: holds {self.records.counts[number]} records, and the manifest says "
                        f"{shard.records}; patchbeam verify tells more"
                    )
                own[position : position + count] = np.arange(before, before + count)
                before += count
            position += count
        each = self.values.records_per_patch
        if position != len(kept) * each:
            raise JobError(
                f"{self.files.manifest_path}: shards hold {position} records for {len(kept)} patches"
            )
        self.first_record = np.full(self.patches.count, DROPPED, np.int64)
        firsts, lasts = own[::each], own[each - 1 :: each]
        self.first_record[kept] = np.where(lasts < 0, MISSING, firsts)
        self.splits: tuple[str, ...] = ()
        self.split_of = np.full(self.patches.count, -1, np.int64)
        if manifest.splits is not None:
            self.splits = tuple(part.name for part in manifest.splits.parts)
            for number, part in enumerate(manifest.splits.parts):
                self.split_of[from_ranges(part.kept_patches or ())] = number

    def _by_mixer(self, kernel: tuple[int, int] | None) -> None:
        mixer = self.files.mixer
        if mixer is None:
            raise JobError(
                f"{self.files.prefix}: there is neither a manifest nor a mixer to say where patches lie"
            )
        if not len(self.records):
            raise JobError(f"{self.files.prefix}: there are no records to look at")
        pixels = math.prod(mixer.patch_width_height)
        each = pixels if len(self.records) > mixer.total_patches else 1
        there = len(self.records) // each
        if there > mixer.total_patches or len(self.records) % each:
            raise JobError(
                f"{self.files.mixer_path}: totalPatches is {mixer.total_patches}, and there are "
                f"{len(self.records)} records; patchbeam verify tells more"
            )
        self.values = PatchValues.from_record(
            self.records[0], mixer.patch_width_height, kernel, records_per_patch=each
        )
        across, down = self.values.margin_width_height
        margin = (max(1, 2 * across), max(1, 2 * down))
        self.patches = replace(mixer_patches(mixer), kernel_width_height=margin)
        self.grid = mixer.grid()
        self.mask_band = None
        self.splits = ()
        self.split_of = np.full(self.patches.count, -1, np.int64)
        self.first_record = np.full(self.patches.count, MISSING, np.int64)
        self.first_record[:there] = np.arange(there, dtype=np.int64) * each
