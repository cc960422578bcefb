"""The parts of a manifest, each a frozen value; keys in JSON are the attributes' names in camelCase."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from patchbeam.errors import JobError
from patchbeam.manifest.jsonform import Entry, short

if TYPE_CHECKING:
    from odc.geo.geobox import GeoBox

    from patchbeam.statistics import Moments

WireType = Literal["float", "int64", "bytes"]
Range = tuple[int, int]
"""First and count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGrid(Entry):
    """The export grid.

    Attributes:
        crs_code: ``EPSG:n`` where there is a code.
        crs_wkt: the CRS in full.
        transform: xScale, xShear, xTranslate, yShear, yScale, yTranslate, from pixels to CRS units; the
            origin is the outer corner of the first pixel, which is in the first patch.
        width: pixels in a row.
        height: rows of pixels.
    """

    crs_code: str | None = None
    crs_wkt: str
    transform: tuple[float, float, float, float, float, float]
    width: int
    height: int

    @classmethod
    def from_geobox(cls, grid: GeoBox) -> ManifestGrid:
        """Returns a grid as the manifest holds it.

        Raises:
            JobError: the grid has no CRS.
        """
        from patchbeam.mixer import crs_code

        if grid.crs is None:
            raise JobError("grid.crsWkt: the grid has no CRS")
        a, b, c, d, e, f = (float(value) + 0.0 for value in tuple(grid.affine)[:6])
        return cls(
            crs_code=crs_code(grid.crs.proj),
            crs_wkt=grid.crs.proj.to_wkt(),
            transform=(a, b, c, d, e, f),
            width=int(grid.shape.x),
            height=int(grid.shape.y),
        )

    def geobox(self) -> GeoBox:
        """Returns the grid.

        Raises:
            GridError: PROJ does not know the CRS.
        """
        from affine import Affine
        from odc.geo.geobox import GeoBox

        from patchbeam.crs import parse_crs

        crs = parse_crs(self.crs_wkt, "grid.crsWkt")
        return GeoBox((self.height, self.width), Affine(*self.transform), crs)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestClass(Entry):
    """One class of a class map: its value, and the name and colour (``#rrggbb``) that it is shown with."""

    value: int
    name: str | None = None
    colour: str | None = None

    def __post_init__(self) -> None:
        if self.colour is not None and not re.fullmatch("#[0-9a-fA-F]{6}", self.colour):
            raise JobError(f"colour: {self.colour!r} is not #rrggbb")


