"""One read block's features: its pixels are read once, its records made in stretches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from patchbeam.elements import BandPixels, Bytes, Ints, RecordRun
from patchbeam.errors import EncodeError
from patchbeam.patches import Window
from patchbeam.rasters.reader import ImageReader
from patchbeam.retry import retrying
from patchbeam.tables.encode import record_run
from patchbeam.tables.entries import RawEntries
from patchbeam.tables.framing import frame_rows
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.sampling.plan import OUTSIDE
from patchbeam.tables.sampling.spool import (
    FEATURE,
    GatherTask,
    Stretches,
    read_exact,
    read_index,
    spool_name,
    write_spool,
)
from patchbeam.tables.sampling.values import AreaReducer, Sampled, at_points, chips, from_areas, shape_of

_CHUNK_ROWS = 1 << 15
_CHUNK_BYTES = 16 << 20
_MEDIAN_PIXELS = 1 << 26

Features = np.ndarray[tuple[int], np.dtype[np.void]]

SAMPLED = np.dtype([("feature", "<i8"), ("size", "<i8")])
"""A record in a file of sampled records: its feature, its framed size."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledRecords:
    """Framed records of features of one block, features ascending.

    Attributes:
        features: numbers of the features.
        sizes: bytes of each record.
        data: the records.
        counts: features outside, values masked, then rounded numbers of each band.
    """

    features: Ints
    sizes: Ints
    data: Bytes
    counts: tuple[int, ...]


