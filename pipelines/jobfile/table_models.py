"""The jobs ``export-table`` and ``import-table``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from patchbeam.options import GIB
from pipelines.jobfile.models import (
    BandModel,
    Flag,
    GridModel,
    Model,
    Number,
    Path,
    Paths,
    SourceModel,
    Text,
    Whole,
    _bands,
    _pair,
    _sources,
)


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Names = Annotated[list[Text], BeforeValidator(_listed)]
Positive = Annotated[Whole, Field(ge=1)]


class SampleModel(GridModel):
    """Raster values to add to each feature; the keys of ``grid`` of an image export stand here too."""

    sources: Annotated[dict[Text, SourceModel], BeforeValidator(_sources), Field(min_length=1)] = Field(
        description="a path, or a map of source name to source"
    )
    bands: Annotated[list[BandModel], BeforeValidator(_bands), Field(min_length=1)] | None = Field(
        None, description="default: every band of every source, in order"
    )
    tensor_depths: dict[Text, Positive] = Field(
        default_factory=dict, description="array band → values stored; others keep each pixel's own length"
    )
    reduce: Literal["mean", "median"] = Field("mean", description="what the pixels of a polygon become")
    patch: Annotated[list[Positive], BeforeValidator(_pair), Field(min_length=2, max_length=2)] | None = (
        Field(None, description="[width, height] of the chip centred on each point, in pixels")
    )
    order: Literal["source", "block"] = Field("source", description="order of chips")
    max_file_size: Positive = Field(GIB, description="largest uncompressed shard of chips, in bytes")
    default_value: Number = Field(
        0.0, description="where a pixel of a chip is masked, and as padding of arrays"
    )
    block_bytes: Annotated[Whole, Field(ge=1 << 16, le=1 << 40)] = Field(
        64 << 20, description="bound on one read block"
    )
    stratify: Text | None = Field(
        None, description="class band from which points are drawn, the same of each class"
    )
    per_class: Positive | None = Field(None, description="points of each class")
    seed: Annotated[Whole, Field(ge=0)] = Field(0, description="decides which points are drawn")
    classes: Annotated[list[Whole], Field(min_length=1)] | None = Field(
        None, description="classes wanted; default: every one that occurs"
    )


class ExportTableJob(Model):
    """``job: export-table``."""

    job: Literal["export-table"]
    features: Path | None = Field(
        None,
        description="GeoJSON, GeoPackage, GeoParquet, Shapefile, FlatGeobuf, CSV; none with sample.stratify",
    )
    layer: Text | None = Field(None, description="of a file that has several")
    x_column: Text | None = Field(
        None, description="x of a table without geometry; default: longitude or lon"
    )
    y_column: Text | None = Field(None, description="y of a table without geometry; default: latitude or lat")
    crs: Text | None = Field(None, description="of geometry or coordinates where the file does not say it")
    types: dict[Text, Literal["string", "number"]] = Field(
        default_factory=dict, description="CSV: what a column holds, where it is not clear"
    )
    null_values: list[str] = Field(default_factory=list, description="CSV: texts that stand for null")
    selectors: Names | None = Field(
        None,
        description="properties and their order, a list or comma-separated; default: all, and system:index",
    )
    geometry: Literal["geojson", "wkb", "lonlat"] | None = Field(None, description="default: left out")
    sample: SampleModel | None = Field(None, description="raster values to add")
    gzip: Literal["indexed", "zlib6"] = Field("indexed", description="as of an image export")
    strict: Flag = Field(False, description="refuse rounded integers and features outside the rasters")
    output: Path = Field(description="prefix of the file to write: OUTPUT.tfrecord.gz")


class ImportTableJob(Model):
    """``job: import-table``."""

    job: Literal["import-table"]
    records: Paths = Field(description="a record file, a list, a pattern, or the prefix of an export")
    columns: Names | None = Field(
        None, description="features and their order; default: all, as they first occur"
    )
    x_column: Text | None = Field(None, description="feature that holds x; default: longitude")
    y_column: Text | None = Field(None, description="feature that holds y; default: latitude")
    crs: Text | None = Field(None, description="of x and y; default: EPSG:4326")
    geometry: Flag = Field(True, description="make geometry where the records hold it")
    binary: Names | Flag = Field(False, description="features whose bytes are no text; true for all")
    integers: Flag = Field(True, description="columns that hold only whole numbers become integers")
    layer: Text | None = Field(None, description="name of the layer; default: that of the file")
    output: Path = Field(description="a .parquet, .gpkg, .geojson or .csv file to write")
