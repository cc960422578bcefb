"""What an ``import-image`` job file may hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from pipelines.jobfile.models import Model, Number, Paths, TypeName, Whole, _pair


def _color(value: Any) -> Any:
    if isinstance(value, str):
        digits = value.removeprefix("#")
        try:
            parts = list(bytes.fromhex(digits))
        except ValueError:
            parts = []
        if len(parts) not in (3, 4):
            raise ValueError("give #rrggbb or [red, green, blue]")
        return parts
    return value


def _classes(value: Any) -> Any:
    if isinstance(value, dict):
        return [{"value": key, **(v if isinstance(v, dict) else {"name": v})} for key, v in value.items()]
    if isinstance(value, list):
        return [{"value": i, "name": v} if isinstance(v, str) else v for i, v in enumerate(value)]
    return value


def _nodata(value: float) -> float:
    if value in (float("inf"), float("-inf")):
        raise ValueError("give a finite number or NaN")
    return value


class ClassModel(Model):
    """One class of a class map."""

    value: Whole = Field(description="of the pixels of this class")
    name: str | None = Field(None, description="what it shows")
    color: Annotated[list[Whole], BeforeValidator(_color)] | None = Field(
        None, description="#rrggbb or [red, green, blue]"
    )


class BlendModel(Model):
    """How overlapping margins are averaged."""

    blend: Literal["mean", "hann"] = Field(
        description="mean: all alike; hann: less towards the edge of a patch"
    )


class ImportImageJob(Model):
    """``job: import-image``."""

    job: Literal["import-image"]
    records: Paths = Field(description="record files: a pattern, a list, or the prefix of an export")
    mixer: str | None = Field(None, description="default: what stands beside an export's prefix")
    manifest: str | None = Field(
        None, description="in place of a mixer; knows bands, margins, dropped patches"
    )
    bands: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="features and their order; default: all"
    )
    depths: dict[str, Whole] = Field(
        default_factory=dict, description="channels of features that hold [D, H, W]"
    )
    kernel_size: Annotated[list[Whole], BeforeValidator(_pair), Field(min_length=2, max_length=2)] | None = (
        Field(None, description="of the export, where no manifest says it and records carry the margin")
    )
    type: TypeName | None = Field(None, description="default: the export's, else the records'")
    nodata: Annotated[Number, AfterValidator(_nodata)] | None = Field(
        None, description="default: the export's; NaN in float maps"
    )
    argmax: bool | list[str] = Field(False, description="index of the largest of all, or these, bands")
    scale: Number = Field(1.0, description="every value is multiplied by it")
    offset: Number = Field(0.0, description="and this is added")
    clip: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = Field(
        None, description="[least, most]; values beyond take these"
    )
    saturate: bool = Field(False, description="values outside the type take its limit")
    overlap: Literal["discard"] | BlendModel = Field(
        "discard", description="margins of the records: cut off, or averaged where they overlap"
    )
    mask: str | None = Field(None, description="sources, or the name of a mask band in the records")
    tile_size: Whole = Field(4096, description="pixels, a multiple of 256")
    compress: Literal["deflate", "zstd", "none"] = Field(
        "deflate", description="of the tiles; with a predictor"
    )
    classes: Annotated[list[ClassModel], BeforeValidator(_classes)] = Field(
        default_factory=list, description="value, name and color of each class"
    )
    datetime: str | None = Field(None, description="ISO 8601 time of the map in its STAC items")
    output: Annotated[str, Field(min_length=1)] = Field(description="prefix of the map's files")
