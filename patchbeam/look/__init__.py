"""Pictures of an export or a map: patches at their place, a contact sheet, one patch, a page for a browser.

Memory is that of the picture and of one record a thread, however large the export or the map is.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from patchbeam import storage
from patchbeam.crs import describe
from patchbeam.errors import JobError
from patchbeam.exported import find_export
from patchbeam.look.canvas import stack
from patchbeam.look.colours import Painter
from patchbeam.look.legend import Entry, export_entries
from patchbeam.look.maps import MapFiles, MapView, find_map
from patchbeam.look.overview import draw_levels, draw_overview, lay_out, lay_out_levels
from patchbeam.look.painter import default_bands, make_painter
from patchbeam.look.palette import reduce_colours
from patchbeam.look.png import Rgb, png
from patchbeam.look.sheets import draw_bands, draw_sheet
from patchbeam.look.strips import legend_strip, pixel_metres, title_strip
from patchbeam.look.view import ExportView
from patchbeam.pool import Pool, core_count

__all__ = ["LookOptions", "look", "look_page", "png"]

LEAST_SIZE = 64
PICTURE_SIZE, PAGE_SIZE = 1600, 4096
"""Most pixels across and down, unless said otherwise."""

MOST_COLOURS = 220
"""Of a picture that is reduced; with those of title and legend a palette of 256 holds all."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOptions:
    """How an export or a map is shown.

    Attributes:
        show: which of them, where a prefix has both; ``None``: the map, unless an option that only an export
            has is given.
        bands: one, or three for red, green and blue; ``None`` chooses.
        percentiles: between which numbers are stretched to black and white.
        classes: whether one band is a class map though the manifest does not say so.
        size: most pixels of the picture, across and down, without title and legend, or of the finest
            picture of a page; ``None`` for 1600, of a page 4096.
        margins: whether patches are drawn with their margins.
        sheet: draw so many patches side by side instead of the map.
        patch: draw this patch and its bands instead of the map.
        colours: reduce the picture to so many, for a small file; title and legend have a few of their own.
        kernel: ``kernelSize``, where there is no manifest and it cannot be told from the records.
        threads: ``None`` for all cores.
    """

    show: Literal["export", "map"] | None = None
    bands: tuple[str, ...] | None = None
    percentiles: tuple[float, float] = (2.0, 98.0)
    classes: bool = False
    size: int | None = None
    margins: bool = False
    sheet: int | None = None
    patch: int | None = None
    colours: int | None = None
    kernel: tuple[int, int] | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        low, high = self.percentiles
        if not 0 <= low < high <= 100:
            raise JobError(f"--stretch: {low:g},{high:g} are not two percentiles that rise, such as 2,98")
        if self.size is not None and not LEAST_SIZE <= self.size <= 32_768:
            raise JobError(f"--size: {self.size} is not between {LEAST_SIZE} and 32768 pixels")
        if self.colours is not None and not 2 <= self.colours <= 256:
            raise JobError(f"--colours: {self.colours} is not between 2 and 256")
        if self.sheet is not None and self.sheet < 1:
            raise JobError(f"--sheet: {self.sheet} patches; give at least 1")
        if self.sheet is not None and self.patch is not None:
            raise JobError("--sheet and --patch: give one of them")

    @property
    def of_patches(self) -> dict[str, object]:
        """The options given that only an export has, by their names on the command line."""
        values = {
            "margins": self.margins or None,
            "sheet": self.sheet,
            "patch": self.patch,
            "kernel-size": self.kernel,
        }
        return {name: value for name, value in values.items() if value is not None}


def look(prefix: str, options: LookOptions | None = None) -> Rgb:
    """Draws an export or a map.

    Args:
        prefix: what the names of its files begin with; of a map also the path of a ``.tif`` or ``.vrt``.
        options: how it is shown.

    Returns:
        uint8 ``(row, col, 3)``; :func:`png` makes a file of it.

    Raises:
        JobError: there is no such export or map, or it has no such band or patch.
        SourceError: a map cannot be read.
        CorruptRecord: a record is damaged; with file, record and byte.
    """
    given = options or LookOptions()
    size = given.size or PICTURE_SIZE
    found = _map_of(prefix, given)
    if found is not None:
        return _look_at_map(found, given, size)
    with _opened(prefix, given) as (view, pool):
        painter = _painter(view, given, pool, patch=given.patch)
        pixel = None
        on_map = given.sheet is None and given.patch is None
        margins = given.margins or given.patch is not None
        if given.patch is not None:
            picture = draw_bands(
                view, painter, patch=given.patch, size=size, percentiles=given.percentiles, pool=pool
            )
        elif given.sheet is not None:
            picture = draw_sheet(view, painter, count=given.sheet, size=size, margins=margins, pool=pool)
        else:
            patches = view.patches
            shown = patches.stored_width_height if margins else patches.patch_width_height
            tiling = lay_out(patches.columns, patches.rows, shown, size)
            picture = draw_overview(view, painter, tiling, margins=margins, pool=pool)
            metres = pixel_metres(view.grid)
            if metres is not None and not margins:
                pixel = metres * shown[0] * tiling.every / (tiling.tile[0] + tiling.gap)
        entries = export_entries(view, painter, on_map=on_map, margins=margins)
        return _framed(picture, _title(view, given), facts(view), entries, pixel, given.colours)


