"""Pictures of an export: its patches on the map, a contact sheet, one patch, or a page for a browser.

Memory is that of the picture and of one record a thread, however large the export is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from patchbeam import storage
from patchbeam.errors import JobError
from patchbeam.look.canvas import stack
from patchbeam.look.overview import draw_overview
from patchbeam.look.painter import default_bands, make_painter
from patchbeam.look.palette import reduce_colours
from patchbeam.look.png import Rgb, png
from patchbeam.look.sheets import draw_bands, draw_sheet
from patchbeam.look.strips import legend_strip, pixel_metres, title_strip
from patchbeam.look.view import ExportView
from patchbeam.pool import Pool, core_count

__all__ = ["LookOptions", "look", "look_page", "png"]

LEAST_SIZE = 64
MOST_COLOURS = 240
"""Of a picture that is reduced; with those of title and legend a palette of 256 holds all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOptions:
    """How an export is shown.

    Attributes:
        bands: one, or three for red, green and blue; ``None`` chooses.
        percentiles: between which numbers are stretched to black and white.
        classes: whether one band is a class map though the manifest does not say so.
        size: most pixels of the picture, across and down, without title and legend.
        margins: whether patches are drawn with their margins.
        sheet: draw so many patches side by side instead of the map.
        patch: draw this patch and its bands instead of the map.
        colours: reduce the picture to so many, for a small file; title and legend have a few of their own.
        kernel: ``kernelSize``, where there is no manifest and it cannot be told from the records.
        threads: ``None`` for all cores.
    """

    bands: tuple[str, ...] | None = None
    percentiles: tuple[float, float] = (2.0, 98.0)
    classes: bool = False
    size: int = 1600
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
        if not LEAST_SIZE <= self.size <= 32_768:
            raise JobError(f"--size: {self.size} is not between {LEAST_SIZE} and 32768 pixels")
        if self.colours is not None and not 2 <= self.colours <= 256:
            raise JobError(f"--colours: {self.colours} is not between 2 and 256")
        if self.sheet is not None and self.sheet < 1:
            raise JobError(f"--sheet: {self.sheet} patches; give at least 1")
        if self.sheet is not None and self.patch is not None:
            raise JobError("--sheet and --patch: give one of them")


def look(prefix: str, options: LookOptions | None = None) -> Rgb:
    """Draws an export.

    Args:
        prefix: what the names of its files begin with.
        options: how it is shown.

    Returns:
        uint8 ``(row, col, 3)``; :func:`png` makes a file of it.

    Raises:
        JobError: there is no such export, or it has no such band or patch.
        CorruptRecord: a record is damaged; with file, record and byte.
    """
    given = options or LookOptions()
    with _opened(prefix, given) as (view, pool):
        painter = make_painter(
            view,
            view.choose(given.bands) if given.bands else default_bands(view),
            percentiles=given.percentiles,
            classes=given.classes,
            pool=pool,
            sample=None if given.patch is None else (given.patch,),
        )
        pixel = None
        on_map = given.sheet is None and given.patch is None
        if given.patch is not None:
            picture = draw_bands(
                view,
                painter,
                patch=given.patch,
                size=given.size,
                percentiles=given.percentiles,
                pool=pool,
            )
        elif given.sheet is not None:
            picture = draw_sheet(
                view, painter, count=given.sheet, size=given.size, margins=given.margins, pool=pool
            )
        else:
            picture, tiling = draw_overview(
                view, painter, size=given.size, margins=given.margins, gaps=True, pool=pool
            )
            metres = pixel_metres(view.grid)
            if metres is not None and not given.margins:
                shown = view.patches.patch_width_height[0] * tiling.every
                pixel = metres * shown / (tiling.tile[0] + tiling.gap)
        if given.colours is not None:
            picture = reduce_colours(picture, min(given.colours, MOST_COLOURS))
        width = picture.shape[1]
        title = title_strip(width, _title(view, given), facts(view))
        legend = legend_strip(view, painter, width, pixel, on_map=on_map)
        return stack([title, picture, legend], pad=max(8, min(24, width // 40)))


def look_page(prefix: str, options: LookOptions | None = None) -> str:
    """Returns a page of HTML that shows an export and opens without a network.

    Args:
        prefix: what the names of its files begin with.
        options: how it is shown; sheets and single patches are for pictures only.

    Raises:
        JobError: as :func:`look`.
        CorruptRecord: as :func:`look`.
    """
    from patchbeam.look.page import page

    given = options or LookOptions()
    with _opened(prefix, given) as (view, pool):
        painter = make_painter(
            view,
            view.choose(given.bands) if given.bands else default_bands(view),
            percentiles=given.percentiles,
            classes=given.classes,
            pool=pool,
        )
        picture, tiling = draw_overview(view, painter, size=given.size, margins=False, gaps=False, pool=pool)
        legend = legend_strip(view, painter, max(480, picture.shape[1] // 2), None)
        return page(view, picture, legend, tiling, title=_title(view, given), facts=facts(view))


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
