"""What cannot go together in an image export, each with the reason; looked at before any work starts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from patchbeam.errors import EncodeError, JobError, nearest
from patchbeam.pixels import default_for

if TYPE_CHECKING:
    from patchbeam.plan import ExportPlan

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_INT64_MAX = 2**63 - 1


def refuse_contradictions(plan: ExportPlan) -> None:
    """Refuses options that contradict each other or the bands.

    Raises:
        JobError: names the keys, their values and what to do.
    """
    try:
        limit, (least, _) = plan.options.max_file_size_bytes, plan.record_size
    except EncodeError as error:
        width, height = plan.patches.stored_width_height
        raise JobError(
            f"formatOptions.patchDimensions: {width} × {height} pixels with the margin: {error}"
        ) from error
    if least > limit:
        raise JobError(
            f"formatOptions.maxFileSize: {limit} bytes is less than one record of {plan.record_kind} "
            f"takes ({least} bytes); give at least {least}, smaller patches or fewer bands"
        )
    if plan.gzip == "zlib6" and not plan.options.compressed:
        raise JobError(
            "gzip: zlib6 says how shards are compressed, and formatOptions.compressed: false says that they "
            "are not; leave one of them out"
        )
    arrays = {band.source for band in plan.bands if band.is_array}
    for name in sorted(plan.fill - arrays):
        raise JobError(
            f"sources.{name}.maskedObservations: fill is for array bands, and no band of this source is one; "
            "leave it out, or make it a series: true or a band of several numbers"
        )
    _check_default(plan)
    if plan.keep is not None:
        _check_labels(plan, "keep.band", plan.keep.band)
    if plan.sample is not None and plan.sample.band is not None:
        _check_labels(plan, "sample.band", plan.sample.band)
    plan.blocks.parts  # noqa: B018 - refuses too large a sample and splits without patches


def _check_labels(plan: ExportPlan, key: str, name: str) -> None:
    """Refuses a band that cannot hold classes."""
    names = [band.name for band in plan.bands]
    if name not in names:
        raise JobError(
            f"{key}: {name!r} is none of the exported bands, which are {', '.join(names)}"
            f"{nearest(name, names)}"
        )
    band = plan.bands[names.index(name)]
    if band.is_array or band.type.startswith("float"):
        what = "an array band" if band.is_array else f"of type {band.type}"
        raise JobError(f"{key}: {name!r} is {what}; classes are the whole numbers of a scalar integer band")


def _check_default(plan: ExportPlan) -> None:
    """Refuses a ``defaultValue`` that a record could not hold."""
    key, value = "formatOptions.defaultValue", plan.options.default_value
    if math.isnan(value):
        integer = [band.name for band in plan.bands if not band.type.startswith("float")]
        if integer:
            raise JobError(
                f"{key}: NaN is not a number that the integer bands {', '.join(integer)} can hold; give a "
                "number, or type: float32 to these bands"
            )
    floats = [band.name for band in plan.bands if band.type.startswith("float")]
    if floats and abs(value) > _FLOAT32_MAX:
        raise JobError(
            f"{key}: {value} is beyond float32, which holds the bands {', '.join(floats)} in the records; "
            f"give a number up to {_FLOAT32_MAX:g}"
        )
    for position, band in enumerate(plan.bands):
        wire = next(f for f in plan.features if position in f.bands)
        number = default_for(np.dtype(band.type), value)
        whole = isinstance(number, int)
        if plan.strict and whole and wire.kind == "float" and int(np.float32(number)) != number:
            raise JobError(
                f"{key}: {number}, which masked pixels of the band {band.name} would hold, is rounded by "
                "float32 and strict is true; give a number that float32 holds, or numbers: native"
            )
        if wire.kind == "int64" and number > _INT64_MAX:
            raise JobError(
                f"{key}: {value} becomes {number} in the {band.type} band "
                f"{band.name}, and the int64 list that holds it ends at 2**63 - 1; give a smaller number"
            )
