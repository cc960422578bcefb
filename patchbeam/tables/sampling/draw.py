"""Points drawn from a class band: the same number of each class, whatever runs it.

Every pixel has a random number that is a pure function of the seed and of its place in the grid; of each
class the pixels with the smallest numbers are taken. Blocks are looked at apart and merged in any order.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from patchbeam import storage
from patchbeam.elements import Ints
from patchbeam.errors import EncodeError, JobError
from patchbeam.rasters.reader import ImageReader
from patchbeam.retry import retrying
from patchbeam.tables.sampling.plan import DrawPlan, SamplePlan

_U = np.uint64
_MOST_CLASSES = 4096
_TOLD = 8
"""Classes that a message names: a band of numbers, taken for one of classes, has thousands."""


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The best pixels of one class so far.

    Attributes:
        count: pixels of the class that were looked at.
        keys: uint64, the random number of each candidate, ascending.
        pixels: int64, its place in the grid, row-major.
    """

    count: int
    keys: np.ndarray[tuple[int], np.dtype[np.uint64]]
    pixels: Ints


Drawn = Mapping[int, Candidates]
"""Class → candidates."""


def random_keys(pixels: Ints, seed: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Returns a random uint64 a pixel: splitmix64 of the seed and the pixel's number."""
    with np.errstate(over="ignore"):
        z = pixels.astype(np.uint64) + _mix(np.array([seed & (2**64 - 1)], np.uint64))
        return _mix(z)


def _mix(z: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    # Steele, Lea, Flood: Fast splittable pseudorandom number generators (2014)
    with np.errstate(over="ignore"):
        z = z + _U(0x9E3779B97F4A7C15)
        z = (z ^ (z >> _U(30))) * _U(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> _U(27))) * _U(0x94D049BB133111EB)
        return z ^ (z >> _U(31))


class BlockDrawer:
    """Finds candidates in read blocks."""

    def __init__(self, plan: SamplePlan, *, threads: int) -> None:
        assert plan.draw is not None
        self._plan = plan
        self._draw = plan.draw
        self._reader = ImageReader(plan.sources, [plan.draw.band], plan.grid, threads=threads)

    def draw(self, block: int) -> dict[int, Candidates]:
        """Returns the candidates of a block.

        Raises:
            EncodeError: the band holds no classes: fractions, or thousands of different values.
        """
        window = self._plan.window(block)
        if window is None:
            return {}
        (band,) = retrying(lambda: self._reader.read(window), between=self._reader.close)
        valid = np.ones(band.values.shape, np.bool_) if band.valid is None else band.valid.copy()
        if self._draw.clip is not None:
            valid &= self._draw.clip.mask(window)
        rows, columns = np.nonzero(valid)
        values = band.values[rows, columns]
        if values.dtype.kind == "f" and not (np.floor(values) == values).all():
            raise EncodeError(
                f"sample.stratify: band {self._draw.band.name!r} holds "
                f"{values[np.floor(values) != values][0]!r}, which "
                "is no class; name a band of whole numbers"
            )
        pixels = (rows + window.row_off) * np.int64(self._plan.grid.width) + columns + window.col_off
        keys = random_keys(pixels, self._draw.seed)
        classes, number = np.unique(values, return_inverse=True)
        if len(classes) > _MOST_CLASSES:
            raise EncodeError(
                f"sample.stratify: band {self._draw.band.name!r} has {len(classes)} different values in "
                "one block; "
                "that is no class band"
            )
        found = {}
        for i, value in enumerate(classes.tolist()):
            if self._draw.classes is None or int(value) in self._draw.classes:
                at = np.flatnonzero(number == i)
                found[int(value)] = _best(len(at), keys[at], pixels[at], self._draw.per_class)
        return found

    def close(self) -> None:
        """Closes the datasets."""
        self._reader.close()


def _best(
    count: int, keys: np.ndarray[tuple[int], np.dtype[np.uint64]], pixels: Ints, most: int
) -> Candidates:
    if len(keys) > most:
        # of equal keys the smaller pixel counts; the partition alone could take either
        limit = np.partition(keys, most - 1)[most - 1]
        near = keys <= limit
        keys, pixels = keys[near], pixels[near]
    order = np.lexsort((pixels, keys))[:most]
    return Candidates(count, keys[order], pixels[order])


def merge(drawn: Iterable[Drawn], per_class: int) -> dict[int, Candidates]:
    """Returns the candidates of several blocks together; the order does not matter."""
    parts: dict[int, list[Candidates]] = {}
    for one in drawn:
        for value, candidates in one.items():
            parts.setdefault(value, []).append(candidates)
    return {
        value: _best(
            sum(c.count for c in found),
            np.concatenate([c.keys for c in found]),
            np.concatenate([c.pixels for c in found]),
            per_class,
        )
        for value, found in sorted(parts.items())
    }


def chosen_pixels(drawn: Drawn, draw: DrawPlan) -> Ints:
    """Returns the pixels drawn, all classes together, row-major.

    Raises:
        JobError: a class has fewer pixels than are wanted; names such classes.
    """
    wanted = draw.classes if draw.classes is not None else tuple(sorted(drawn))
    counts = {value: drawn[value].count if value in drawn else 0 for value in wanted}
    few = {value: count for value, count in counts.items() if count < draw.per_class}
    if few or not wanted:
        told = [f"class {value} has {count}" for value, count in few.items()]
        more = f" and {len(told) - _TOLD} more classes have too few" if len(told) > _TOLD else ""
        said = f"{', '.join(told[:_TOLD])}{more} valid pixels" if told else "no pixel is valid"
        raise JobError(
            f"sample.perClass: {draw.per_class} points of each class of band {draw.band.name!r} are "
            f"wanted, and {said} in the region; lower perClass, make the region larger, or name the classes "
            "wanted with classes"
        )
    return np.sort(np.concatenate([drawn[value].pixels for value in wanted]))


def write_points(plan: SamplePlan, pixels: Ints, folder: str) -> str:
    """Writes the centres of pixels as a table of x and y, and returns its name."""
    rows, columns = np.divmod(pixels, plan.grid.width)
    a, b, c, d, e, f = plan.grid.affine[:6]
    x, y = columns + 0.5, rows + 0.5
    table = pa.table({"x": a * x + b * y + c, "y": d * x + e * y + f})
    target = io.BytesIO()
    pq.write_table(table, target, row_group_size=1 << 16)
    name = storage.join(folder, "points.parquet")
    retrying(lambda: storage.write_atomic(name, target.getvalue()))
    return name
