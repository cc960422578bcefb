"""Which part of a vector layer a window of the grid needs."""

from __future__ import annotations

import numpy as np

from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.pieces import Rect

_SAMPLES = 17


def box_in_layer(map_: PixelMap, rect: Rect) -> tuple[float, float, float, float] | None:
    """Returns bounds of a rectangle of the grid in the layer's CRS; ``None`` where all of it may be needed.

    They are widened by the largest step between neighbouring points of a lattice, which is more than any
    edge can bulge between them.

    Args:
        map_: its file CRS is the layer's.
        rect: pixels of the grid.
    """
    cols, rows = np.meshgrid(
        np.linspace(rect.left, rect.right, _SAMPLES), np.linspace(rect.top, rect.bottom, _SAMPLES)
    )
    x, y = map_.to_file_world(cols, rows)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    steps = [max(float(np.abs(np.diff(v, axis=axis)).max()) for axis in (0, 1)) for v in (x, y)]
    left, right = float(x.min() - steps[0]), float(x.max() + steps[0])
    bottom, top = float(y.min() - steps[1]), float(y.max() + steps[1])
    # a layer in degrees may store one place at either side of the antimeridian
    if map_.file_turns and (left < -180 or right > 180):
        left, right = -540.0, 540.0
    return left, bottom, right, top
