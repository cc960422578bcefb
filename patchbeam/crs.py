"""Coordinate reference systems: parsing, comparison, units.

Coordinates are always x, y (longitude, latitude) here, whatever axis order a CRS declares.
"""

from __future__ import annotations

import logging
import math
from functools import lru_cache

import pyproj
from odc.geo.crs import CRS
from pyproj.exceptions import CRSError

from patchbeam.errors import GridError

_LOG = logging.getLogger(__name__)

EARTH_RADIUS_M = 6378137.0
"""Metres of the equatorial radius by which the service turns a scale into degrees."""

_LEAST_SCALE_M = 0.01
"""Smaller pixels in a geographic CRS are degrees that were meant."""

_MODIS_SINUSOIDAL = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs"
_NOT_IN_PROJ = {"SR-ORG:6974": _MODIS_SINUSOIDAL, "SR-ORG:6842": _MODIS_SINUSOIDAL}
"""Codes that the service writes and PROJ does not know."""


def parse_crs(text: str, key: str = "grid.crs") -> CRS:
    """Returns the CRS of any text that PROJ takes, or of a MODIS sinusoidal ``SR-ORG`` code.

    Of a compound CRS (``EPSG:32633+5773``) only the horizontal part is kept.

    Args:
        text: such as ``EPSG:32633``, WKT, PROJJSON or a PROJ string.
        key: where the text stands, for the error.

    Raises:
        GridError: it is not a CRS, or not one of maps (geographic or projected).
    """
    try:
        given = pyproj.CRS.from_user_input(_NOT_IN_PROJ.get(text.strip().upper(), text))
        crs = CRS(given.sub_crs_list[0] if given.is_compound else given)
    except (CRSError, AttributeError, TypeError, ValueError) as error:
        raise GridError(
            f"{key}: {text!r} is not a coordinate reference system; give a code such as EPSG:32633, WKT or "
            f"a PROJ string ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
        ) from error
    if not (crs.geographic or crs.projected):
        raise GridError(
            f"{key}: {text!r} is neither geographic nor projected, so it cannot hold a map; "
            "give the CRS of a map"
        )
    return crs


def describe(crs: CRS | None) -> str:
    """Returns a short name of a CRS for messages: its code, else its name."""
    if crs is None:
        return "no CRS"
    # str(crs) is how it was first written in this process: WKT, where a file came first
    code = crs.to_epsg()
    if code is not None:
        return f"EPSG:{code}"
    text = str(crs)
    if len(text) <= 24:
        return text
    name = str(crs.proj.name)
    if name.lower() not in ("", "unnamed", "unknown", "undefined"):
        return f"CRS {name!r}"
    method = crs.proj.coordinate_operation
    return f"a CRS without a code ({'longitude and latitude' if method is None else method.method_name})"


def same_crs(one: CRS | None, other: CRS | None) -> bool:
    """True when two CRS give the same x, y; heights and the declared axis order do not count."""
    if one is None or other is None:
        return one is other
    return one is other or str(one) == str(other) or _same_text(str(one), str(other))


@lru_cache(maxsize=4096)
def _same_text(one: str, other: str) -> bool:
    first, second = (_horizontal(CRS(text)) for text in (one, other))
    return bool(first == second or first.proj.equals(second.proj, ignore_axis_order=True))


def _horizontal(crs: CRS) -> CRS:
    return CRS(crs.proj.sub_crs_list[0]) if crs.proj.is_compound else crs


def longitude_period(crs: CRS | None) -> float | None:
    """Returns a full turn in the units of a geographic CRS (360 in degrees); ``None`` for others."""
    if crs is None or not crs.geographic:
        return None
    factor = _unit_factor(crs)
    return 360.0 if math.isclose(factor, math.radians(1), rel_tol=1e-9) else 2 * math.pi / factor


def pixel_size(scale_m: float, crs: CRS) -> float:
    """Returns a pixel size in metres as CRS units.

    Geographic: ``degrees(scale / 6378137)``, as real exports have it. Projected: metres, divided by
    the metres of the CRS's unit where that is another one.
    """
    factor = _unit_factor(crs)
    if not crs.geographic:
        return scale_m if factor == 1.0 else scale_m / factor
    angle = scale_m / EARTH_RADIUS_M
    return math.degrees(angle) if longitude_period(crs) == 360.0 else angle / factor


def check_scale(scale_m: float, crs: CRS) -> None:
    """Refuses a scale that can only be degrees, and warns of one that may be.

    Raises:
        GridError: pixels of less than a centimetre in a geographic CRS.
    """
    if not crs.geographic or not 0 < scale_m < 1:
        return
    said = (
        f"grid.scale: {scale_m:g} is in metres, also for {describe(crs)}; for pixels of {scale_m:g} degrees "
        f"use crsTransform: [{scale_m:g}, 0, WEST, 0, {-scale_m:g}, NORTH]"
    )
    if scale_m < _LEAST_SCALE_M:
        raise GridError(said)
    _LOG.warning("%s", said)


def _unit_factor(crs: CRS) -> float:
    return float(_horizontal(crs).proj.axis_info[0].unit_conversion_factor)
