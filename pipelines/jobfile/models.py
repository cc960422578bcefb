"""What a job file may hold, as pydantic models; their JSON Schema is what ``patchbeam schema`` prints."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from patchbeam.image_records import BLOCK_BYTES

TypeName = Literal[
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"
]
Resampling = Literal[
    "nearest",
    "bilinear",
    "cubic",
    "cubic_spline",
    "lanczos",
    "average",
    "mode",
    "min",
    "max",
    "med",
    "q1",
    "q3",
    "rms",
]


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("holds a NUL character, which no file name can; take it out")
    return value


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _pair(value: Any) -> Any:
    return [value, value] if isinstance(value, int) and not isinstance(value, bool) else value


# strict: a number in quotes, or a boolean in its place, is a slip and is said to be one
Number = Annotated[float, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Text = Annotated[str, Field(min_length=1)]
Path = Annotated[str, Field(min_length=1), AfterValidator(_no_nul)]
Paths = Annotated[list[Path], BeforeValidator(_one_or_many), Field(min_length=1)]


class Model(BaseModel):
    """Keys in camelCase; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=False, frozen=True)


class MaskModel(Model):
    """Pixels that a quality band calls bad are masked; one of keep, drop and bits."""

    band: Whole | Text = Field(description="asset key, or number or description of a band of the source")
    keep: list[Whole] | None = Field(None, description="values of good pixels")
    drop: list[Whole] | None = Field(None, description="values of bad pixels")
    bits: list[Annotated[Whole, Field(ge=0, le=63)]] | None = Field(
        None, description="bits, from 0, any of which marks a bad pixel"
    )


class RangeModel(Model):
    """A range, its ends taken in."""

    min: Number | None = Field(None, description="least value; default: no bound")
    max: Number | None = Field(None, description="greatest value; default: no bound")


class SourceModel(Model):
    """One source: rasters read as one, a catalogue of scenes, or a vector layer burnt as labels."""

    path: Paths | None = Field(
        None,
        description="a raster, a list, a pattern such as s2/*.tif, a folder, a tile index, a STAC file",
    )
    compose: Literal["first", "last", "min", "max", "mean", "median", "count"] = Field(
        "first", description="what several valid pixels at one place become"
    )
    nodata: Number | None = Field(None, description="replaces the files' own nodata value")
    crs: str | None = Field(None, description="CRS of files that carry none")
    resampling: Resampling = Field("nearest", description="for bands that do not say it themselves")
    unscale: Flag = Field(False, description="apply the scale and offset tags")
    series: Flag = Field(False, description="one observation a file: its bands are array bands")
    time: str | None = Field(None, description="strptime pattern of the date in the file name")
    masked_observations: Literal["drop", "fill"] = Field(
        "drop",
        description="drop: masked observations leave arrays shorter; fill: defaultValue in their place",
    )
    mask: MaskModel | None = Field(None, description="masks pixels by a quality band")
    assets: Annotated[list[Text], BeforeValidator(_one_or_many), Field(min_length=1)] | None = Field(
        None, description="keys of the assets of STAC items; default: those that bands name"
    )
    datetime: Text | None = Field(None, description="a day, or 2024-05-01/2024-08-31; .. for an open end")
    cloud_cover: RangeModel | None = Field(None, description="range of eo:cloud_cover, in percent")
    filter: dict[Text, Any] = Field(
        default_factory=dict, description="item property → a value, a list of them, or {min, max}"
    )
    sort_by: Text | None = Field(
        None, description="item property that orders scenes, -property for falling; default: time"
    )
    stac_api: Flag = Field(False, description="path is the URL of a STAC API, to be searched")
    collections: Annotated[list[Text], BeforeValidator(_one_or_many)] | None = Field(
        None, description="collections to search in a STAC API"
    )
    vector: Path | None = Field(None, description="a vector file, burnt on the export grid")
    layer: Text | None = Field(None, description="of a vector file that has several")
    attribute: Text | None = Field(None, description="whose number is burnt")
    value: Number | None = Field(None, description="burnt for every feature; default without attribute: 1")
    background: Number | Literal["masked"] = Field(0, description="of pixels that no feature covers")
    all_touched: Flag = Field(False, description="burn every pixel that a feature touches")
    order_by: Text | None = Field(None, description="attribute by which features are burnt, rising")


class BandModel(Model):
    """One band of the export."""

    name: Text | None = Field(None, description="feature name; default: the band's own name")
    source: str | None = Field(None, description="default: the only source")
    band: Whole | str | list[Whole] | None = Field(
        None,
        description="number from 1, or description; default: the name, or the only band there is; "
        "a list of numbers makes an array band",
    )
    type: TypeName | None = Field(None, description="default: the source's type")
    resampling: Resampling | None = Field(None, description="default: the source's")


