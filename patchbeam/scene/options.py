"""What a sample scene can be asked for, checked before anything is written."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import rasterio
from rasterio.crs import CRS
from rasterio.errors import CRSError

from patchbeam.errors import JobError, nearest
from patchbeam.scene.spectra import BANDS

COMPRESSIONS = ("none", "deflate", "zstd", "lzw")
DTYPES = ("uint16", "float32")
LAYOUTS = ("tiled", "striped")
INTERLEAVES = ("pixel", "band")
MOST_DATES = 60
LONGEST_SIDE = 2**31 - 1  # what GDAL counts pixels with
_LEVELS = {"deflate": (1, 12), "zstd": (1, 22)}

# Origins whose pixel edges are whole multiples of the usual scales, in central Europe.
_ORIGIN_METRES = (399_960.0, 5_300_040.0)
_ORIGIN_DEGREES = (13.5, 48.0)
_EARTH_RADIUS_M = 6378137.0  # of the sphere that Earth Engine turns metres into degrees with


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneOptions:
    """Options of :func:`patchbeam.scene.write_scene`, which describes them."""

    width: int
    height: int
    bands: int = 4
    seed: int = 0
    dates: int = 1
    crs: str = "EPSG:32633"
    origin: tuple[float, float] | None = None
    scale_m: float = 10.0
    dtype: str = "uint16"
    layout: str = "tiled"
    block_size: int = 256
    interleave: str = "pixel"
    compress: str = "deflate"
    level: int | None = None
    cloud_fraction: float = 0.1
    nodata_fraction: float = 0.03
    class_map: bool = True
    overwrite: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuses what cannot be written.

        Raises:
            JobError: naming the option, its value and what is allowed.
        """
        for name, low, high in (
            ("width", 1, LONGEST_SIDE),
            ("height", 1, LONGEST_SIDE),
            ("bands", 1, len(BANDS)),
            ("seed", 0, 2**63 - 1),
            ("dates", 1, MOST_DATES),
            ("block_size", 16, 4096),
        ):
            _whole(name, getattr(self, name), low, high)
        if self.threads is not None:
            _whole("threads", self.threads, 1, 256)
        if self.block_size % 16:
            below = self.block_size // 16 * 16
            raise JobError(
                f"block_size: {self.block_size} is not a multiple of 16, which TIFF asks of tiles;"
                f" {below} and {below + 16} are"
            )
        for name, known in (
            ("dtype", DTYPES),
            ("layout", LAYOUTS),
            ("interleave", INTERLEAVES),
            ("compress", COMPRESSIONS),
        ):
            value = getattr(self, name)
            if value not in known:
                raise JobError(
                    f"{name}: {value!r} is not one of {', '.join(known)}{nearest(str(value), known)}"
                )
        if self.level is not None:
            if self.compress not in _LEVELS:
                raise JobError(f"level: compress {self.compress!r} has no levels; leave level out")
            _whole(f"level of {self.compress}", self.level, *_LEVELS[self.compress])
        if not (math.isfinite(self.scale_m) and self.scale_m > 0):
            raise JobError(f"scale_m: {self.scale_m} is not a pixel size in metres above 0")
        for name, high_share in (("cloud_fraction", 0.9), ("nodata_fraction", 0.5)):
            share = getattr(self, name)
            if not 0 <= share <= high_share:
                raise JobError(f"{name}: {share} is not between 0 and {high_share}")
        if self.origin is not None and not (
            len(self.origin) == 2 and all(math.isfinite(value) for value in self.origin)
        ):
            raise JobError(f"origin: {self.origin} is not the x and y of the upper-left corner")
        self.parsed_crs()

    def parsed_crs(self) -> CRS:
        """The coordinate reference system.

        Raises:
            JobError: if ``crs`` is none, or one without map coordinates.
        """
        try:
            with rasterio.Env():
                crs = CRS.from_user_input(self.crs)
        except CRSError as error:
            raise JobError(
                f"crs: {self.crs!r} is not known ({error}); try a code such as EPSG:32633"
            ) from None
        if not (crs.is_projected or crs.is_geographic):
            raise JobError(f"crs: {self.crs!r} is neither projected nor geographic")
        return crs

    def transform(self) -> rasterio.Affine:
        """Pixel to map coordinates, north up.

        ``scale_m`` is turned into the units of the CRS; into degrees on a sphere, as for an export grid.
        """
        crs = self.parsed_crs()
        if crs.is_geographic:
            size, origin = math.degrees(self.scale_m / _EARTH_RADIUS_M), self.origin or _ORIGIN_DEGREES
        else:
            size, origin = self.scale_m / crs.linear_units_factor[1], self.origin or _ORIGIN_METRES
        return rasterio.Affine(size, 0.0, origin[0], 0.0, -size, origin[1])

    def dates_of_year(self) -> tuple[date, ...]:
        """When the dates are: one in May, several spread evenly from March to October 2024."""
        if self.dates == 1:
            return (date(2024, 5, 12),)
        first, last = date(2024, 3, 15), date(2024, 10, 21)
        step = (last - first).days / (self.dates - 1)
        return tuple(first + timedelta(days=round(i * step)) for i in range(self.dates))


def check_path(path: str) -> Path:
    """The local path of a scene, whose folder is made if need be.

    Raises:
        JobError: if it is not a path of a TIFF file, or its folder cannot be had.
    """
    if "://" in path:
        raise JobError(f"{path}: a scene is written to a local file; write it here and copy it there")
    file = Path(path)
    if file.suffix.lower() not in (".tif", ".tiff"):
        raise JobError(f"{path}: a scene is a GeoTIFF; end its name with .tif")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(f"{path}: its folder {file.parent} cannot be made: {error.strerror}") from None
    return file


def _whole(name: str, value: object, low: int, high: int) -> None:
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise JobError(f"{name}: {value!r} is not a whole number") from None
    if isinstance(value, bool) or not low <= number <= high:
        raise JobError(f"{name}: {value!r} is not between {low} and {high}")
