"""From bands and format options to the features of a record: names, number types, shapes.

Rules: Earth Engine's *TFRecord data format* guide; number types under ``numbers: native`` as real
exported files have them; ``maskBand`` is ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from patchbeam.errors import JobError, nearest
from patchbeam.options import FormatOptions

Kind = Literal["float", "int64", "bytes"]
Numbers = Literal["float", "native"]

_PROMOTION: tuple[Kind, ...] = ("bytes", "int64", "float")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBand:
    """A band as a record sees it.

    Attributes:
        name: feature name.
        type: named type of its numbers, ``uint8`` … ``float64``.
        array: whether a pixel is an array of numbers.
        depth: numbers a pixel, 1 for a scalar band; ``None`` for arrays of each pixel's own length.
    """

    name: str
    type: str
    array: bool = False
    depth: int | None = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFeature:
    """One feature of a record and the bands that fill it.

    Attributes:
        name: key on the wire.
        kind: which of the three lists of ``tf.train.Feature`` holds the numbers.
        bands: positions in the export's bands, in channel order.
        shape: ``(row, col)``, ``(depth, row, col)`` or ``(channel, row, col)`` in Example records;
            in SequenceExample records ``()`` for the context and ``(depth or -1,)`` or
            ``(depth or -1, channel)`` for feature lists.
        context: in SequenceExample records, whether it stands in the context.
    """

    name: str
    kind: Kind
    bands: tuple[int, ...]
    shape: tuple[int, ...]
    context: bool = False

    @property
    def length(self) -> int:
        """Numbers in the feature of an Example record."""
        return math.prod(self.shape)


def wire_kind(type_name: str, numbers: Numbers) -> Kind:
    """Returns the list that holds a band of this type."""
    if numbers == "float" or type_name.startswith("float"):
        return "float"
    return "bytes" if type_name == "uint8" else "int64"


def record_bands(
    names_types: Sequence[tuple[str, str, bool]], options: FormatOptions, mask_band: str | None
) -> tuple[RecordBand, ...]:
    """Gives every band its depth and adds the mask band.

    Args:
        names_types: name, named type and whether it is an array band, in export order.
        options: the format options; ``tensor_depths`` gives the depths.
        mask_band: name of the mask band, or ``None``.

    Raises:
        JobError: an array band without a depth, a depth for an unknown or a scalar band, a name
            used twice.
    """
    names = [name for name, _, _ in names_types]
    arrays = [name for name, _, array in names_types if array]
    depths = dict(options.tensor_depths or {})
    key = "formatOptions.tensorDepths"
    for name in depths:
        if name not in names:
            raise JobError(
                f"{key}.{name}: no band has this name; bands are {', '.join(names)}{nearest(name, names)}"
            )
        if name not in arrays:
            raise JobError(
                f"{key}.{name}: this band has one number a pixel, so it takes no depth; remove the entry"
            )
    missing = [name for name in arrays if name not in depths]
    if missing and (options.tensor_depths is not None or not options.sequence_data):
        raise JobError(
            f"{key}: every array band needs a depth; missing: {', '.join(missing)}"
            f" (for instance {{{missing[0]}: 12}})"
        )
    if mask_band is not None and mask_band in names:
        raise JobError(f"maskBand: {mask_band!r} is the name of a band; choose a name that no band has")
    bands = [
        RecordBand(name=name, type=type_name, array=array, depth=depths.get(name) if array else 1)
        for name, type_name, array in names_types
    ]
    if mask_band is not None:
        bands.append(RecordBand(name=mask_band, type="uint8"))
    return tuple(bands)


def image_features(
    bands: Sequence[RecordBand],
    options: FormatOptions,
    numbers: Numbers,
    stored_width_height: tuple[int, int],
) -> tuple[ImageFeature, ...]:
    """Returns the features of one record in wire order.

    Args:
        bands: the export's bands, the mask band last.
        options: the format options.
        numbers: ``float`` or ``native``.
        stored_width_height: patch size in pixels with its margin.
    """
    width, height = stored_width_height
    kinds = [wire_kind(band.type, numbers) for band in bands]
    everything = tuple(range(len(bands)))
    if options.collapse_bands:
        kind = _PROMOTION[max(_PROMOTION.index(k) for k in kinds)]
        shape: tuple[int, ...]
        if options.sequence_data:
            depths = [band.depth for band in bands if band.array]
            steps = (
                -1 if any(d is None for d in depths) else max((d for d in depths if d is not None), default=1)
            )
            shape = (steps, len(bands))
        else:
            shape = (sum(band.depth or 0 for band in bands), height, width)
        return (ImageFeature(name=bands[0].name, kind=kind, bands=everything, shape=shape),)
    features = []
    for position, (band, kind) in enumerate(zip(bands, kinds, strict=True)):
        if options.sequence_data:
            shape = (-1 if band.depth is None else band.depth,) if band.array else ()
        else:
            shape = (band.depth or 0, height, width) if band.array else (height, width)
        features.append(
            ImageFeature(
                name=band.name,
                kind=kind,
                bands=(position,),
                shape=shape,
                context=options.sequence_data and not band.array,
            )
        )
    return tuple(features)
