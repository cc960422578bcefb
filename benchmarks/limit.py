"""The limit of the machine for an image export: what one process can do that does nothing else.

Threads take rows of patches. Each reads its row into one array that it keeps, casts each patch into a record
whose framing is there already, takes the CRC, compresses (isal level 3, a gzip member a record) and hands
the row over; the main thread appends it to one file. There is no plan, no piece, no shard, no mixer, no
statistics, no mask, no Beam, and no check of anything.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

CACHE_BYTES = 64 << 20


class Worker(threading.local):
    """What a thread keeps: open datasets, the pixels of a row, one record."""

    ready = False

    def prepare(self, paths: Sequence[str], places: Sequence[tuple[int, int]], width: int, side: int) -> None:
        import rasterio

        from patchbeam.records.example import ExampleLayout, Feature

        self.files = [(rasterio.open(path), *place) for path, place in zip(paths, places, strict=True)]
        first = self.files[0][0]
        self.pixels = np.zeros((first.count, side, width), first.dtypes[0])
        layout = ExampleLayout([Feature(name, "float", side * side) for name in first.descriptions])
        self.layout, self.record = layout, np.empty(layout.record_size, np.uint8)
        layout.prepare(self.record)
        self.slots = [slot.reshape(side, side) for slot in layout.slot_views(self.record, 0)]
        self.ready = True


def export(paths: Sequence[str], out: str, *, patch: int, kernel: int, gzip: bool, threads: int) -> int:
    """Exports one file, or many of one lattice that do not overlap; returns the number of patches."""
    import rasterio
    from isal import isal_zlib
    from rasterio.windows import Window

    from patchbeam.records.gzip import LEVEL

    places: list[tuple[int, int]] = []
    sizes: list[tuple[int, int]] = []
    with rasterio.open(paths[0]) as dataset:
        origin = ~dataset.transform
    for path in paths:
        with rasterio.open(path) as dataset:
            column, row = origin * (dataset.transform.c, dataset.transform.f)
            places.append((round(column), round(row)))
            sizes.append((dataset.width, dataset.height))
    left, top = (min(place[i] for place in places) for i in (0, 1))
    places = [(x - left, y - top) for x, y in places]
    width, height = (max(p[i] + s[i] for p, s in zip(places, sizes, strict=True)) for i in (0, 1))
    margin, across, down = kernel // 2, width // patch, height // patch
    side, worker = patch + 2 * margin, Worker()

    def read(y: int) -> None:
        """Reads the rows from ``y`` on, margins included; what lies outside keeps the value of before."""
        for dataset, x0, y0 in worker.files:
            first, last = max(y, y0), min(y + side, y0 + dataset.height)
            columns = min(dataset.width, across * patch + margin - x0)
            if first < last and columns > 0:
                at = worker.pixels[:, first - y : last - y, x0 + margin : x0 + margin + columns]
                dataset.read(window=Window(0, first - y0, columns, last - first), out=at)

    def row(number: int) -> list[bytes]:
        """Makes the records of a row of patches; writes them where they belong if they are not compressed."""
        with rasterio.Env(GDAL_CACHEMAX=CACHE_BYTES):
            if not worker.ready:
                worker.prepare(paths, places, max(width, across * patch + margin) + 2 * margin, side)
            read(number * patch - margin)
        made: list[bytes] = []
        for column in range(across):
            x = column * patch
            for slot, band in zip(worker.slots, worker.pixels, strict=True):
                slot[...] = band[:, x : x + side]
            worker.layout.seal(worker.record, 0)
            if gzip:
                made.append(isal_zlib.compress(worker.record, LEVEL, 31))
            else:
                os.pwrite(target.fileno(), worker.record, (number * across + column) * len(worker.record))
        return made

    with open(out, "wb", buffering=0) as target, ThreadPoolExecutor(threads) as pool:
        ahead = [pool.submit(row, number) for number in range(min(down, 2 * threads))]
        for number in range(down):
            for record in ahead.pop(0).result():
                target.write(record)
            if number + 2 * threads < down:
                ahead.append(pool.submit(row, number + 2 * threads))
    return across * down
