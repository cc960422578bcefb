"""From the features of the records to the bands of the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.errors import JobError, nearest
from patchbeam.mosaic.layout import KnownBand, MapLayout
from patchbeam.mosaic.options import ImportOptions, check_nodata
from patchbeam.records.layout import Kind

_TYPES: dict[Kind, str] = {"float": "float32", "int64": "int64", "bytes": "uint8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBand:
    """One band as the records hold it.

    Attributes:
        name: of the band.
        feature: key in the records.
        channel: its place in the feature.
    """

    name: str
    feature: str
    channel: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSchema:
    """How records are read and what the map made of them holds.

    Attributes:
        bands: read from each record, in order.
        depths: channels of each feature read, the mask's among them.
        mask: feature that is 0 where a pixel is masked, or ``None``.
        per_pixel: whether there is one record a pixel.
        names: bands of the map.
        type: named type of the map.
        nodata: of the map, or ``None``.
        categorical: whether its numbers are taken for classes: what argmax finds, and integers that the
            records hold as integers.
    """

    bands: tuple[InputBand, ...]
    depths: Mapping[str, int]
    mask: str | None
    per_pixel: bool
    names: tuple[str, ...]
    type: str
    nodata: float | None
    categorical: bool


def resolve_schema(
    found: Mapping[str, tuple[Kind, int]], layout: MapLayout, options: ImportOptions, *, per_pixel: bool
) -> RecordSchema:
    """Decides which bands are read from the features of the first record.

    Order without ``bands``: the manifest's without its mask band, then other names sorted. (Writers put
    keys in a random order, so the order on the wire means nothing.)

    Args:
        found: kind and number of values of each feature of the first record.
        layout: of the export.
        options: of the import.
        per_pixel: whether there is one record a pixel.

    Raises:
        JobError: a band that the records do not have, a length that fits no form, an option that the
            records do not allow.
    """
    if not found:
        raise JobError("records: the first record has no feature with values; give records of predictions")
    known = {band.name: band for band in layout.bands}
    collapsed = layout.collapsed if layout.collapsed in found else None
    if collapsed is not None and any(name in found for name in known if name != collapsed):
        collapsed = None  # predictions that use the bands' own names
    if collapsed is not None and per_pixel and any(band.depth != 1 for band in layout.bands):
        raise JobError(
            "records: sequences of array bands with collapseBands hold no band by itself; export without "
            "collapseBands"
        )
    masked = options.mask if options.mask not in (None, "sources") else None
    groups: dict[str, tuple[InputBand, ...]] = {}
    depths: dict[str, int] = {}
    order = [name for name in known if name in found]
    order += sorted(set(found) - set(order))
    for name in order:
        depth = _depth(name, found[name][1], layout, known.get(name), options, collapsed, per_pixel)
        depths[name] = depth
        if name == collapsed:
            groups.update(_channels(name, layout.bands, depth))
        else:
            groups[name] = _numbered(name, name, 0, depth)
    single = {band.name: band for group in groups.values() for band in group}
    if masked is not None and (masked not in groups or len(groups[masked]) != 1):
        raise JobError(
            f"mask: {masked!r} is no band of the records{nearest(masked, single)}; {_have(single)}"
        )
    bands: list[InputBand] = []
    if options.bands is None:
        # the mask band says where data is and holds none itself; where it is all there is, it is wanted
        apart = {masked, layout.mask_band if set(groups) - {masked, layout.mask_band} else None}
        bands = [band for name, group in groups.items() if name not in apart for band in group]
    else:
        for i, name in enumerate(options.bands):
            if name not in groups and name not in single:
                near = nearest(name, [*groups, *single])
                raise JobError(f"bands[{i}]: the records have no {name!r}{near}; {_have(single)}")
            bands.extend(groups[name] if name in groups else (single[name],))
    if options.argmax:
        for name in options.argmax:
            if name not in [band.name for band in bands]:
                raise JobError(
                    f"argmax: {name!r} is not a band of the import{nearest(name, single)}; {_have(single)}"
                )
        chosen = {band.name: band for band in bands}
        bands = [chosen[name] for name in options.argmax]
    if not bands:
        raise JobError(f"bands: nothing is left to import; {_have(single)}")
    if options.takes_argmax and len(bands) == 1:
        raise JobError(
            f"argmax: the records have one band ({bands[0].name}) to find the largest of; leave argmax out"
        )
    kinds = {found[band.feature][0] for band in bands}
    if options.overlap != "discard":
        _check_blend(layout, options, kinds, per_pixel)
    type_name = options.type or _type(bands, found, known, options)
    nodata = options.nodata if options.nodata is not None else _nodata(bands, layout, type_name, options)
    check_nodata(nodata, type_name)
    if nodata is None and layout.kept is not None:
        raise JobError(
            f"nodata: {layout.patches.count - layout.kept_count} patches have no records, and a map of "
            f"{type_name} "
            "has no value that says so by itself; give nodata"
        )
    read = {band.feature for band in bands} | ({groups[masked][0].feature} if masked else set())
    return RecordSchema(
        bands=tuple(bands),
        depths={name: depths[name] for name in depths if name in read},
        mask=None if masked is None else masked,
        per_pixel=per_pixel,
        names=("class",) if options.takes_argmax else tuple(band.name for band in bands),
        type=type_name,
        nodata=nodata,
        categorical=options.takes_argmax
        or ("float" not in kinds and np.dtype(type_name).kind in "iu" and not options.calculates),
    )


def _have(names: Mapping[str, InputBand]) -> str:
    return f"they have {', '.join(names)}"


def _numbered(name: str, feature: str, first: int, depth: int) -> tuple[InputBand, ...]:
    if depth == 1:
        return (InputBand(name=name, feature=feature, channel=first),)
    return tuple(InputBand(name=f"{name}_{i + 1}", feature=feature, channel=first + i) for i in range(depth))


def _channels(feature: str, bands: Sequence[KnownBand], depth: int) -> dict[str, tuple[InputBand, ...]]:
    """Names the channels of a feature that holds all bands of the export."""
    groups = {}
    first = 0
    for band in bands:
        groups[band.name] = _numbered(band.name, feature, first, band.depth or 1)
        first += band.depth or 1
    return groups if first == depth else {feature: _numbered(feature, feature, 0, depth)}


def _depth(
    name: str,
    length: int,
    layout: MapLayout,
    known: KnownBand | None,
    options: ImportOptions,
    collapsed: str | None,
    per_pixel: bool,
) -> int:
    given = options.depths.get(name)
    if given is None and name == collapsed:
        given = sum(band.depth or 1 for band in layout.bands)
    elif given is None and known is not None:
        given = known.depth
    if per_pixel:
        return given or length
    sizes = sorted(
        {w * h for w, h in (layout.patches.patch_width_height, layout.patches.stored_width_height)}
    )
    depth = given or 1
    as_exported = given is not None and length == given * sizes[-1]
    # blending needs the margin, so that only one reading is left
    if options.depths.get(name) is None and options.overlap == "discard" and not as_exported:
        _check_one_reading(name, length, layout)
    if length in [depth * size for size in sizes]:
        return depth
    if options.depths.get(name) is None and length in sizes:
        return 1  # a prediction under the name of an array band
    raise JobError(f"records: {wrong_length(name, length, layout, depth)}{_hint(name, length, sizes)}")


def _check_one_reading(name: str, length: int, layout: MapLayout) -> None:
    """Refuses a length of one channel with its margin that is as well one of several channels without."""
    width, height = layout.patches.patch_width_height
    stored_width, stored_height = layout.patches.stored_width_height
    channels, rest = divmod(length, width * height)
    if length == stored_width * stored_height and channels > 1 and not rest:
        raise JobError(
            f"records: feature {name!r} has {length} values: one channel of {stored_width} × {stored_height} "
            f"with the margin, or {channels} channels of {width} × {height} without; say which with "
            f"depths: {{{name}: 1}} or depths: {{{name}: {channels}}}"
        )


def _hint(name: str, length: int, sizes: Sequence[int]) -> str:
    fits = [length // size for size in sizes if length and length % size == 0]
    if fits:
        return f"; if it holds {fits[-1]} channels [D, H, W], give depths: {{{name}: {fits[-1]}}}"
    return "; if records carry a margin, give the kernelSize of the export"


def wrong_length(name: str, length: int, layout: MapLayout, depth: int) -> str:
    """Says which lengths a feature may have."""
    width, height = layout.patches.patch_width_height
    stored_width, stored_height = layout.patches.stored_width_height
    factor = f"{depth} × " if depth > 1 else ""
    size = depth * width * height
    text = f"feature {name!r} has {length} values; expected {factor}{width} × {height} = {size}"
    if (stored_width, stored_height) != (width, height):
        size = depth * stored_width * stored_height
        text += f", or with the margin {factor}{stored_width} × {stored_height} = {size}"
    return text


def _check_blend(layout: MapLayout, options: ImportOptions, kinds: set[Kind], per_pixel: bool) -> None:
    key = f"overlap: {{blend: {options.overlap}}}"
    if per_pixel or not any(layout.patches.margin_width_height):
        raise JobError(
            f"{key}: the patches have no margin that overlaps; give the kernelSize of the export, or "
            "overlap: discard"
        )
    if kinds - {"float"} and not options.takes_argmax:
        raise JobError(
            f"{key}: the records hold integers, and a mean of classes is no class; use argmax over the "
            "classes' probabilities, or overlap: discard"
        )


def _type(
    bands: Sequence[InputBand],
    found: Mapping[str, tuple[Kind, int]],
    known: Mapping[str, KnownBand],
    options: ImportOptions,
) -> str:
    if options.takes_argmax:
        return "uint8"
    types = set()
    for band in bands:
        origin = _origin(band, known)
        plain = not options.calculates
        types.add(origin.type if origin is not None and plain else _TYPES[found[band.feature][0]])
    return str(np.result_type(*sorted(types)))


def _nodata(
    bands: Sequence[InputBand], layout: MapLayout, type_name: str, options: ImportOptions
) -> float | None:
    if options.takes_argmax:
        return None
    known = {band.name: band for band in layout.bands}
    telling = [band for band in bands if band.name != layout.mask_band] or bands  # it has none, ever
    origins = [_origin(band, known) for band in telling]
    values = {None if origin is None else origin.nodata for origin in origins}
    if len(values) == 1:
        value = values.pop()
        if value is not None and _fits(value, type_name):
            return value
    return float("nan") if np.dtype(type_name).kind == "f" else None


def _origin(band: InputBand, known: Mapping[str, KnownBand]) -> KnownBand | None:
    if band.name in known:
        return known[band.name]
    return known.get(band.name.rpartition("_")[0])


def _fits(nodata: float, type_name: str) -> bool:
    try:
        check_nodata(nodata, type_name)
    except JobError:
        return False
    return True
