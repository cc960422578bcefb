"""Patches of the export grid: index ↔ row and column ↔ window ↔ bounds, all in integers.

Patches tile the grid from its pixel (0, 0), row by row. All have one size; ``edge`` says what becomes
of the pixels at the right and the bottom that do not fill a patch: ``drop`` leaves them out (the
service's rule), ``pad`` adds one column or row of patches that reach over the grid's edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from odc.geo.geobox import GeoBox

from patchbeam.affines import to_xy
from patchbeam.errors import GridError

MAX_SIDE = 2**31 - 1
"""Largest number of pixels a side, of a grid and of a stored patch: what GDAL can address."""

Edge = Literal["drop", "pad"]


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of grid pixels; it may reach outside the grid.

    Attributes:
        col_off: column of its first pixel, negative when left of the grid.
        row_off: row of its first pixel, negative when above the grid.
        width: columns.
        height: rows.
    """

    col_off: int
    row_off: int
    width: int
    height: int

    @property
    def col_stop(self) -> int:
        """The column after the last."""
        return self.col_off + self.width

    @property
    def row_stop(self) -> int:
        """The row after the last."""
        return self.row_off + self.height

    def buffered(self, columns: int, rows: int) -> Window:
        """Returns the window with ``columns`` more pixels left and right, ``rows`` above and below."""
        return Window(
            self.col_off - columns, self.row_off - rows, self.width + 2 * columns, self.height + 2 * rows
        )

    def shifted(self, columns: int, rows: int) -> Window:
        """Returns the window moved by ``columns`` to the right and ``rows`` down."""
        return Window(self.col_off + columns, self.row_off + rows, self.width, self.height)

    def intersection(self, other: Window) -> Window | None:
        """Returns the pixels in both windows, or ``None`` when there are none."""
        left, top = max(self.col_off, other.col_off), max(self.row_off, other.row_off)
        width = min(self.col_stop, other.col_stop) - left
        height = min(self.row_stop, other.row_stop) - top
        return Window(left, top, width, height) if width > 0 and height > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchGrid:
    """How patches lie on a grid.

    Attributes:
        width: columns of the grid, in pixels.
        height: rows of the grid, in pixels.
        patch_width_height: pixels of a patch without its margin (``patchDimensions``).
        kernel_width_height: ``kernelSize``; the margin is ``k // 2`` pixels on every side.
        edge: ``drop`` or ``pad``.

    Raises:
        GridError: a size is not a positive integer, ``edge`` is neither word, or with ``drop`` the
            grid is smaller than one patch.
    """

    width: int
    height: int
    patch_width_height: tuple[int, int] = (256, 256)
    kernel_width_height: tuple[int, int] = (1, 1)
    edge: Edge = "drop"

    def __post_init__(self) -> None:
        _check_pair("the grid's width and height", (self.width, self.height))
        _check_pair("formatOptions.patchDimensions", self.patch_width_height)
        _check_pair("formatOptions.kernelSize", self.kernel_width_height)
        # A list would leave the frozen value unhashable and unequal to its own copy.
        object.__setattr__(self, "patch_width_height", tuple(self.patch_width_height))
        object.__setattr__(self, "kernel_width_height", tuple(self.kernel_width_height))
        if self.edge not in ("drop", "pad"):
            raise GridError(f"edge: {self.edge!r} is not known; give drop or pad")
        if max(self.stored_width_height) > MAX_SIDE or max(self.padded_width_height) > MAX_SIDE:
            raise GridError(
                f"formatOptions.patchDimensions {list(self.patch_width_height)} with kernelSize "
                f"{list(self.kernel_width_height)}: more than {MAX_SIDE} pixels a side; give smaller patches"
            )
        patch_width, patch_height = self.patch_width_height
        if self.edge == "drop" and (self.width < patch_width or self.height < patch_height):
            raise GridError(
                f"formatOptions.patchDimensions: the grid of {self.width} × {self.height} pixels is smaller "
                f"than one patch of {patch_width} × {patch_height}, so edge: drop would leave nothing; give "
                "edge: pad, smaller patches or a larger region"
            )

    @property
    def columns(self) -> int:
        """Patches in a row (``patchesPerRow``)."""
        return _count(self.width, self.patch_width_height[0], self.edge)

    @property
    def rows(self) -> int:
        """Rows of patches."""
        return _count(self.height, self.patch_width_height[1], self.edge)

    @property
    def count(self) -> int:
        """Patches in all (``totalPatches``)."""
        return self.columns * self.rows

    @property
    def margin_width_height(self) -> tuple[int, int]:
        """Pixels of margin left and right, and above and below a patch."""
        return self.kernel_width_height[0] // 2, self.kernel_width_height[1] // 2

    @property
    def stored_width_height(self) -> tuple[int, int]:
        """Pixels of a patch with its margin: what a record holds."""
        (width, height), (across, down) = self.patch_width_height, self.margin_width_height
        return width + 2 * across, height + 2 * down

    @property
    def padded_width_height(self) -> tuple[int, int]:
        """Pixels that all patches together cover, without margins; larger than the grid with ``pad``."""
        return self.columns * self.patch_width_height[0], self.rows * self.patch_width_height[1]

    @property
    def lost_columns_rows(self) -> tuple[int, int]:
        """Columns at the right and rows at the bottom of the grid that no patch covers."""
        covered_width, covered_height = self.padded_width_height
        return max(0, self.width - covered_width), max(0, self.height - covered_height)

    @property
    def lost_pixels(self) -> int:
        """Pixels of the grid that no patch covers."""
        columns, rows = self.lost_columns_rows
        return self.width * self.height - (self.width - columns) * (self.height - rows)

    def row_col(self, index: int) -> tuple[int, int]:
        """Returns the patch row and column of a patch.

        Raises:
            IndexError: there is no such patch.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"patch {index} is not in 0..{self.count - 1}")
        return divmod(index, self.columns)

    def index(self, row: int, col: int) -> int:
        """Returns the index of the patch in a patch row and column.

        Raises:
            IndexError: there is no such patch.
        """
        if not (0 <= row < self.rows and 0 <= col < self.columns):
            raise IndexError(
                f"patch row {row}, column {col} is not in {self.rows} rows × {self.columns} columns"
            )
        return row * self.columns + col

    def window(self, index: int) -> Window:
        """Returns the grid pixels of a patch, without its margin."""
        row, col = self.row_col(index)
        width, height = self.patch_width_height
        return Window(col * width, row * height, width, height)

    def stored_window(self, index: int) -> Window:
        """Returns the grid pixels of a patch with its margin, which may lie outside the grid."""
        return self.window(index).buffered(*self.margin_width_height)

    def windows(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Returns the windows of patches ``start`` to ``stop``, without margins.

        Returns:
            int64 ``(patch, 4)``: column offset, row offset, width, height, in pixels.
        """
        stop = self.count if stop is None else stop
        if not 0 <= start <= stop <= self.count:
            raise IndexError(f"patches {start} to {stop} are not in 0..{self.count}")
        rows, cols = np.divmod(np.arange(start, stop, dtype=np.int64), self.columns)
        width, height = self.patch_width_height
        out = np.empty((stop - start, 4), np.int64)
        out[:, 0], out[:, 1], out[:, 2], out[:, 3] = cols * width, rows * height, width, height
        return out

    def patches_in(self, window: Window) -> tuple[range, range]:
        """Returns the patch rows and patch columns that share a pixel with a window, margins aside."""
        width, height = self.patch_width_height
        return (
            _touched(window.row_off, window.row_stop, height, self.rows),
            _touched(window.col_off, window.col_stop, width, self.columns),
        )

    def _repr_svg_(self) -> str:
        from patchbeam.repr import patch_grid_svg

        return patch_grid_svg(self)

    def bounds(self, index: int, grid: GeoBox) -> tuple[float, float, float, float]:
        """Returns ``(xmin, ymin, xmax, ymax)`` of a patch without its margin, in the grid's CRS."""
        w = self.window(index)
        corners = [(col, row) for col in (w.col_off, w.col_stop) for row in (w.row_off, w.row_stop)]
        points = to_xy(grid.affine, corners)
        (xmin, ymin), (xmax, ymax) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        return xmin, ymin, xmax, ymax


def _count(pixels: int, patch: int, edge: Edge) -> int:
    return pixels // patch if edge == "drop" else -(-pixels // patch)


def _touched(start: int, stop: int, patch: int, count: int) -> range:
    first = min(max(start // patch, 0), count)
    return range(first, max(first, min(-(-stop // patch), count)) if stop > start else first)


def _check_pair(name: str, pair: tuple[int, int]) -> None:
    if len(pair) != 2:
        raise GridError(f"{name}: {list(pair)} has {len(pair)} numbers; give [width, height]")
    for value in pair:
        if isinstance(value, bool) or not isinstance(value, int):
            raise GridError(f"{name}: {value!r} is not a whole number of pixels")
        if value <= 0:
            raise GridError(f"{name}: {value} must be greater than 0")
        if value > MAX_SIDE:
            raise GridError(f"{name}: {value} is more than {MAX_SIDE} pixels a side")
