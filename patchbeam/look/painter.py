"""Which bands are shown, and in which colours: worked out from a sample of the export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from patchbeam.elements import Array, Ints
from patchbeam.errors import JobError, nearest
from patchbeam.look.colours import Classes, Painter, Stretch, stretch_of
from patchbeam.look.view import ExportView
from patchbeam.manifest import ManifestClass
from patchbeam.pool import Pool

SAMPLE_PATCHES = 48
_SAMPLE_PIXELS = 4096
_MOST_FOUND_CLASSES = 24
_NATURAL = (("B4", "B3", "B2"), ("red", "green", "blue"), ("R", "G", "B"), ("SR_B4", "SR_B3", "SR_B2"))
"""Names that give natural colours, in the order red, green, blue."""


class Bands(Protocol):
    """What is looked at: an export or a map."""

    @property
    def bands(self) -> tuple[str, ...]:
        """Names of the bands."""

    @property
    def mask_band(self) -> str | None:
        """Name of the band that says which pixels are valid."""

    def classes_of(self, name: str) -> Sequence[ManifestClass] | None:
        """Returns the classes of a band that is a class map."""


def default_bands(view: Bands) -> tuple[str, ...]:
    """Returns the bands that are shown when none are named: natural colours, else the first three, else one.

    Class maps, the mask band and array bands but for the first step of the first are no channels of a
    picture.
    """
    folded = {name.lower(): name for name in view.bands}
    for names in _NATURAL:
        if all(name.lower() in folded for name in names):
            return tuple(folded[name.lower()] for name in names)
    plain = [name for name in view.bands if name != view.mask_band and not view.classes_of(name)]
    scalar = [name for name in plain if not name.endswith("]")] or plain
    if len(scalar) >= 3:
        return tuple(scalar[:3])
    return tuple((scalar or list(view.bands))[:1])


def make_painter(
    view: ExportView,
    bands: Sequence[str],
    *,
    percentiles: tuple[float, float],
    classes: bool,
    pool: Pool,
    sample: Sequence[int] | None = None,
) -> Painter:
    """Works out how bands become colours.

    Args:
        view: the export.
        bands: one or three.
        percentiles: between which numbers are stretched.
        classes: whether one band is a class map though nothing says so.
        pool: threads.
        sample: patches whose numbers, margins too, decide what is black and white; by default some of all,
            without margins.

    Raises:
        JobError: neither one band nor three, or one that is not there.
    """
    return paint_bands(
        view,
        bands,
        numbers=lambda: _sample(view, tuple(bands), pool, sample),
        percentiles=percentiles,
        classes=classes,
    )


def paint_bands(
    view: Bands,
    bands: Sequence[str],
    *,
    numbers: Callable[[], Sequence[Array]],
    percentiles: tuple[float, float],
    classes: bool,
) -> Painter:
    """Works out how bands become colours.

    Args:
        view: an export or a map.
        bands: one or three.
        numbers: gives a sample of each band, where one is needed.
        percentiles: between which numbers are stretched.
        classes: whether one band is a class map though nothing says so.

    Raises:
        JobError: neither one band nor three, or one that is not there.
    """
    if len(bands) not in (1, 3):
        raise JobError(
            f"--bands: {','.join(bands)} are {len(bands)}; give one band, or three for red, green, blue"
        )
    for name in bands:
        if name not in view.bands:
            raise JobError(
                f"--bands: {name!r} is not a band{nearest(name, view.bands)}; there are "
                f"{', '.join(view.bands[:20])}"
            )
    chosen = tuple(bands)
    known = view.classes_of(chosen[0]) if len(chosen) == 1 else None
    if known:
        return Painter(bands=chosen, classes=Classes(known))
    if chosen == (view.mask_band,):
        return Painter(bands=chosen, stretches=(Stretch(low=0.0, high=1.0),))
    sample = numbers()
    if len(chosen) == 1 and classes:
        return Painter(bands=chosen, classes=_found_classes(sample[0], chosen[0]))
    return Painter(bands=chosen, stretches=tuple(stretch_of(values, percentiles) for values in sample))


def _found_classes(sample: Array, name: str) -> Classes:
    values = np.unique(sample[np.isfinite(sample)])
    if len(values) > _MOST_FOUND_CLASSES or (values != np.round(values)).any():
        raise JobError(
            f"--classes: band {name!r} has {len(values)} different numbers in a sample, so it is "
            "no class map; leave --classes out, or name another band with --bands"
        )
    return Classes([ManifestClass(value=int(value)) for value in values])


def _sample(
    view: ExportView, bands: tuple[str, ...], pool: Pool, patches: Sequence[int] | None
) -> list[Array]:
    """Numbers of each band that are not masked: of some patches of all, or of those given, margins too."""

    def shown(values: Array) -> Array:
        return view.inner(values) if patches is None else values

    present = view.present if patches is None else view.present[np.isin(view.present, patches)]
    chosen: Ints = present
    if len(present) > SAMPLE_PATCHES:
        chosen = present[np.linspace(0, len(present) - 1, SAMPLE_PATCHES).astype(np.int64)]
    width, height = view.patches.patch_width_height
    step = max(1, int((width * height / _SAMPLE_PIXELS) ** 0.5))

    def numbers(patch: int) -> list[Array]:
        values, masked = view.read(patch, bands, step)
        thin = 1 if view.values.sequence else step
        valid = None if masked is None else ~shown(masked)[::thin, ::thin]
        pixels = [shown(band)[::thin, ::thin] for band in values]
        return [band.reshape(-1) if valid is None else band[valid] for band in pixels]

    parts = list(pool.map(numbers, chosen.tolist()))
    return [np.concatenate([part[i] for part in parts]) if parts else np.empty(0) for i in range(len(bands))]
