"""Which values of a record are which band: from the manifest, or found out from a mixer and a record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchbeam.data.errors import DataError
from patchbeam.errors import JobError, nearest
from patchbeam.manifest import Manifest
from patchbeam.records.layout import Feature, Kind

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BandLayout:
    """One band of an Example.

    Attributes:
        name: of the band.
        feature: key of the feature that holds it.
        kind: of the feature's list.
        start: first number of the band among the feature's.
        length: numbers of the whole feature.
        shape: ``(row, col)`` or ``(step, row, col)``, margin included.
        dtype: what its numbers are decoded to.
        mean: over the valid pixels of the export, ``None`` when not known.
        std: likewise.
        split_moments: split → mean and standard deviation over its valid pixels.
    """

    name: str
    feature: str
    kind: Kind
    start: int
    length: int
    shape: tuple[int, ...]
    dtype: str
    mean: float | None = None
    std: float | None = None
    split_moments: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)

    @property
    def channels(self) -> int:
        """Channels of an image that the band fills."""
        return self.shape[0] if len(self.shape) == 3 else 1


def from_manifest(manifest: Manifest, name: str) -> tuple[BandLayout, ...]:
    """Returns the bands of an export.

    Raises:
        JobError: its records are no image patches.
    """
    options = manifest.format_options
    if options.sequence_data:
        raise JobError(
            f"{name}: this export has a record a pixel (sequenceData); open it with SequenceDatabase"
        )
    lengths: dict[str, int] = {}
    starts = []
    for band in manifest.bands:
        if len(band.shape) not in (2, 3) or None in band.shape:
            raise JobError(f"{name}: band {band.name!r} has the shape {list(band.shape)}: no image patches")
        feature = manifest.bands[0].name if options.collapse_bands else band.name
        starts.append(lengths.get(feature, 0))
        lengths[feature] = starts[-1] + math.prod(size or 0 for size in band.shape)
    found = []
    for band, start in zip(manifest.bands, starts, strict=True):
        feature = manifest.bands[0].name if options.collapse_bands else band.name
        statistics = band.statistics
        found.append(
            BandLayout(
                name=band.name,
                feature=feature,
                kind=band.wire_type,
                start=start,
                length=lengths[feature],
                shape=tuple(size or 0 for size in band.shape),
                dtype=_dtype(band.wire_type, band.type),
                mean=None if statistics is None else statistics.mean,
                std=None if statistics is None else statistics.standard_deviation,
                split_moments={
                    split: (own.mean, own.standard_deviation)
                    for split, own in (band.split_statistics or {}).items()
                },
            )
        )
    return tuple(found)


def _dtype(kind: Kind, type_name: str) -> str:
    if kind == "float":
        return "float32"
    if kind == "bytes":
        return "uint8"
    # collapsed bands of several types are one list; what it holds is still in each band's type
    return type_name if type_name.startswith(("int", "uint")) else "int64"


def from_record(
    features: Sequence[Feature],
    patch_width_height: Pair,
    *,
    kernel_width_height: Pair | None,
    depths: Mapping[str, int] | None,
    where: str,
) -> tuple[tuple[BandLayout, ...], Pair]:
    """Finds out what the features of a record are, from the patch size and what else is known.

    Args:
        features: of the first record, in wire order.
        patch_width_height: pixels of a patch without its margin.
        kernel_width_height: ``kernelSize`` of the export, where the user has given it.
        depths: numbers a pixel of array bands, where the user has given them.
        where: the record, for messages.

    Returns:
        The bands, and the margin across and down.

    Raises:
        JobError: a depth is given for a band that is not there, or the lengths fit several kernels or
            depths: the message says which, and how to choose.
        DataError: a length fits none.
    """
    width, height = patch_width_height
    known = dict(depths or {})
    for name in known:
        if name not in [feature.name for feature in features]:
            names = [feature.name for feature in features]
            raise JobError(f"depths: {name!r}: {where} has {', '.join(names)}{nearest(name, names)}")
    if not features:
        raise DataError(f"{where}: it has no features")
    if kernel_width_height is not None:
        margin = kernel_width_height[0] // 2, kernel_width_height[1] // 2
    else:
        margin = _margin(features, patch_width_height, known, where)
    across, down = width + 2 * margin[0], height + 2 * margin[1]
    bands = []
    for feature in features:
        depth, rest = divmod(feature.length, across * down)
        if rest or depth != known.get(feature.name, depth) or depth == 0:
            raise DataError(
                f"{where}, feature {feature.name!r}: {feature.length} values are not "
                f"{known.get(feature.name, 'a whole number')} × {across} × {down} (patch {width} × {height} "
                "with a "
                f"margin of {margin[0]} and {margin[1]}); give the export's kernel_size, or depths of array "
                "bands"
            )
        array = depth > 1 or feature.name in known
        bands.append(
            BandLayout(
                name=feature.name,
                feature=feature.name,
                kind=feature.kind,
                start=0,
                length=feature.length,
                shape=(depth, down, across) if array else (down, across),
                dtype={"float": "float32", "bytes": "uint8", "int64": "int64"}[feature.kind],
            )
        )
    return tuple(bands), margin


def _margin(
    features: Sequence[Feature], patch_width_height: Pair, depths: Mapping[str, int], where: str
) -> Pair:
    """Returns the margin that all lengths fit: none where that is plain, else that of a square kernel."""
    width, height = patch_width_height
    given = [(feature, depths.get(feature.name, 1)) for feature in features]
    if all(feature.length == depth * width * height for feature, depth in given):
        return 0, 0
    fits = [m for f, depth in given if (m := _square_margin(f.length, depth, width, height)) is not None]
    same = len(fits) == len(given) and len(set(fits)) == 1
    unknown = [feature for feature in features if feature.name not in depths]
    arrays = all(feature.length % (width * height) == 0 for feature in unknown) and not depths
    lengths = ", ".join(f"{feature.name}: {feature.length}" for feature in features[:6])
    if same and arrays:
        depth = features[0].length // (width * height)
        raise JobError(
            f"{where}: the lengths ({lengths}) fit patches of {width} × {height} with {depth} values a "
            "pixel as well as "
            f"a margin of {fits[0]} pixels; give kernel_size=({2 * fits[0]}, {2 * fits[0]}), or "
            f"depths={{{features[0].name!r}: {depth}, …}}"
        )
    if same:
        return fits[0], fits[0]
    if all(feature.length % (width * height) == 0 for feature in unknown) and all(
        feature.length == depths[feature.name] * width * height
        for feature in features
        if feature.name in depths
    ):
        return 0, 0
    raise JobError(
        f"{where}: the lengths ({lengths}) fit neither patches of {width} × {height} ({width * height} "
        "values) nor one "
        "square kernel; the mixer says nothing of kernel and depths, so give the export's kernel_size=(x, "
        "y) and "
        "depths={band: values a pixel}"
    )


def _square_margin(length: int, depth: int, width: int, height: int) -> int | None:
    """The margin m > 0 with depth · (width + 2m) · (height + 2m) = length, if it is whole."""
    area, rest = divmod(length, depth)
    if rest or area <= width * height:
        return None
    # 4m² + 2m(w + h) + wh - area = 0
    root = math.isqrt((width + height) ** 2 - 4 * (width * height - area))
    margin, rest = divmod(root - (width + height), 4)
    return margin if rest == 0 and (width + 2 * margin) * (height + 2 * margin) == area else None
