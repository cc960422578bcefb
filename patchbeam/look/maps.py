"""A map opened for looking: the tiles of an import, or any raster that GDAL reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import rasterio
from odc.geo.geobox import GeoBox
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.windows import Window

from patchbeam import storage
from patchbeam.crs import describe
from patchbeam.elements import Array, Mask
from patchbeam.errors import JobError, ReadFailed
from patchbeam.look.colours import Painter
from patchbeam.look.legend import Entry, masked_entry, painted_entries
from patchbeam.look.overview import COARSEST_LEVEL, MOST_ZOOM, SMALL_PICTURE
from patchbeam.look.painter import default_bands, paint_bands
from patchbeam.look.png import Rgb
from patchbeam.manifest import ManifestClass
from patchbeam.rasters.classes import read_classes
from patchbeam.rasters.header import GDAL_OPTIONS, read_header

_IMPORT = "-import.json"
_RASTERS = (".tif", ".tiff", ".vrt")
_SAMPLE_SIDE = 512
_STRIP_ROWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFiles:
    """Where a map is.

    Attributes:
        path: of the raster that shows all of it.
        title: its name.
        tiles: name, column, row, width and height of each tile; empty where nothing says them.
        categorical: whether an import says that its one band holds classes.
    """

    path: str
    title: str
    tiles: tuple[tuple[str, int, int, int, int], ...] = ()
    categorical: bool = False


def find_map(prefix: str) -> MapFiles | None:
    """Returns the map of this name, or ``None`` when it is no name of a map.

    Args:
        prefix: of an import that is complete, or the path of a ``.tif`` or ``.vrt``.

    Raises:
        JobError: there is no such raster, or what an import says of itself cannot be used.
    """
    prefix = prefix.removesuffix(_IMPORT)
    if prefix.lower().endswith(_RASTERS):
        if not storage.exists(prefix):
            raise JobError(f"{prefix}: does not exist; give a raster, or the prefix of a map or an export")
        return MapFiles(path=prefix, title=storage.split(prefix)[1])
    state = f"{prefix}{_IMPORT}"
    if not storage.exists(state):
        return None
    try:
        said = json.loads(storage.read_bytes(state))
        tiles = tuple((str(t["name"]), *(int(n) for n in t["window"][:4])) for t in said["tiles"])
        argmax = bool(said["options"]["argmax"])
    except (ValueError, KeyError, TypeError) as error:
        raise JobError(
            f"{state}: is not what an import writes ({type(error).__name__}: {error}); give the .vrt or .tif "
            "itself"
        ) from error
    return MapFiles(
        path=f"{prefix}.vrt",
        title=storage.split(prefix)[1],
        tiles=tiles,  # type: ignore[arg-type]  # a name and four numbers
        categorical=argmax,
    )


class MapView:
    """A map opened for looking. Close it, or use it in a ``with``.

    Attributes:
        files: where it is.
        grid: where it lies.
        bands: names of its bands.
        mask_band: always ``None``: what is masked, the raster itself says.
        masked_seen: whether a picture shows a masked pixel.
    """

    mask_band: str | None = None
    masked_seen = False

    def __init__(self, files: MapFiles) -> None:
        """Opens the raster.

        Raises:
            SourceError: it cannot be used; with the reason.
        """
        self.files = files
        self.header = read_header(files.path, files.title)
        self.grid: GeoBox = self.header.grid
        count = len(self.header.dtypes)
        indexes = [i for i in range(1, count + 1) if i != self.header.alpha]
        names = [self.header.descriptions[i - 1] or f"B{i}" for i in indexes]
        # two bands of one name are told apart by their numbers
        unique = [name if names.count(name) == 1 else f"B{i}" for i, name in zip(indexes, names, strict=True)]
        self._index = dict(zip(unique, indexes, strict=True))
        self.bands = tuple(unique)
        self._file: Any = rasterio.open(files.path)

    def classes_of(self, name: str) -> tuple[ManifestClass, ...] | None:
        """Returns the classes of a band that has names or colours for its values."""
        index = self._index[name]
        return read_classes(self.files.path, index, self.header.nodata[index - 1])

    def painter(
        self, bands: Sequence[str] | None, *, percentiles: tuple[float, float], classes: bool
    ) -> Painter:
        """Works out how bands become colours; arguments as of :func:`paint_bands`."""
        chosen = tuple(bands or default_bands(self))
        known = classes or (self.files.categorical and len(self.bands) == 1)
        return paint_bands(
            self, chosen, numbers=lambda: self._sample(chosen), percentiles=percentiles, classes=known
        )

    def size(self, most: int) -> tuple[int, int]:
        """Returns width and height of a picture of at most so many pixels, and no finer than the map."""
        width, height = self.grid.shape.x, self.grid.shape.y
        longer = max(width, height)
        if longer <= most:
            return width, height
        return max(1, round(width * most / longer)), max(1, round(height * most / longer))

    def sizes(self, most: int) -> list[tuple[int, int]]:
        """Returns sizes of pictures, the coarsest first, each twice as fine as the one before."""
        sizes = [self.size(most)]
        while max(sizes[0]) // 2 >= COARSEST_LEVEL:
            sizes.insert(0, (max(1, sizes[0][0] // 2), max(1, sizes[0][1] // 2)))
        return sizes

    def zoom(self, most: int) -> int:
        """Returns by how much a small map is enlarged in a picture of at most so many pixels."""
        return min(MOST_ZOOM, max(1, min(most, SMALL_PICTURE) // max(self.grid.shape.x, self.grid.shape.y)))

    def draw(self, painter: Painter, width: int, height: int) -> Rgb:
        """Draws the whole map; memory is that of the picture and of some rows of numbers.

        Args:
            painter: bands and colours.
            width: of the picture, at most that of the map.
            height: of the picture, at most that of the map.

        Raises:
            ReadFailed: a tile cannot be read.
        """
        picture = np.empty((height, width, 3), np.uint8)
        down = self.grid.shape.y / height
        for top in range(0, height, _STRIP_ROWS):
            rows = min(_STRIP_ROWS, height - top)
            window = Window(0, top * down, self.grid.shape.x, rows * down)
            values, masked = self._read(
                painter.bands, window, (rows, width), categorical=painter.classes is not None
            )
            picture[top : top + rows] = painter.paint(values, masked, width, rows)
            self.masked_seen = self.masked_seen or bool(masked.any())
        return picture

    def entries(self, painter: Painter) -> list[Entry]:
        """Returns the legend; it is asked for when the picture has been drawn."""
        return painted_entries(painter) + ([masked_entry("no data")] if self.masked_seen else [])

    def facts(self) -> str:
        """Returns what there is to say of the map in one line."""
        parts = [f"{self.grid.shape.x} × {self.grid.shape.y} pixels"]
        if self.files.tiles:
            parts.append(f"{len(self.files.tiles)} tile{'' if len(self.files.tiles) == 1 else 's'}")
        return ", ".join([*parts, describe(self.grid.crs)])

    def close(self) -> None:
        """Closes the raster."""
        self._file.close()

    def __enter__(self) -> MapView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _sample(self, bands: Sequence[str]) -> list[Array]:
        width, height = self.size(_SAMPLE_SIDE)
        whole = Window(0, 0, self.grid.shape.x, self.grid.shape.y)
        values, masked = self._read(bands, whole, (height, width), categorical=True)
        return [band[~masked] for band in values]

    def _read(
        self, bands: Sequence[str], window: Window, shape: tuple[int, int], *, categorical: bool
    ) -> tuple[list[Array], Mask]:
        """Numbers of a window, and where all bands are masked or not a number."""
        indexes = [self._index[name] for name in bands]
        way = Resampling.nearest if categorical else Resampling.average
        options = {"window": window, "out_shape": (len(indexes), *shape)}
        try:
            with rasterio.Env(**GDAL_OPTIONS):
                values = self._file.read(indexes, resampling=way, **options)
                valid = self._file.read_masks(indexes, resampling=Resampling.nearest, **options)
        except RasterioError as error:
            raise ReadFailed(
                f"{self.files.path}: cannot be read: {error.__cause__ or error}; is a tile gone or damaged?"
            ) from error
        masked: Mask = (valid == 0).all(axis=0)
        if values.dtype.kind == "f":
            masked |= np.isnan(values).all(axis=0)
        return list(values), masked