@dataclass(frozen=True, slots=True, kw_only=True)
class BandStatistics(Entry):
    """Statistics of a band over the kept patches without their margins.

    Attributes:
        valid_count: values that are not masked.
        min: the smallest of them, ``None`` when there is none; so too the others.
        max: the largest.
        mean: arithmetic mean.
        standard_deviation: of the population.
        percentiles: percentage → the value of rank ``ceil(percentage / 100 · valid_count)``.
        percentile_error: bound on their error, as a share of them; 0 when they are exact.
        class_histogram: ``(value, count)`` of each value that occurs, rising; of bands that hold classes.
        class_weights: ``(value, weight)``: ``valid_count / (number of classes · count)``.
    """

    valid_count: int
    min: int | float | None = None
    max: int | float | None = None
    mean: float | None = None
    standard_deviation: float | None = None
    percentiles: Mapping[str, float] | None = None
    percentile_error: float | None = None
    class_histogram: tuple[tuple[int, int], ...] | None = None
    class_weights: tuple[tuple[int, float], ...] | None = None

    @classmethod
    def from_moments(cls, moments: Moments) -> BandStatistics:
        """Returns merged moments as the manifest holds them, without percentiles and classes."""
        if not moments.count:
            return cls(valid_count=0)
        return cls(
            valid_count=moments.count,
            min=moments.minimum,
            max=moments.maximum,
            mean=moments.mean,
            standard_deviation=moments.std,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestBand(Entry):
    """One band, in the order of the records.

    Attributes:
        name: its name; also the key of its feature, unless bands are collapsed.
        type: named type of its values before they went into records (``uint16``).
        wire_type: which list of a feature holds it.
        shape: sizes of its values in a record, margin included: ``(height, width)``, arrays
            ``(depth, height, width)``; for per-pixel records ``()`` or ``(depth,)``. ``None`` in the place
            of a depth that varies.
        times: ISO 8601 time of each step of an array band.
        classes: classes of a class map.
        nodata: the value that meant "no data" in its source; may be NaN.
        description: the band's description in its source.
        source: name of the source.
        source_band: number of the band in the source's files, from 1.
        source_bands: numbers of the bands that are the steps of an array band, from 1.
        resampling: how it was brought onto the grid.
        statistics: over the kept patches.
        masked: values in the kept patches that are masked or NaN, margins not counted.
        rounded_values: numbers that the wire type could not hold exactly.
        split_statistics: split → statistics over its patches.
    """

    name: str
    type: str
    wire_type: WireType
    shape: tuple[int | None, ...]
    times: tuple[str, ...] | None = None
    classes: tuple[ManifestClass, ...] | None = None
    nodata: int | float | None = None
    description: str | None = None
    source: str | None = None
    source_band: int | None = None
    source_bands: tuple[int, ...] | None = None
    resampling: str | None = None
    statistics: BandStatistics | None = None
    masked: int | None = None
    rounded_values: int | None = None
    split_statistics: Mapping[str, BandStatistics] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestShard(Entry):
    """One record file.

    Attributes:
        name: its name, without the folder; it lies beside the manifest.
        split: the split that it belongs to, ``None`` without splits.
        records: number of records.
        first_record: index of its first record among all of its split.
        uncompressed_bytes: size of the records with their framing.
        stored_bytes: size of the file.
        crc32c: of the file's bytes, base64, as Cloud Storage reports it.
    """

    name: str
    split: str | None = None
    records: int
    first_record: int
    uncompressed_bytes: int
    stored_bytes: int
    crc32c: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPatches(Entry):
    """Counts of patches.

    Attributes:
        planned: patches that the plan had.
        written: patches that have records.
        dropped: patches that have none, whatever the reason.
    """

    planned: int
    written: int
    dropped: int


def _write_ranges(ranges: tuple[Range, ...]) -> list[list[int]]:
    return [[int(first), int(count)] for first, count in ranges]


def _read_ranges(value: Any, path: str) -> tuple[Range, ...]:
    if not isinstance(value, list):
        raise JobError(f"{path}: {short(value)} is not a list of [first, count]")
    for i, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2 or any(type(n) is not int for n in pair):
            raise JobError(f"{path}[{i}]: {short(pair)} is not [first, count]")
    return tuple((first, count) for first, count in value)


def ranges_field() -> Any:
    """An attribute that holds ranges; read and written without a call a number, since there may be many."""
    return field(default=None, metadata={"read": _read_ranges, "write": _write_ranges})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSplit(Entry):
    """One split.

    Attributes:
        name: its name, as in the names of its shards.
        fraction: the share of blocks that was asked for.
        kept_patches: the patches in it, ``(first, count)`` each, in order.
    """

    name: str
    fraction: float
    kept_patches: tuple[Range, ...] | None = ranges_field()


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSplits(Entry):
    """How patches were split by blocks.

    Attributes:
        block: columns and rows of patches in a block.
        seed: of the assignment.
        guard: patches dropped on one side of each border between splits, across and down the larger number.
        guard_columns_rows: both numbers.
        parts: the splits.
    """

    block: tuple[int, int]
    seed: int
    guard: int
    guard_columns_rows: tuple[int, int] | None = None
    parts: tuple[ManifestSplit, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestKeep(Entry):
    """Which patches were kept by the classes in them.

    Attributes:
        band: the band that holds the classes.
        classes: the values that count; ``None`` for every valid one.
        minimum: share of a patch's pixels that had to be of these classes; 0 for one pixel.
    """

    band: str
    classes: tuple[int, ...] | None = None
    minimum: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSample(Entry):
    """How patches were drawn.

    Attributes:
        patches: how many, before their pixels were looked at.
        per_class: how many had to hold each class, where so many did.
        band: the band that holds the classes.
        classes: the classes that were balanced; ``None`` for every one that occurs.
        minimum: share of a patch that a class needed for the patch to hold it; 0 for one pixel.
        seed: of the draw.
    """

    patches: int | None = None
    per_class: int | None = None
    band: str | None = None
    classes: tuple[int, ...] | None = None
    minimum: float | None = None
    seed: int