class BlockSampler:
    """Makes the records of the features in a block.

    Args:
        plan: the export.
        threads: threads that share the reading of a window.
    """

    def __init__(self, plan: TablePlan, *, threads: int) -> None:
        assert plan.sample is not None
        self._plan = plan
        self._sample = plan.sample
        sample = plan.sample
        self._reader = ImageReader(sample.sources, sample.bands, sample.grid, threads=threads)

    def records(self, task: GatherTask) -> Iterator[SampledRecords]:
        """Yields the records of a block, features ascending from one to the next.

        Raises:
            ReadFailed: a raster cannot be read there.
        """
        stretches, paths = read_index(task)
        window, pixels = self._pixels(task.key, stretches)
        for (_, first, count, *_), path in zip(stretches.tolist(), paths, strict=True):
            for features, data in _chunks(path, first, count, self._chunk_rows):
                yield self._encode(task.key, features, data, window, pixels)

    def close(self) -> None:
        """Closes the datasets."""
        self._reader.close()

    @property
    def _chunk_rows(self) -> int:
        return max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // max(64, self._sample.chip_bytes)))

    def _pixels(self, block: int, stretches: Ints) -> tuple[Window, list[BandPixels] | None]:
        left, top = stretches[:, 3:5].min(axis=0).tolist()
        right, bottom = stretches[:, 5:7].max(axis=0).tolist()
        width, height = self._sample.patch or (1, 1)
        window = Window(
            left - width // 2, top - height // 2, right - left + width - 1, bottom - top + height - 1
        )
        if block == OUTSIDE:
            return window, None
        # polygons may reach far out of their block; those that do are read by themselves
        if window.width * window.height * self._sample.pixel_bytes > 2 * self._budget:
            return window, None
        return window, self._read(window)

    @property
    def _budget(self) -> int:
        width, height = self._sample.block_width_height
        return max(self._sample.block_bytes, width * height * self._sample.pixel_bytes)

    def _read(self, window: Window) -> list[BandPixels]:
        # what broke may be a connection that an open dataset holds on to
        return retrying(lambda: self._reader.read(window), between=self._reader.close)

    def _encode(
        self, block: int, features: Features, data: Bytes, window: Window, pixels: list[BandPixels] | None
    ) -> SampledRecords:
        starts = features["start"] - features["start"][0]
        properties = RawEntries(data, np.ascontiguousarray(starts), np.ascontiguousarray(features["entries"]))
        found: list[Sampled] = []
        outside = 0
        if block == OUTSIDE:
            outside = len(features)
        elif bool((features["geometry"] > 0).any()):
            found = self._areas(features, starts, data, window, pixels)
        elif pixels is None:
            raise EncodeError(
                f"sample.blockBytes: {self._sample.block_bytes} bytes do not hold the pixels of one block; "
                "raise it"
            )
        else:
            rows, columns = features["row"] - window.row_off, features["column"] - window.col_off
            if self._sample.patch is None:
                found = at_points(self._sample, pixels, rows, columns)
            else:
                width, height = self._sample.patch
                found = chips(self._sample, pixels, rows - height // 2, columns - width // 2)
        framed, sizes = frame_rows([properties, *(band.entries for band in found)], len(features))
        rounded = tuple(band.rounded for band in found) or (0,) * len(self._sample.bands)
        return SampledRecords(
            features=np.ascontiguousarray(features["feature"]),
            sizes=sizes,
            data=framed,
            counts=(outside, sum(band.masked for band in found), *rounded),
        )

    def _areas(
        self, features: Features, starts: Ints, data: Bytes, window: Window, pixels: list[BandPixels] | None
    ) -> list[Sampled]:
        results = []
        for feature, start in zip(features, starts.tolist(), strict=True):
            whole = Window(*(int(feature[name]) for name in ("column", "row", "width", "height")))
            if not feature["geometry"]:  # a point among polygons
                read = pixels if pixels is not None else self._read(whole)
                at = window if pixels is not None else whole
                row, column = whole.row_off - at.row_off, whole.col_off - at.col_off
                results.append([_one(band, row, column) for band in read])
                continue
            begin = start + int(feature["entries"])
            geometry = shape_of(data[begin : begin + int(feature["geometry"])].tobytes())
            reducer = AreaReducer(self._sample, geometry)
            if pixels is not None:
                reducer.add(window, pixels, whole)
            else:
                self._refuse_large_median(int(feature["feature"]), whole)
                for part in _strips(whole, max(1, self._budget // self._sample.pixel_bytes)):
                    reducer.add(part, self._read(part), part)
            results.append(reducer.result())
        return from_areas(self._sample, results)

    def _refuse_large_median(self, feature: int, window: Window) -> None:
        if self._sample.reduce == "median" and window.width * window.height > _MEDIAN_PIXELS:
            raise EncodeError(
                f"feature {feature}: its polygon spans {window.width} × {window.height} pixels, too many "
                "for a median "
                f"({_MEDIAN_PIXELS} at the most); use reduce: mean, or a coarser scale"
            )


def _one(band: BandPixels, row: int, column: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    values = np.asarray(band.values[..., row, column], np.float64)
    if band.valid is not None:
        values = np.where(band.valid[..., row, column], values, np.nan)
    return values


def _strips(window: Window, pixels: int) -> Iterator[Window]:
    width = min(window.width, pixels)
    height = max(1, pixels // width)
    for top in range(window.row_off, window.row_stop, height):
        for left in range(window.col_off, window.col_stop, width):
            yield Window(left, top, min(width, window.col_stop - left), min(height, window.row_stop - top))


def _chunks(path: str, first: int, count: int, most: int) -> Iterator[tuple[Features, Bytes]]:
    """Yields features and their bytes; the bytes start at the first feature's."""
    table_bytes = _table_bytes(path)
    for at in range(first, first + count, most):
        rows = min(most, first + count - at)
        features = np.frombuffer(
            read_exact(path, 8 + at * FEATURE.itemsize, rows * FEATURE.itemsize), FEATURE
        )
        start = int(features["start"][0])
        end = int(features["start"][-1] + features["entries"][-1] + features["geometry"][-1])
        yield features, np.frombuffer(read_exact(path, table_bytes + start, end - start), np.uint8)


def _table_bytes(path: str) -> int:
    rows = int.from_bytes(read_exact(path, 0, 8), "little")
    return 8 + rows * FEATURE.itemsize


def block_run(task: GatherTask, done: int, records: SampledRecords, columns: int) -> RecordRun:
    """Returns records as a run in block order.

    Args:
        task: the block.
        done: records of the block in the runs before.
        records: the records.
        columns: number of properties.
    """
    own = (0,) * columns if done else task.counts
    return record_run(
        task.position + done,
        len(records.sizes),
        records.data,
        records.sizes,
        (*own, *records.counts),
        block=max(task.key, 0),
    )


def spool_records(plan: TablePlan, task: GatherTask, number: int, records: SampledRecords) -> Stretches:
    """Writes records to a file, to be put in feature order later.

    Returns:
        A stretch a bucket of consecutive features: bucket, first record in the file, records, where
        their bytes start, how many.
    """
    assert plan.sample is not None
    buckets = records.features // plan.sample.bucket_rows
    first = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))
    ends = np.append(first[1:], len(buckets))
    table = np.empty(len(buckets), SAMPLED)
    table["feature"], table["size"] = records.features, records.sizes
    bounds = np.concatenate([[0], np.cumsum(records.sizes)])
    base = 8 + table.nbytes
    path = spool_name(plan.temporary_folder, f"sampled-{task.key + 1:08d}-{number:06d}")
    write_spool(path, table, records.data)
    stretches = [buckets[first], first, ends - first, base + bounds[first], bounds[ends] - bounds[first]]
    own = (0,) * len(task.counts) if number else task.counts
    return Stretches(
        path=path,
        order=int(records.features[0]),
        table=np.stack(stretches, axis=1).astype(np.int64),
        counts=(*own, *records.counts),
    )
