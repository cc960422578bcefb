"""The mixer: the small JSON file that says where a sequence of patches lies on the map.

The text layout is Earth Engine's, byte for byte (see ``docs/formats.md``): two-space indent, arrays on
one line, no newline at the end, doubles as Java's ``Double.toString`` prints them. Reading is tolerant of
layout and key order and strict about content. A mixer holds no kernel, no bands and no types.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from patchbeam.errors import JobError, nearest, short

if TYPE_CHECKING:
    from odc.geo.geobox import GeoBox
    from pyproj import CRS

    from patchbeam.patches import PatchGrid

_MOST = 1 << 62
_GIVE = "; give the mixer of an export, PREFIX-mixer.json or PREFIXmixer.json"
# Mixers are also written by hand, for predictions that no export stands behind.
_MEND = "; mend it, or fetch the mixer again from where the export was written"
Affine6 = tuple[float, float, float, float, float, float]


def java_double(value: float) -> str:
    """Returns ``value`` as Java's ``Double.toString`` prints it (the shortest digits, as since JDK 19).

    Plain notation from 1e-3 up to 1e7, else one digit before the point and ``E``; there is always a digit
    after the point. Java takes at least two digits when it looks for the nearest decimal, so the smallest
    double is ``4.9E-324`` where Python prints ``5e-324``.
    """
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, digit_tuple, exponent = Decimal(repr(abs(value))).as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, digit_tuple)).rstrip("0")
    point = len(digit_tuple) + exponent  # the value is 0.DIGITS * 10**point
    if len(digits) == 1:
        mantissa, power = f"{abs(value):.1e}".split("e")
        digits, point = mantissa.replace(".", "").rstrip("0"), int(power) + 1
    if -2 <= point <= 7:  # 1e-3 <= value < 1e7
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        whole = digits[:point].ljust(point, "0")
        return f"{sign}{whole}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def crs_code(crs: CRS) -> str | None:
    """Returns ``EPSG:n`` when the CRS is that of a code (axis order apart), else ``None``."""
    from pyproj import CRS

    # OGC:CRS84 is EPSG:4326 with longitude first, which is how pixels are laid out under either name.
    number = 4326 if crs.to_authority() == ("OGC", "CRS84") else crs.to_epsg()
    if number is None or not crs.equals(CRS.from_epsg(number), ignore_axis_order=True):
        return None
    return f"EPSG:{number}"


def crs_text(crs: CRS) -> str:
    """Returns the text that names a CRS in a mixer: ``EPSG:n`` where there is a code, else WKT.

    The WKT is the older and more widely read kind, unless that cannot say all of the CRS.
    """
    from pyproj import CRS
    from pyproj.exceptions import CRSError

    code = crs_code(crs)
    if code is not None:
        return code
    try:
        old = crs.to_wkt("WKT1_GDAL")
        if old and CRS.from_wkt(old).equals(crs):
            return str(old)
    except CRSError:
        pass
    return str(crs.to_wkt())


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixer:
    """Where the patches of an export lie.

    Attributes:
        crs: text that PROJ takes, or ``SR-ORG:6974``.
        affine: xScale, xShear, xTranslate, yShear, yScale, yTranslate, from pixels to CRS units. The
            origin is the outer corner of the first patch without its margin.
        patch_width_height: pixels of a patch without its margin.
        patches_per_row: patches side by side.
        total_patches: all patches, a whole number of rows.

    Raises:
        JobError: a value is missing or impossible; the message names the key as the file spells it.
    """

    crs: str
    affine: Affine6
    patch_width_height: tuple[int, int]
    patches_per_row: int
    total_patches: int

    def __post_init__(self) -> None:
        if not isinstance(self.crs, str) or not self.crs.strip():
            raise JobError(f"projection.crs: {self.crs!r} is not the text of a CRS")
        key = "projection.affine.doubleMatrix"
        values = tuple(_number(v, f"{key}[{i}]") for i, v in enumerate(_items(self.affine, key, 6)))
        if values[0] * values[4] - values[1] * values[3] == 0:
            raise JobError(f"{key}: {list(values)} is singular: it maps all pixels onto a line or a point")
        object.__setattr__(self, "affine", values)
        key = "patchDimensions"
        sizes = tuple(
            _positive(v, f"{key}[{i}]") for i, v in enumerate(_items(self.patch_width_height, key, 2))
        )
        object.__setattr__(self, "patch_width_height", sizes)
        object.__setattr__(self, "patches_per_row", _positive(self.patches_per_row, "patchesPerRow"))
        object.__setattr__(self, "total_patches", _positive(self.total_patches, "totalPatches"))
        if self.total_patches % self.patches_per_row:
            raise JobError(
                f"totalPatches: {self.total_patches} is not a whole number of rows of patchesPerRow = "
                f"{self.patches_per_row}"
            )

    @property
    def rows(self) -> int:
        """Rows of patches."""
        return self.total_patches // self.patches_per_row

    def to_text(self) -> str:
        """Returns the file's text, in exactly Earth Engine's layout."""
        matrix = ", ".join(java_double(value) for value in self.affine)
        width, height = self.patch_width_height
        return (
            "{\n"
            '  "projection": {\n'
            f'    "crs": {json.dumps(self.crs)},\n'
            '    "affine": {\n'
            f'      "doubleMatrix": [{matrix}]\n'
            "    }\n"
            "  },\n"
            f'  "patchDimensions": [{width}, {height}],\n'
            f'  "patchesPerRow": {self.patches_per_row},\n'
            f'  "totalPatches": {self.total_patches}\n'
            "}"
        )

    @classmethod
    def from_text(cls, text: str | bytes, name: str = "mixer") -> Mixer:
        """Reads a mixer in any JSON layout and key order; other keys are passed over.

        Args:
            text: what the file holds.
            name: of the file, for messages.

        Raises:
            JobError: not JSON, or a key is missing or impossible; the message names file and key.
        """
        try:
            root = json.loads(text.encode() if isinstance(text, str) else text)
        except (ValueError, RecursionError) as error:
            raise JobError(f"{name}: not a mixer, because it is not JSON: {error}{_GIVE}") from None
        try:
            return cls(
                crs=_member(root, "projection", "crs"),
                affine=_member(root, "projection", "affine", "doubleMatrix"),
                patch_width_height=_member(root, "patchDimensions"),
                patches_per_row=_member(root, "patchesPerRow"),
                total_patches=_member(root, "totalPatches"),
            )
        except JobError as error:
            raise JobError(f"{name}: {error}{_MEND if isinstance(root, dict) else _GIVE}") from None

    def _repr_html_(self) -> str:
        from patchbeam.repr import mixer_html

        return mixer_html(self)

    def grid(self) -> GeoBox:
        """Returns the grid that the patches cover, one cell a pixel.

        Raises:
            GridError: PROJ does not know the CRS, or it is not one of maps.
        """
        from affine import Affine
        from odc.geo.geobox import GeoBox

        from patchbeam.crs import parse_crs

        width, height = self.patch_width_height
        crs = parse_crs(self.crs, "projection.crs")
        return GeoBox((self.rows * height, self.patches_per_row * width), Affine(*self.affine), crs)

    @classmethod
    def from_grid(cls, grid: GeoBox, patches: PatchGrid) -> Mixer:
        """Returns the mixer of all patches of a grid.

        Raises:
            JobError: the grid has no CRS or no patch.
        """
        if grid.crs is None:
            raise JobError("projection.crs: the grid has no CRS; make it with one, such as EPSG:32633")
        a, b, c, d, e, f = (float(v) + 0.0 for v in tuple(grid.affine)[:6])  # + 0.0 makes -0.0 a plain zero
        return cls(
            crs=crs_text(grid.crs.proj),
            affine=(a, b, c, d, e, f),
            patch_width_height=patches.patch_width_height,
            patches_per_row=patches.columns,
            total_patches=patches.count,
        )


def _member(root: Any, *keys: str) -> Any:
    """The value at a path of keys; names the path when something on it is missing."""
    value = root
    for depth, key in enumerate(keys):
        path = ".".join(keys[:depth]) or "the whole"
        if not isinstance(value, dict):
            raise JobError(f"{path}: {short(value)} is not an object with the key {key!r}")
        if key not in value:
            near = nearest(key, [k for k in value if k not in keys])
            raise JobError(f"{'.'.join(keys[: depth + 1])}: missing{near}")
        value = value[key]
    return value


def _items(value: Any, key: str, count: int) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) != count:
        raise JobError(f"{key}: {short(value)} is not a list of {count} numbers")
    return tuple(value)


def _number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise JobError(f"{key}: {short(value)} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise JobError(f"{key}: {short(value)} is not finite")
    return number


def _positive(value: Any, key: str) -> int:
    # 256.0 is the same JSON number as 256; some tools write every number with a point.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise JobError(f"{key}: {short(value)} is not a whole number above 0")
    if value > _MOST:
        raise JobError(f"{key}: {short(value)} is more than any export has")
    return value
