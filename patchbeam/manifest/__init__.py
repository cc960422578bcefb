"""The manifest: what an export holds, so that a reader needs nothing else.

It is written last, so that its presence means that the export is complete. The text is JSON with camelCase
keys in the order of the attributes below; its JSON Schema is ``patchbeam/schemas/manifest.schema.json``.
Numbers that are not finite are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; an attribute that
is ``None`` is left out. A reader refuses another major version and keeps the keys that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

from patchbeam.errors import JobError, short
from patchbeam.manifest.checks import GIVE_MANIFEST, check_manifest, check_version
from patchbeam.manifest.entries import (
    BandStatistics,
    ManifestBand,
    ManifestClass,
    ManifestGrid,
    ManifestKeep,
    ManifestPatches,
    ManifestSample,
    ManifestShard,
    ManifestSplit,
    ManifestSplits,
    Range,
    WireType,
    ranges_field,
)
from patchbeam.manifest.jsonform import Entry, encode, layout, number, parse, read_entry
from patchbeam.manifest.ranges import from_ranges, to_ranges
from patchbeam.manifest.sources import ManifestFile, ManifestQuality, ManifestSource, ManifestVector
from patchbeam.options import SPELLINGS, FormatOptions

__all__ = [
    "FORMAT",
    "VERSION",
    "BandStatistics",
    "Manifest",
    "ManifestBand",
    "ManifestClass",
    "ManifestFile",
    "ManifestGrid",
    "ManifestKeep",
    "ManifestPatches",
    "ManifestQuality",
    "ManifestSample",
    "ManifestShard",
    "ManifestSource",
    "ManifestSplit",
    "ManifestSplits",
    "ManifestVector",
    "Range",
    "WireType",
    "from_ranges",
    "schema",
    "to_ranges",
]

FORMAT = "patchbeam-manifest"
VERSION = "1.0"
# Nobody writes a manifest by hand: what is wrong in one is not to be mended there.
_AGAIN = "; it has been damaged or edited: fetch it again from where the export was written, or export again"


def _write_options(options: FormatOptions) -> dict[str, Any]:
    return {**options.to_mapping(), "defaultValue": number(float(options.default_value))}


def _read_options(value: Any, path: str) -> FormatOptions:
    if not isinstance(value, dict):
        raise JobError(f"{path}: {short(value)} is not an object")
    for key in SPELLINGS:
        if key not in value:
            raise JobError(f"{path}.{key}: missing")
    # Options of a newer minor version are passed over, as everywhere in a manifest.
    return FormatOptions.from_mapping({key: value[key] for key in SPELLINGS}, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Entry):
    """Everything that a reader of an export needs.

    Attributes:
        format: what this file is.
        version: ``major.minor`` of its layout.
        grid: the export grid; ``None`` for sets that lie on no map.
        format_options: every format option as resolved, in the client's spelling.
        edge: what became of the pixels that fill no patch.
        numbers: how numbers were written.
        gzip: profile of the shards, ``None`` when they are not compressed.
        naming: how files are named.
        mask_band: name of the mask band, which is also among the bands.
        clip: whether pixels outside the region were masked.
        bands: in the order of the records.
        patches: counts.
        kept_patches: the patches that have records, ``(first, count)`` each, in order; ``None`` when all
            have, and where ``splits`` tell.
        splits: how patches were split.
        keep: which patches were kept by the classes in them.
        sample: how patches were drawn.
        shards: in order, split after split.
        index: name of the index beside the manifest.
        sources: what was read.
        software: name → version of what wrote the export.

    Raises:
        JobError: the parts contradict each other; the message starts with the key path.
    """

    format: str = FORMAT
    version: str = VERSION
    grid: ManifestGrid | None = None
    format_options: FormatOptions = field(metadata={"read": _read_options, "write": _write_options})
    edge: Literal["drop", "pad"]
    numbers: Literal["float", "native"]
    gzip: Literal["indexed", "zlib6"] | None = None
    naming: Literal["drive", "gcs"]
    mask_band: str | None = None
    clip: bool | None = None
    bands: tuple[ManifestBand, ...]
    patches: ManifestPatches
    kept_patches: tuple[Range, ...] | None = ranges_field()
    splits: ManifestSplits | None = None
    keep: ManifestKeep | None = None
    sample: ManifestSample | None = None
    shards: tuple[ManifestShard, ...]
    index: str | None = None
    sources: tuple[ManifestSource, ...] = ()
    software: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_manifest(self)

    @property
    def records_per_patch(self) -> int:
        """Records that a patch has: its pixels when there is one a pixel, else 1."""
        width, height = self.format_options.patch_width_height
        return width * height if self.format_options.sequence_data else 1

    def to_text(self) -> str:
        """Returns the file's text; the same manifest always gives the same text."""
        return layout(encode(self, Manifest, ""))

    @classmethod
    def from_text(cls, text: str | bytes, name: str = "manifest") -> Manifest:
        """Reads a manifest.

        Args:
            text: what the file holds.
            name: of the file, for messages.

        Raises:
            JobError: not a manifest, of another major version, or a key is missing or impossible; the
                message names file and key path.
        """
        try:
            root = parse(text)
        except (ValueError, RecursionError) as error:
            raise JobError(
                f"{name}: not a manifest, because it is not JSON: {error}{GIVE_MANIFEST}"
            ) from None
        try:
            check_version(root, FORMAT, VERSION)
        except JobError as error:
            raise JobError(f"{name}: {error}") from None
        try:
            return read_entry(root, cls, "")
        except JobError as error:
            raise JobError(f"{name}: {error}{_AGAIN}") from None


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of a manifest."""
    text = files("patchbeam").joinpath("schemas/manifest.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
