"""Positions between those that are known: cells of the export grid, with nodes at their corners.

PROJ is asked at the nodes of a lattice fixed to the grid's pixel (0, 0), and positions between them come
from cubic interpolation; in a cell where that misses PROJ's answer by more than :data:`TOLERANCE` pixels at
any of the points tried (a pole, the antimeridian, the edge of a projection's domain), PROJ is asked for
each pixel. A position therefore depends on its pixel alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from patchbeam.rasters.floors import CELL, WEIGHTS, Floats, Whole, floors
from patchbeam.rasters.pieces import Rect, surrounding

TOLERANCE = 1e-7
"""Pixels of the file by which an interpolated position may miss PROJ's."""

_TRIED = (CELL // 2, CELL // 8, CELL - CELL // 8)


class Cells:
    """The cells that a rectangle of the grid touches, and the positions in the file round them.

    Args:
        exact: gives the positions in the file, columns and rows, of positions on the grid.
        rect: pixels of the grid.
    """

    def __init__(self, exact: Callable[[Floats, Floats], tuple[Floats, Floats]], rect: Rect) -> None:
        self._exact, self._rect = exact, rect
        self._left, self._top = rect.left // CELL, rect.top // CELL
        self._across = -(-rect.right // CELL) - self._left
        self._down = -(-rect.bottom // CELL) - self._top
        cols = (self._left + np.arange(-1, self._across + 2, dtype=np.float64)) * CELL
        rows = (self._top + np.arange(-1, self._down + 2, dtype=np.float64)) * CELL
        self._nodes = exact(*np.meshgrid(cols, rows))
        self._bad = self._bad_cells()
        self._lines = self._lines_down()

    def centres(self, part: Rect) -> tuple[Floats, Floats]:
        """Returns where the centres of pixels lie in the file.

        Args:
            part: pixels of the rectangle.

        Returns:
            Columns and rows in the file, each ``(row, col)``; not finite where there is none.
        """
        lines = self._lines_of(part)
        count = lines.shape[2] - 3
        wide = np.empty((2, part.height, count, CELL))
        with np.errstate(invalid="ignore", over="ignore"):
            term = np.empty(wide.shape[1:])
            for line, values in zip(lines, wide, strict=True):
                np.multiply(line[:, 0:count, None], WEIGHTS[0], out=values)
                for k in range(1, 4):
                    np.multiply(line[:, k : k + count, None], WEIGHTS[k], out=term)
                    values += term
        start = part.left % CELL
        x, y = wide.reshape(2, part.height, count * CELL)[:, :, start : start + part.width]
        self._ask(part, x, y)
        return x, y

    def whole(self, part: Rect, shift: float) -> Whole | None:
        """Returns the whole numbers below positions, without computing each position.

        Args:
            part: pixels of the rectangle.
            shift: what is added to positions first.

        Returns:
            ``floor(centres + shift)``, ``(column or row, row, col)``; ``None`` where it is not to be had so.
        """
        if self._bad[self._touched(part)].any():
            return None
        first = part.left % CELL
        return floors(self._lines_of(part), np.arange(first, first + part.width), shift)

    def around(self) -> Rect | None:
        """Returns the pixels of the file between the nodes, round most positions; ``None``: unknown."""
        if self._bad.any():
            return None
        return surrounding(*(nodes[1:-1, 1:-1] for nodes in self._nodes))

    def _touched(self, part: Rect) -> tuple[slice, slice]:
        """Returns the rows and columns of the cells that pixels lie in."""
        return (
            slice(part.top // CELL - self._top, -(-part.bottom // CELL) - self._top),
            slice(part.left // CELL - self._left, -(-part.right // CELL) - self._left),
        )

    def _lines_of(self, part: Rect) -> Floats:
        """Returns positions on the lines of nodes from one left of a part to one right of it."""
        across = self._touched(part)[1]
        rows = slice(part.top - self._rect.top, part.bottom - self._rect.top)
        return self._lines[:, rows, across.start : across.stop + 3]

    def _lines_down(self) -> Floats:
        """Returns positions where the centres of rows meet the lines of nodes that run down the cells.

        Returns:
            ``(column or row, row, node)``.
        """
        lines = np.empty((2, self._rect.height, self._across + 3))
        with np.errstate(invalid="ignore", over="ignore"):
            for j in range(self._down):
                above = (self._top + j) * CELL
                begin, end = max(above, self._rect.top), min(above + CELL, self._rect.bottom)
                weights = WEIGHTS[:, begin - above : end - above, None]
                for nodes, target in zip(self._nodes, lines, strict=True):
                    # summed term by term: a matrix product would round differently for windows of other sizes
                    sums = weights[0] * nodes[j]
                    for k in range(1, 4):
                        sums += weights[k] * nodes[j + k]
                    target[begin - self._rect.top : end - self._rect.top] = sums
        return lines

    def _bad_cells(self) -> NDArray[np.bool_]:
        """Returns which cells, ``(down, across)``, cannot be interpolated."""
        bad = np.zeros((self._down, self._across), np.bool_)
        i, j = np.meshgrid(np.arange(self._across), np.arange(self._down))
        with np.errstate(invalid="ignore", over="ignore"):
            for n, at in enumerate(_TRIED):
                across = _TRIED[-n] if n else at
                cols = ((self._left + i) * CELL + across + 0.5).astype(np.float64)
                rows = ((self._top + j) * CELL + at + 0.5).astype(np.float64)
                for exact, nodes in zip(self._exact(cols, rows), self._nodes, strict=True):
                    guess = np.zeros(i.shape)
                    for k in range(4):
                        for m in range(4):
                            guess += WEIGHTS[k, at] * WEIGHTS[m, across] * nodes[j + k, i + m]
                    bad |= ~(np.abs(guess - exact) <= TOLERANCE * (1 + np.abs(exact) * 1e-6))
        return bad

    def _ask(self, part: Rect, x: Floats, y: Floats) -> None:
        """Puts PROJ's positions where they cannot be interpolated."""
        for j, i in np.argwhere(self._bad).tolist():
            left, top = (self._left + i) * CELL, (self._top + j) * CELL
            cell = Rect(left, top, left + CELL, top + CELL).meet(part)
            if cell.empty:
                continue
            _, rows, cols = cell.slices(part)
            points = np.meshgrid(
                np.arange(cell.left, cell.right, dtype=np.float64) + 0.5,
                np.arange(cell.top, cell.bottom, dtype=np.float64) + 0.5,
            )
            x[rows, cols], y[rows, cols] = self._exact(*points)
