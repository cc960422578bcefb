"""Format options of an image export, in Earth Engine's two spellings, checked as they are read.

Source of the names and meanings: Earth Engine's *TFRecord data format* guide (client spelling) and the
REST reference ``TfRecordImageExportOptions`` (the other one). Defaults that the guide leaves open are
ours and said so in the attributes' text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbeam.errors import JobError, nearest, short

GIB = 1 << 30

# client spelling -> REST spelling, in the order in which the guide lists them
SPELLINGS: dict[str, str] = {
    "patchDimensions": "tileDimensions",
    "kernelSize": "marginDimensions",
    "compressed": "compress",
    "maxFileSize": "maxSizeBytes",
    "defaultValue": "defaultValue",
    "tensorDepths": "tensorDepths",
    "sequenceData": "sequenceData",
    "collapseBands": "collapseBands",
    "maskedThreshold": "maxMaskedRatio",
}
_CLIENT = {rest: client for client, rest in SPELLINGS.items()} | {client: client for client in SPELLINGS}
_ANSWERS = {
    "patchSize": "use patchDimensions: [width, height]",
    "dimensions": "use patchDimensions for patches, or grid.dimensions for the grid",
    "fileDimensions": "shards are limited by maxFileSize",
    "kernel": "use kernelSize: [x, y]",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """What ``formatOptions`` of an image export says, resolved.

    Attributes:
        patch_width_height: patch size in pixels without its margin. Default 256 × 256 (ours).
        kernel_width_height: each patch is buffered by ``k // 2`` pixels on every side.
        compressed: whether shards are gzip files.
        max_file_size_bytes: limit on one uncompressed shard, framing included. Default 1 GiB.
        default_value: written where a pixel is masked and as padding of arrays.
        tensor_depths: array band name → number of values a pixel; ``None`` when not given.
        sequence_data: one SequenceExample a pixel instead of one Example a patch.
        collapse_bands: all bands in one feature named as the first band.
        masked_threshold: a patch whose masked share is greater is dropped; 1 keeps all.
    """

    patch_width_height: tuple[int, int] = (256, 256)
    kernel_width_height: tuple[int, int] = (1, 1)
    compressed: bool = True
    max_file_size_bytes: int = GIB
    default_value: float = 0.0
    tensor_depths: Mapping[str, int] | None = field(default=None)
    sequence_data: bool = False
    collapse_bands: bool = False
    masked_threshold: float = 1.0

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any], key: str = "formatOptions") -> FormatOptions:
        """Reads options from a job file's mapping; either spelling of each, not both.

        Raises:
            JobError: unknown key (with the nearest known one), both spellings of one option, a value
                of the wrong type or out of range, or two options that cannot go together.
        """
        values: dict[str, tuple[str, Any]] = {}
        for name, value in given.items():
            client = _CLIENT.get(name)
            if client is None:
                known = sorted({*SPELLINGS, *SPELLINGS.values()})
                hint = _ANSWERS.get(name) or f"known options are {', '.join(known)}{nearest(name, known)}"
                raise JobError(f"{key}.{name}: unknown format option; {hint}")
            if client in values:
                raise JobError(
                    f"{key}: {values[client][0]} and {name} are two spellings of one option; give one of them"
                )
            values[client] = (f"{name}", value)
        read = _Reader(key, values)
        options = cls(
            patch_width_height=read.pair("patchDimensions", (256, 256)),
            kernel_width_height=read.pair("kernelSize", (1, 1)),
            compressed=read.flag("compressed", True),
            max_file_size_bytes=read.whole("maxFileSize", GIB),
            default_value=read.number("defaultValue", 0.0),
            tensor_depths=read.depths("tensorDepths"),
            sequence_data=read.flag("sequenceData", False),
            collapse_bands=read.flag("collapseBands", False),
            masked_threshold=read.share("maskedThreshold", 1.0),
        )
        if options.sequence_data and any(k // 2 for k in options.kernel_width_height):
            raise JobError(
                f"{read.path('kernelSize')}: {list(options.kernel_width_height)} cannot go with "
                "sequenceData, whose records hold one pixel and no neighbourhood; leave kernelSize out or "
                "set sequenceData: false"
            )
        return options

    def to_mapping(self) -> dict[str, Any]:
        """Returns every option as resolved, in the client spelling, ready for JSON."""
        return {
            "patchDimensions": list(self.patch_width_height),
            "kernelSize": list(self.kernel_width_height),
            "compressed": self.compressed,
            "maxFileSize": self.max_file_size_bytes,
            "defaultValue": self.default_value
            if math.isfinite(self.default_value)
            else str(self.default_value),
            "tensorDepths": None if self.tensor_depths is None else dict(self.tensor_depths),
            "sequenceData": self.sequence_data,
            "collapseBands": self.collapse_bands,
            "maskedThreshold": self.masked_threshold,
        }


class _Reader:
    """Takes typed values out of the mapping; names the key as the user spelt it."""

    def __init__(self, key: str, values: Mapping[str, tuple[str, Any]]) -> None:
        self._key = key
        self._values = values

    def path(self, name: str) -> str:
        return f"{self._key}.{self._values[name][0] if name in self._values else name}"

    def _get(self, name: str) -> Any:
        return self._values[name][1] if name in self._values else None

    def _refuse(self, name: str, allowed: str, suffix: str = "") -> JobError:
        return JobError(f"{self.path(name)}{suffix}: {short(self._get(name))} is not {allowed}")

    def pair(self, name: str, default: tuple[int, int]) -> tuple[int, int]:
        value = self._get(name)
        if value is None:
            return default
        pair = [value, value] if _is_int(value) else value
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise self._refuse(name, "a whole number or a pair [width, height] of them, in pixels")
        for i, number in enumerate(pair):
            if not _is_int(number) or not 0 < number < 1 << 31:
                raise JobError(
                    f"{self.path(name)}[{i}]: {short(number)} is not a whole number of pixels greater than "
                    "0 and below 2**31; "
                    f"give [width, height], for instance {list(default)}"
                )
        return int(pair[0]), int(pair[1])

    def flag(self, name: str, default: bool) -> bool:
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._refuse(name, "true or false")
        return value

    def whole(self, name: str, default: int) -> int:
        value = self._get(name)
        if value is None:
            return default
        if not _is_int(value) or not 0 < value < 1 << 63:
            raise self._refuse(
                name, f"a whole number of bytes greater than 0 and below 2**63; the default is {default}"
            )
        return int(value)

    def number(self, name: str, default: float) -> float:
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, str) and value.strip().lower() in ("nan", ".nan"):
            return math.nan
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refuse(name, "a finite number or NaN")
        if isinstance(value, int) and (abs(value) >= 1 << 1023 or int(float(value)) != value):
            raise self._refuse(name, "a number that float64 holds exactly")
        if math.isinf(value):
            raise self._refuse(name, "a finite number or NaN")
        return float(value)

    def share(self, name: str, default: float) -> float:
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self._refuse(name, "a share between 0 and 1; 1 keeps every patch")
        return float(value)

    def depths(self, name: str) -> Mapping[str, int] | None:
        value = self._get(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._refuse(name, "a map of array band to depth, for instance {ndvi: 12}")
        for band, depth in value.items():
            if not _is_int(depth) or not 0 < depth < 1 << 31:
                raise JobError(
                    f"{self.path(name)}.{band}: {short(depth)} is not a whole number greater than 0"
                )
        return {str(band): int(depth) for band, depth in value.items()}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
