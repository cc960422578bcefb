"""The parts of a manifest, each a frozen value; keys in JSON are the attributes' names in camelCase."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from patchbeam.errors import JobError, short
from patchbeam.manifest.jsonform import Entry

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
            raise JobError("grid.crsWkt: the grid has no CRS; make it with one, such as EPSG:32633")
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
