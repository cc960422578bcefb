"""From what the job file says about bands to a list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from patchbeam.errors import JobError, SourceError, nearest
from patchbeam.rasters.source import RESAMPLINGS, Source, check_choice

NAMED_TYPES = (
    "uint8",
    "int8",
    "uint16",
    "int16",
    "uint32",
    "int32",
    "uint64",
    "int64",
    "float32",
    "float64",
)
"""Types that a band can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSpec:
    """A band as the job file asks for it; ``None`` where it does not say.

    Attributes:
        source: key under ``sources``.
        name: of the band in the output.
        band: number from 1, or description, in the source's files.
        indexes: numbers from 1 of the bands that become the steps of one array band.
        type: named type.
        resampling: see :data:`patchbeam.rasters.source.RESAMPLINGS`.
    """

    source: str
    name: str | None = None
    band: int | str | None = None
    indexes: tuple[int, ...] | None = None
    type: str | None = None
    resampling: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One band of the output.

    Attributes:
        name: unique in the output.
        source: name of its source.
        index: its number in the source's files, from 1; the first one of an array band.
        type: named type.
        resampling: how it is brought onto the grid.
        indexes: numbers of the bands that are the steps of an array band; ``None`` for others.
        series: whether each file of the source is one step of an array band.
    """

    name: str
    source: str
    index: int
    type: str
    resampling: str = "nearest"
    indexes: tuple[int, ...] | None = None
    series: bool = False

    @property
    def is_array(self) -> bool:
        """Whether the band has steps: ``(step, row, col)``."""
        return self.series or self.indexes is not None


def resolve_bands(sources: Sequence[Source], specs: Sequence[BandSpec] | None = None) -> tuple[Band, ...]:
    """Returns the bands of the output.

    A band without a name takes its description, else ``B1``, ``B2``…; one that other bands share is
    prefixed with the source: ``SOURCE_BAND``.

    Args:
        sources: in order.
        specs: what the job file asks for; ``None`` for every band of every source but alpha bands.

    Raises:
        SourceError: a source, a band, a type or a resampling is not known, or a file lacks a band.
        JobError: two bands have one name.
    """
    known = {source.name: source for source in sources}
    if specs is None:
        specs = [BandSpec(source=source.name) for source in sources]
        every = True
    else:
        every = False
    bands: list[Band] = []
    named: list[bool] = []
    for i, spec in enumerate(specs):
        key = f"sources.{spec.source}" if every else f"bands[{i}]"
        if spec.source not in known:
            raise SourceError(
                f"{key}.source: {spec.source!r} is not a source{nearest(spec.source, known)};"
                f" there are {', '.join(known)}"
            )
        source = known[spec.source]
        for index in _indexes(source, spec, key, every):
            bands.append(_band(source, index, spec, key))
            named.append(spec.name is not None)
    groups = {source.name: source.group or source.name for source in sources}
    shared = {name for name, n in Counter(band.name for band in bands).items() if n > 1}
    bands = [
        replace(b, name=f"{groups[b.source]}_{b.name}") if b.name in shared and not own else b
        for b, own in zip(bands, named, strict=True)
    ]
    for name, n in Counter(band.name for band in bands).items():
        if n > 1:
            raise JobError(f"bands: {n} bands are named {name!r}; give each its own name: under bands")
    return tuple(bands)


def default_names(source: Source) -> tuple[str, ...]:
    """Returns the name of each band of a source's files, by number."""
    file = source.files[0]
    repeated = {d for d, n in Counter(file.descriptions).items() if n > 1}
    return tuple(d if d and d not in repeated else f"B{i}" for i, d in enumerate(file.descriptions, 1))


def _indexes(source: Source, spec: BandSpec, key: str, every: bool) -> list[int]:
    file = source.files[0]
    if spec.indexes is not None:
        if not spec.indexes:
            raise SourceError(f"{key}.band: an empty list; name the bands that are the steps of the array")
        if source.series:
            raise SourceError(
                f"{key}.band: source {source.name!r} is a series, whose steps are its files; name one band"
            )
        for index in spec.indexes:
            _check_index(source, index, key)
        return [spec.indexes[0]]
    if spec.band is None:
        usable = [i for i in range(1, file.count + 1) if i != file.alpha]
        if not usable:
            raise SourceError(
                f"{key}: {file.path} has nothing but an alpha band; ask for it with band: {file.alpha}"
            )
        if not every and spec.name is not None and len(usable) > 1:
            raise SourceError(
                f"{key}.band: is missing, and source {source.name!r} has {len(usable)} bands:"
                f" {', '.join(default_names(source))}; say which one"
            )
        for index in usable:
            _check_index(source, index, key)
        return usable
    index = spec.band if isinstance(spec.band, int) else _described(source, spec.band, key)
    _check_index(source, index, key)
    return [index]


def _described(source: Source, text: str, key: str) -> int:
    file = source.files[0]
    matches = [i for i, d in enumerate(file.descriptions, 1) if d == text]
    if len(matches) == 1:
        return matches[0]
    names = default_names(source)
    if matches:
        raise SourceError(
            f"{key}.band: {file.path} has {len(matches)} bands {text!r}; use a number: {matches}"
        )
    if text in names:
        return names.index(text) + 1
    raise SourceError(
        f"{key}.band: {text!r} is not a band of {file.path}{nearest(text, names)}; it has {', '.join(names)}"
    )


def _check_index(source: Source, index: int, key: str) -> None:
    for file in source.files:
        if not 1 <= index <= file.count:
            raise SourceError(f"{key}.band: {index} asked for, and {file.path} has bands 1 to {file.count}")


def _band(source: Source, index: int, spec: BandSpec, key: str) -> Band:
    type_ = spec.type or _default_type(source, spec.indexes or (index,))
    if type_ not in NAMED_TYPES:
        raise SourceError(
            f"{key}.type: {type_!r} is not known{nearest(type_, NAMED_TYPES)}; use {', '.join(NAMED_TYPES)}"
        )
    resampling = spec.resampling or source.resampling
    check_choice(f"{key}.resampling", resampling, RESAMPLINGS)
    return Band(
        name=spec.name or default_names(source)[index - 1],
        source=source.name,
        index=index,
        type=type_,
        resampling=resampling,
        indexes=spec.indexes,
        series=source.series,
    )


def _default_type(source: Source, indexes: Sequence[int]) -> str:
    if source.compose in ("mean", "median"):
        return "float32"
    if source.compose == "count":
        return np.min_scalar_type(len(source.files)).name
    types = [np.dtype(file.dtypes[i - 1]) for file in source.files for i in indexes]
    dtype = np.result_type(*types)
    scaled = any(
        file.scales[i - 1] != 1 or file.offsets[i - 1] != 0 for file in source.files for i in indexes
    )
    if source.unscale and scaled:
        small = dtype == np.float32 or dtype.itemsize < 4
        return "float32" if small else "float64"
    return dtype.name
