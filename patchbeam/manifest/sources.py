"""The sources in a manifest: their files, and how pixels came from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from patchbeam.manifest.jsonform import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile(Entry):
    """A source file as it was when it was read.

    Attributes:
        path: of the file.
        size_bytes: its size.
        modified: modification time (ISO 8601) or etag.
        masked_windows: column, row, width and height in pixels of the grid, where it could not be read and
            was masked instead.
        nodata: of each band, where a catalogue told it.
        scales: of each band, where a catalogue told them.
        offsets: of each band, where a catalogue told them.
    """

    path: str
    size_bytes: int | None = None
    modified: str | None = None
    masked_windows: tuple[tuple[int, int, int, int], ...] | None = None
    nodata: tuple[int | float, ...] | None = None
    scales: tuple[int | float, ...] | None = None
    offsets: tuple[int | float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestQuality(Entry):
    """The band that said which pixels of a source were good; one of keep, drop and bits is there.

    Attributes:
        band: its name in the job.
        index: its number in its files, from 1.
        files: one a file of the source; ``None`` when it is a band of the source's own files.
        keep: values of good pixels.
        drop: values of bad pixels.
        bits: numbers of the bits that mark a bad pixel.
    """

    band: str
    index: int
    files: tuple[ManifestFile, ...] | None = None
    keep: tuple[int, ...] | None = None
    drop: tuple[int, ...] | None = None
    bits: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestVector(Entry):
    """How a vector layer was burnt.

    Attributes:
        layer: its name in the file.
        attribute: whose number was burnt.
        value: what was burnt without an attribute.
        background: of pixels that no feature covers; ``None``: they are masked.
        all_touched: whether every pixel that a feature touches was burnt.
        order_by: attribute by which features were burnt, rising.
        crs_wkt: CRS of the layer.
        type: named type of the values.
        indexed: whether only what met a block was read.
    """

    layer: str | None = None
    attribute: str | None = None
    value: int | float | None = None
    background: int | float | None = None
    all_touched: bool
    order_by: str | None = None
    crs_wkt: str
    type: str
    indexed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSource(Entry):
    """A source: its files, and how they made one raster, or an observation each.

    Attributes:
        name: in the job; ``NAME.ASSET`` for one of several assets of a catalogue.
        files: in the order in which they were composed.
        compose: what several valid pixels at one place became.
        nodata: the nodata value that the job gave.
        unscale: whether scale and offset were applied.
        crs_wkt: the CRS that the job gave in the place of the files' own.
        masked_observations: what became of masked observations of a series.
        group: name in the job, of a source that is one of several assets.
        quality: the band that said which pixels were good.
        vector: how a vector layer was burnt.
    """

    name: str
    files: tuple[ManifestFile, ...]
    compose: str | None = None
    nodata: int | float | None = None
    unscale: bool | None = None
    crs_wkt: str | None = None
    masked_observations: Literal["drop", "fill"] | None = None
    group: str | None = None
    quality: ManifestQuality | None = None
    vector: ManifestVector | None = None
