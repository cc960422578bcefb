"""The job ``build-dataset``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from patchbeam.options import GIB
from pipelines.jobfile.models import Model, Path, Paths, Text, Whole

Positive = Annotated[Whole, Field(ge=1)]
Seed = Annotated[Whole, Field(ge=0, le=2**64 - 1)]
Kind = Literal["folder", "arrays", "set", "export", "table", "dataset", "generated", "python"]


class FolderModel(Model):
    """Images in folders, a folder a class."""

    path: Path = Field(description="holds a folder for each class")
    size: Positive | None = Field(None, description="rows and columns that images are resized to")
    mode: Literal["RGB", "L"] = Field("RGB", description="what images are converted to")


class SetModel(Model):
    """A classic set; fetched the first time."""

    name: Text = Field(description="CIFAR10, CIFAR100, MNIST, FashionMNIST, KMNIST, Imagenette, Imagewoof, …")
    split: Literal["training", "validation"] = Field("training", description="part of the set")
    root: Path | None = Field(None, description="folder of the cache; default: the user's")
    url: Text | None = Field(None, description="a mirror of one's own")
    options: dict[Text, Any] = Field(
        default_factory=dict, description="of the set: size, outputSize, imageSize, bands, digests, …"
    )


class ExportModel(Model):
    """Image patches of an export."""

    records: Paths = Field(description="prefix of the export, or its record files in order")
    modalities: dict[Text, Text | list[Text]] | None = Field(
        None, description="name → bands; default: one modality, image, of all"
    )
    split: Text | None = Field(None, description="of an export with splits")


class GeneratedModel(Model):
    """Drawn shapes with mask and label."""

    count: Positive = Field(1000, description="items")
    size: Annotated[Whole, Field(ge=8)] = Field(32, description="rows and columns")
    seed: Seed = Field(0, description="decides what is drawn")


class DatabaseModel(Model):
    """Where items come from: exactly one of these."""

    folder: FolderModel | None = Field(None, description="images, a folder a class")
    arrays: Annotated[dict[Text, Path], Field(min_length=1)] | None = Field(
        None, description="modality → .npy file; the first axis is the item"
    )
    set: SetModel | None = Field(None, description="a classic set")
    export: ExportModel | None = Field(None, description="patches of an image export")
    table: Path | None = Field(None, description="prefix or record file of a table export")
    dataset: Path | None = Field(None, description="prefix of a converted set, to write it anew")
    generated: GeneratedModel | None = Field(None, description="drawn shapes")
    python: Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None = Field(
        None,
        description="module:function that returns a patchbeam.data.Database; only with the flag --allow-code",
    )

    @model_validator(mode="after")
    def _one(self) -> DatabaseModel:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(type(self).model_fields)
            raise ValueError(f"give exactly one of {known}, not {' and '.join(given) or 'none'}")
        return self

    @property
    def kind(self) -> str:
        """Which one is given."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


class BuildDatasetJob(Model):
    """``job: build-dataset``."""

    job: Literal["build-dataset"]
    database: DatabaseModel = Field(description="where items come from")
    profile: Literal["ee", "typed", "packed"] = Field(
        "typed", description="ee: float lists; typed: lists by type; packed: bits, densely"
    )
    dtypes: dict[Text, Text] = Field(
        default_factory=dict,
        description="modality → a type narrower than its values', such as uint1 of a mask",
    )
    shapes: dict[Text, list[Positive | None]] = Field(
        default_factory=dict,
        description="modality → shape, with null for sizes that differ from item to item",
    )
    max_file_size: Positive = Field(GIB, description="largest uncompressed shard, in bytes")
    gzip: Literal["indexed", "zlib6", "none"] = Field("indexed", description="as of an image export, or none")
    output: Path = Field(description="prefix of the shards and the manifest")
