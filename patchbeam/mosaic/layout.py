"""Where the records of an import lie on the map: from a mixer, or from a manifest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox

from patchbeam.errors import JobError
from patchbeam.manifest.ranges import from_ranges
from patchbeam.mixer import Mixer
from patchbeam.mosaic.options import MapClass
from patchbeam.patches import PatchGrid

if TYPE_CHECKING:
    from patchbeam.manifest import Manifest, ManifestClass

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBand:
    """A band as the export's manifest says it.

    Attributes:
        name: feature name.
        type: named type of the export's band.
        depth: numbers a pixel; 1 for a scalar band, ``None`` for lists of each pixel's own length.
        nodata: nodata value of the raster that it came from.
        description: of the band in that raster.
        classes: of a class map.
    """

    name: str
    type: str
    depth: int | None = 1
    nodata: float | None = None
    description: str | None = None
    classes: tuple[MapClass, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class MapLayout:
    """The patches of an export, as its records are numbered.

    Attributes:
        export_grid: the grid that was exported.
        patches: the patch grid on it.
        kept: ``(range, [first, count])`` of the patches that have records, ascending; ``None``: all.
        bands: what the manifest knows of the bands; empty with a mixer.
        mask_band: name of the export's mask band, or ``None``.
        collapsed: name of the one feature that holds all bands, or ``None``.
        per_pixel: whether the export wrote one record a pixel.
        shards: name and number of records of each shard of the export; empty with a mixer.
        source: name of the file that this was read from.
        with_manifest: whether that was a manifest; a mixer knows no edge, kernel or bands.
    """

    export_grid: GeoBox
    patches: PatchGrid
    kept: Ints | None = None
    bands: tuple[KnownBand, ...] = ()
    mask_band: str | None = None
    collapsed: str | None = None
    per_pixel: bool = False
    shards: tuple[tuple[str, int], ...] = ()
    source: str = "mixer"
    with_manifest: bool = False

    @property
    def width_height(self) -> tuple[int, int]:
        """Pixels of the map: of the export grid, what patches cover."""
        covered = self.patches.padded_width_height
        return min(covered[0], self.patches.width), min(covered[1], self.patches.height)

    @property
    def grid(self) -> GeoBox:
        """The grid of the map."""
        width, height = self.width_height
        return GeoBox((height, width), self.export_grid.affine, self.export_grid.crs)

    @property
    def kept_count(self) -> int:
        """Patches that have records."""
        return self.patches.count if self.kept is None else int(self.kept[:, 1].sum())

    def records_of(self, first: int, stop: int) -> tuple[Ints, int]:
        """Returns the patches of ``first`` to ``stop`` that have records, and the first one's record.

        Records are in patch order, so those of consecutive patches are consecutive.
        """
        if self.kept is None:
            return np.arange(first, stop, dtype=np.int64), first
        ends, before = self._kept_ends
        # only the ranges that share a patch with the one asked for: there may be a million in all
        at = int(np.searchsorted(ends, first, "right"))
        until = max(at, int(np.searchsorted(self.kept[:, 0], stop, "left")))
        record = int(before[at])
        if at < len(ends):
            record += max(0, first - int(self.kept[at, 0]))
        starts = np.maximum(self.kept[at:until, 0], first)
        counts = np.minimum(ends[at:until], stop) - starts
        return from_ranges(np.stack([starts, counts], axis=1)), record

    @cached_property
    def _kept_ends(self) -> tuple[Ints, Ints]:
        """The patch after each kept range, and the patches kept before each one and in all."""
        assert self.kept is not None
        return self.kept.sum(axis=1), np.concatenate([[0], np.cumsum(self.kept[:, 1])])

    def with_kernel(self, kernel_width_height: tuple[int, int]) -> MapLayout:
        """Returns the same layout with another margin.

        Raises:
            JobError: a manifest says otherwise.
        """
        if self.with_manifest and kernel_width_height != self.patches.kernel_width_height:
            raise JobError(
                f"kernelSize: {list(kernel_width_height)} is given and {self.source} says "
                f"{list(self.patches.kernel_width_height)}; leave kernelSize out"
            )
        return replace(self, patches=replace(self.patches, kernel_width_height=kernel_width_height))

    @classmethod
    def from_mixer(cls, mixer: Mixer, source: str = "mixer") -> MapLayout:
        """Returns the layout of a mixer: all patches, no margin known."""
        grid = mixer.grid()
        patches = PatchGrid(
            width=grid.shape.x, height=grid.shape.y, patch_width_height=mixer.patch_width_height
        )
        return cls(export_grid=grid, patches=patches, source=source)

    @classmethod
    def from_manifest(cls, manifest: Manifest, source: str = "manifest") -> MapLayout:
        """Returns the layout of a manifest.

        Raises:
            JobError: its records make no map.
        """
        options = manifest.format_options
        if manifest.grid is None:
            raise JobError(f"{source}: these records lie on no map (the manifest has no grid)")
        if manifest.splits is not None:
            names = ", ".join(part.name for part in manifest.splits.parts)
            raise JobError(
                f"{source}: these records are split into {names}; only exports without splits make a map"
            )
        grid = manifest.grid.geobox()
        patches = PatchGrid(
            width=grid.shape.x,
            height=grid.shape.y,
            patch_width_height=options.patch_width_height,
            kernel_width_height=options.kernel_width_height,
            edge=manifest.edge,
        )
        kept = manifest.kept_patches
        return cls(
            export_grid=grid,
            patches=patches,
            kept=None if kept is None else np.array(kept, np.int64).reshape(-1, 2),
            bands=tuple(
                KnownBand(
                    name=band.name,
                    type=band.type,
                    depth=_depth(band.shape, options.sequence_data),
                    nodata=band.nodata,
                    description=band.description,
                    classes=tuple(_class(entry) for entry in band.classes or ()),
                )
                for band in manifest.bands
            ),
            mask_band=manifest.mask_band,
            collapsed=manifest.bands[0].name if options.collapse_bands else None,
            per_pixel=options.sequence_data,
            shards=tuple((shard.name, shard.records) for shard in manifest.shards),
            source=source,
            with_manifest=True,
        )


def _class(entry: ManifestClass) -> MapClass:
    color = None if entry.colour is None else tuple(bytes.fromhex(entry.colour.lstrip("#")))
    return MapClass(value=entry.value, name=entry.name, color=color)


def _depth(shape: tuple[int | None, ...], sequence: bool) -> int | None:
    spatial = 0 if sequence else 2
    return shape[0] if len(shape) > spatial else 1
