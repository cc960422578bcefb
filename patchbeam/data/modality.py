"""What a modality of an image database is made of: bands, a type, a normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.bandlayout import BandLayout
from patchbeam.data.database import Spec
from patchbeam.data.errors import DataError
from patchbeam.errors import JobError, nearest

Normalize = bool | str | tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Modality:
    """A modality, as the user asks for it.

    Attributes:
        bands: names, in channel order; an array band fills as many channels as it has steps.
        dtype: NumPy type of the values; by default that of the bands (float32, unless the export has
            ``numbers: native``), and float32 when normalised.
        normalize: true for (x - mean) / standard deviation by the manifest's statistics of each band; the
            name of a split, mostly ``"train"``, for those of its patches; or ``(means, deviations)``, a
            number a channel.
        squeeze: whether a single channel has no axis of its own: ``(row, col)``, as class maps are used.
    """

    bands: tuple[str, ...]
    dtype: str | None = None
    normalize: Normalize = False
    squeeze: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResolvedModality:
    """A modality and the bands that fill it.

    Attributes:
        name: of the modality.
        bands: in channel order.
        dtype: of the values.
        shape: ``(channel, row, col)``, the margin as it is given out.
        squeeze: whether the axis of the channels is left out.
        mean: float32 ``(channel, 1, 1)``, ``None`` when values stay as they are.
        std: likewise; 1 for constant bands.
    """

    name: str
    bands: tuple[BandLayout, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, int, int]
    squeeze: bool
    mean: NDArray[np.float32] | None
    std: NDArray[np.float32] | None

    @property
    def spec(self) -> Spec:
        """What its values are."""
        if self.squeeze:
            return Spec(shape=self.shape[1:], dtype=self.dtype.name, layout="HW")
        return Spec(shape=self.shape, dtype=self.dtype.name, layout="CHW")

    def normalized(self, values: NDArray[Any]) -> None:
        """Normalises ``(channel, row, col)`` in place."""
        if self.mean is not None and self.std is not None:
            np.subtract(values, self.mean, out=values)
            np.divide(values, self.std, out=values)


def resolve(
    wanted: Mapping[str, Modality | Sequence[str] | str] | None,
    layouts: Sequence[BandLayout],
    crop: tuple[int, int],
    default_normalize: Normalize,
    where: str,
) -> tuple[ResolvedModality, ...]:
    """Finds the bands of every modality.

    Args:
        wanted: name → modality, band names or one name; ``None`` for one modality ``image`` of all bands.
        layouts: the bands of the records.
        crop: pixels cut off left and right, and above and below.
        default_normalize: of modalities that are given by their bands alone.
        where: the export, for messages.

    Raises:
        JobError: a band is not there, bands of one modality have different sizes, or statistics are missing.
    """
    if wanted is None:
        wanted = {"image": tuple(layout.name for layout in layouts)}
    if not wanted:
        raise JobError("modalities: name at least one, such as {'image': ['B4', 'B3', 'B2']}")
    found = []
    for name, what in wanted.items():
        if not isinstance(what, Modality):
            bands = (what,) if isinstance(what, str) else tuple(what)
            what = Modality(bands=bands, normalize=default_normalize)
        found.append(_resolve(name, what, layouts, crop, where))
    return tuple(found)


def _resolve(
    name: str, what: Modality, layouts: Sequence[BandLayout], crop: tuple[int, int], where: str
) -> ResolvedModality:
    by_name = {layout.name: layout for layout in layouts}
    if not what.bands:
        raise JobError(f"modalities.{name}: no bands; {where} has {', '.join(by_name)}")
    for band in what.bands:
        if band not in by_name:
            raise JobError(
                f"modalities.{name}: no band {band!r} in {where}; it has "
                f"{', '.join(by_name)}{nearest(band, by_name)}"
            )
    bands = tuple(by_name[band] for band in what.bands)
    channels = sum(band.channels for band in bands)
    if what.squeeze and channels != 1:
        raise JobError(f"modalities.{name}: squeeze: {channels} channels; only a single one can be left out")
    height, width = bands[0].shape[-2:]
    mean = std = None
    if what.normalize is not False:
        mean, std = _statistics(name, what.normalize, bands, channels)
    if what.dtype is not None:
        try:
            dtype = np.dtype(what.dtype)
        except TypeError:
            raise JobError(f"modalities.{name}: dtype: {what.dtype!r} is no NumPy type") from None
        if dtype.kind not in "biuf" or (mean is not None and dtype.kind != "f"):
            raise JobError(
                f"modalities.{name}: dtype: {what.dtype} cannot hold "
                f"{'normalised ' * (mean is not None)}values"
            )
    else:
        dtype = np.dtype("float32") if mean is not None else np.result_type(*(band.dtype for band in bands))
    return ResolvedModality(
        name=name,
        bands=bands,
        dtype=dtype,
        shape=(channels, height - 2 * crop[1], width - 2 * crop[0]),
        squeeze=what.squeeze,
        mean=mean,
        std=std,
    )


def _statistics(
    name: str, normalize: Normalize, bands: Sequence[BandLayout], channels: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    if isinstance(normalize, str):
        splits = list(bands[0].split_moments)
        if normalize not in splits:
            have = f"it has {', '.join(splits)}" if splits else "it has none"
            raise JobError(
                f"modalities.{name}: normalize: {normalize!r} is no split of this export with statistics; "
                f"{have}{nearest(normalize, splits)}"
            )
        moments = [band.split_moments[normalize] for band in bands]
        bands = [replace(b, mean=mean, std=std) for b, (mean, std) in zip(bands, moments, strict=True)]
        normalize = True
    if normalize is True:
        missing = [band.name for band in bands if band.mean is None or band.std is None]
        if missing:
            raise JobError(
                f"modalities.{name}: normalize: no statistics of {', '.join(missing)} (only a manifest has "
                "them, of "
                "bands with valid pixels); give normalize=(means, standard deviations)"
            )
        means = [band.mean for band in bands for _ in range(band.channels)]
        deviations = [band.std for band in bands for _ in range(band.channels)]
    else:
        assert not isinstance(normalize, bool)
        means, deviations = list(normalize[0]), list(normalize[1])
        if len(means) != channels or len(deviations) != channels:
            raise JobError(
                f"modalities.{name}: normalize: {len(means)} means and {len(deviations)} deviations for "
                f"{channels} channels"
            )
        if not all(d is not None and d > 0 for d in deviations):
            raise JobError(f"modalities.{name}: normalize: {deviations}: standard deviations must be above 0")
    column = np.array(means, np.float32).reshape(-1, 1, 1)
    # A constant band becomes 0 everywhere.
    divisor = np.array([d or 1.0 for d in deviations], np.float32).reshape(-1, 1, 1)
    return column, divisor


def cast_into(target: NDArray[Any], source: NDArray[Any], where: str) -> None:
    """Copies values into another type, if that can hold them.

    Raises:
        DataError: an integer type cannot hold a value; names it.
    """
    kind = target.dtype.kind
    if kind in "iu" and source.dtype != target.dtype:
        limits = np.iinfo(target.dtype)
        with np.errstate(invalid="ignore"):
            wrong = ~((source >= limits.min) & (source <= limits.max) & (np.trunc(source) == source))
        if wrong.any():
            raise DataError(
                f"{where}: {source[wrong][0]!r} is no {target.dtype}; ask for another dtype, or export "
                "valid pixels only"
            )
    target[...] = source