def look_page(prefix: str, options: LookOptions | None = None) -> str:
    """Returns a page of HTML that shows an export or a map and opens without a network.

    Args:
        prefix: as of :func:`look`.
        options: how it is shown; sheets and single patches are for pictures only.

    Raises:
        JobError: as :func:`look`.
        SourceError: as :func:`look`.
        CorruptRecord: as :func:`look`.
    """
    from patchbeam.look.page import Level, export_data, page

    given = options or LookOptions()
    size = given.size or PAGE_SIZE
    found = _map_of(prefix, given)
    if found is not None:
        return _page_of_map(found, given, size)
    with _opened(prefix, given) as (view, pool):
        painter = _painter(view, given, pool)
        tilings = lay_out_levels(view, size)
        pictures = draw_levels(view, painter, tilings, margins=False, pool=pool)
        width, height = view.patches.patch_width_height
        levels = [
            Level(picture=picture, covers=(t.columns * t.every * width, t.rows * t.every * height))
            for t, picture in zip(tilings, pictures, strict=True)
        ]
        entries = export_entries(view, painter)
        return page(
            levels, entries, export_data(view), title=_title(view, given), facts=facts(view), pool=pool
        )


def _map_of(prefix: str, options: LookOptions) -> MapFiles | None:
    """Returns the map that is to be shown; ``None`` when it is to be an export, or there is no map."""
    if options.show == "export":
        return None
    found = find_map(prefix)
    if found is None and options.show == "map":
        raise JobError(
            f"--show map: {prefix}: there is no complete map of this name; leave the option out to see an "
            "export"
        )
    if found is None or options.show == "map" or not _has_export(prefix):
        return found
    if options.of_patches:
        return None
    _LOG.warning(
        "%s is the name of a map and of an export; the map is shown: --show export shows the patches, "
        "--show map says nothing",
        prefix,
    )
    return found


def _has_export(prefix: str) -> bool:
    try:
        return bool(find_export(prefix).shards)
    except JobError:
        return False


def _look_at_map(found: MapFiles, given: LookOptions, size: int) -> Rgb:
    with _opened_map(found, given) as (view, painter):
        zoom = view.zoom(size)
        picture = view.draw(painter, *view.size(size)).repeat(zoom, axis=0).repeat(zoom, axis=1)
        metres = pixel_metres(view.grid)
        pixel = None if metres is None else metres * view.grid.shape.x / picture.shape[1]
        return _framed(picture, found.title, view.facts(), view.entries(painter), pixel, given.colours)


def _page_of_map(found: MapFiles, given: LookOptions, size: int) -> str:
    from patchbeam.look.page import Level, map_data, page

    with _opened_map(found, given) as (view, painter), Pool(given.threads or core_count()) as pool:
        whole = (view.grid.shape.x, view.grid.shape.y)
        levels = [Level(picture=view.draw(painter, *shape), covers=whole) for shape in view.sizes(size)]
        data = map_data(view.grid, describe(view.grid.crs), found.tiles, found.title)
        return page(levels, view.entries(painter), data, title=found.title, facts=view.facts(), pool=pool)


@contextmanager
def _opened_map(found: MapFiles, options: LookOptions) -> Iterator[tuple[MapView, Painter]]:
    for name in options.of_patches:
        raise JobError(f"--{name}: {found.title} is a map and has no patches; leave the option out")
    with MapView(found) as view:
        yield view, view.painter(options.bands, percentiles=options.percentiles, classes=options.classes)


def _painter(view: ExportView, options: LookOptions, pool: Pool, *, patch: int | None = None) -> Painter:
    return make_painter(
        view,
        options.bands or default_bands(view),
        percentiles=options.percentiles,
        classes=options.classes,
        pool=pool,
        sample=None if patch is None else (patch,),
    )


def _framed(
    picture: Rgb, title: str, about: str, entries: list[Entry], pixel: float | None, colours: int | None
) -> Rgb:
    """Puts title and legend above and below a picture."""
    if colours is not None:
        picture = reduce_colours(picture, min(colours, MOST_COLOURS))
    width = picture.shape[1]
    strips = [title_strip(width, title, about), picture, legend_strip(entries, width, pixel)]
    return stack(strips, pad=max(8, min(24, width // 40)))


@contextmanager
def _opened(prefix: str, options: LookOptions) -> Iterator[tuple[ExportView, Pool]]:
    threads = options.threads or core_count()
    with ExportView(prefix, kernel=options.kernel, threads=threads) as view, Pool(threads) as pool:
        yield view, pool


def _title(view: ExportView, options: LookOptions) -> str:
    name = storage.split(view.files.prefix)[1]
    return name if options.patch is None else f"{name}, patch {options.patch}"


def facts(view: ExportView) -> str:
    """Returns what there is to say of an export in one line."""
    patches = view.patches
    width, height = patches.patch_width_height
    parts = [f"{patches.count} patch{'' if patches.count == 1 else 'es'} of {width} × {height}"]
    if any(view.values.margin_width_height):
        across, down = view.values.margin_width_height
        parts.append(f"margin {across}" if across == down else f"margin {across} × {down}")
    if view.crs_code is not None:
        parts.append(view.crs_code)
    return ", ".join(parts)