class GridModel(Model):
    """The export grid; see the ways to give it in docs/job-file.md."""

    crs: str | None = Field(
        None, description="EPSG:n, WKT or whatever PROJ takes; default: the first source's"
    )
    scale: Number | None = Field(None, description="pixel size in metres")
    crs_transform: Annotated[list[Number], Field(min_length=6, max_length=6)] | None = Field(
        None, description="[xScale, xShear, xTranslation, yShear, yScale, yTranslation]"
    )
    dimensions: Annotated[list[Whole], BeforeValidator(_pair), Field(min_length=2, max_length=2)] | None = (
        Field(None, description="[width, height] in pixels")
    )
    region: Any = Field(None, description="GeoJSON file, GeoJSON itself, or [xmin, ymin, xmax, ymax]")
    region_crs: str | None = Field(
        None, description="default: EPSG:4326 for GeoJSON, the export CRS for a box"
    )
    clip: Flag = Field(False, description="mask pixels whose centre lies outside the region")


class KeepModel(Model):
    """Which patches are worth a record, by the classes in them."""

    band: Text = Field(description="exported integer band that holds the classes")
    classes: Annotated[list[Whole], Field(min_length=1)] | None = Field(
        None, description="values that count; default: every valid one"
    )
    minimum: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0, description="share of the patch's pixels that must be of these classes; 0 asks for one pixel"
    )


class PatchSampleModel(Model):
    """How patches are drawn: ``patches``, or ``perClass`` with ``band``."""

    patches: Annotated[Whole, Field(ge=1)] | None = Field(None, description="how many are drawn")
    per_class: Annotated[Whole, Field(ge=1)] | None = Field(
        None, description="how many hold each class at the least, where there are so many"
    )
    band: Text | None = Field(None, description="exported integer band that holds the classes")
    classes: Annotated[list[Whole], Field(min_length=1)] | None = Field(
        None, description="classes to balance; default: every one that occurs"
    )
    minimum: Annotated[Number, Field(ge=0, le=1)] = Field(
        0.0, description="share of a patch that a class must have for the patch to hold it; 0: one pixel"
    )
    seed: Annotated[Whole, Field(ge=0, lt=1 << 64)] = Field(0, description="decides which are drawn")


def _sources(value: Any) -> Any:
    if isinstance(value, str | list):
        return {"image": {"path": value}}
    if isinstance(value, dict):
        return {
            name: {"path": given} if isinstance(given, str | list) else given for name, given in value.items()
        }
    return value


def _bands(value: Any) -> Any:
    if isinstance(value, list):
        return [{"name": band} if isinstance(band, str) else band for band in value]
    return value


class ExportImageJob(Model):
    """``job: export-image``."""

    job: Literal["export-image"]
    sources: Annotated[dict[Text, SourceModel], BeforeValidator(_sources), Field(min_length=1)] = Field(
        description="a path, or a map of source name to source"
    )
    bands: Annotated[list[BandModel], BeforeValidator(_bands), Field(min_length=1)] | None = Field(
        None, description="default: every band of every source, in order"
    )
    grid: GridModel = Field(
        default_factory=lambda: GridModel.model_validate({}),
        description="default: the first source's own grid",
    )
    format_options: dict[str, Any] = Field(
        default_factory=dict, description="Earth Engine's names, either spelling"
    )
    edge: Literal["drop", "pad"] = Field(
        "drop", description="pixels that fill no patch: left out, or padded to whole patches"
    )
    numbers: Literal["float", "native"] = Field(
        "float", description="float: every number is float32; native: each band's own kind"
    )
    gzip: Literal["indexed", "zlib6"] = Field(
        "indexed", description="indexed: members that can be sought; zlib6: one, as Earth Engine writes it"
    )
    naming: Literal["drive", "gcs"] = Field(
        "drive", description="names of the files, as the service gives them in Drive or in Cloud Storage"
    )
    mask_band: Text | None = Field(
        None, description="name of one more uint8 band, 1 where every band is valid"
    )
    keep: KeepModel | None = Field(None, description="only patches that hold enough of some classes")
    sample: PatchSampleModel | None = Field(None, description="only so many patches, drawn")
    split: dict[str, Any] | None = Field(
        None,
        description="splits by blocks of patches: name → fraction, block: [columns, rows] of patches, seed",
    )
    statistics: Literal["basic", "full"] = Field(
        "basic", description="full: percentiles of every band besides"
    )
    strict: Flag = Field(False, description="refuse numbers that float32 would round")
    on_missing: Literal["error", "mask"] = Field(
        "error", description="mask: a source that cannot be read after retries is masked there, and listed"
    )
    block_bytes: Annotated[Whole, Field(ge=1 << 16, le=1 << 40)] = Field(
        BLOCK_BYTES, description="bound on one read block"
    )
    output: Path = Field(description="prefix of the files to write")


JOBS: dict[str, type[Model]] = {"export-image": ExportImageJob}
