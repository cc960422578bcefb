"""Every raster of the shared collection: refused with advice, or read as rasterio reads it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import rasterio
from rasterio.windows import Window as FileWindow
from shared import shared_data

from patchbeam.errors import ReadFailed, SourceError
from patchbeam.patches import Window
from patchbeam.rasters.bands import resolve_bands
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.masks import nodata_mask, opaque
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import Source, read_header

FOLDER = (shared_data() or Path("/nowhere")) / "rasters"

pytestmark = [
    pytest.mark.skipif(not (FOLDER / "MANIFEST.tsv").exists(), reason="the shared rasters are not here"),
    pytest.mark.filterwarnings("ignore"),
]

DAMAGED = {"gdal/gcore/data/byte_zstd_corrupted.tif", "gdal/gcore/data/idontexist.vrt"}
"""Files whose header is fine and whose pixels GDAL may refuse."""


def listed() -> list[str]:
    with open(FOLDER / "MANIFEST.tsv", newline="") as file:
        return [row["file"] for row in csv.DictReader(file, delimiter="\t")]


def windows(header: RasterFile) -> list[Window]:
    """One in the middle, one over each of two corners."""
    return [
        Window(header.width // 2 - 20, header.height // 2 - 20, 40, 40),
        Window(header.width - 30, header.height - 20, 64, 64),
        Window(-10, -10, 40, 40),
    ]


def expected_mask(dataset, header: RasterFile, index: int, window: FileWindow) -> np.ndarray:
    """GDAL's own mask, joined with what it leaves out beside it."""
    mask = dataset.read_masks(index, window=window) == 255
    own = nodata_mask(dataset.read(index, window=window), header.nodata[index - 1])
    if own is not None:
        mask &= own
    if header.alpha is not None:
        alpha = opaque(dataset.read(header.alpha, window=window))
        # GDAL knows only one full value of wide alpha
        mask = alpha if own is None else alpha & own
    return mask


def check(header: RasterFile) -> None:
    source = Source(name="s", files=(header,))
    bands = resolve_bands([source])
    with (
        ImageReader([source], bands, header.grid, threads=2) as reader,
        rasterio.open(header.path) as dataset,
    ):
        for w in windows(header):
            left, top = max(0, w.col_off), max(0, w.row_off)
            right, bottom = min(header.width, w.col_stop), min(header.height, w.row_stop)
            part = FileWindow(left, top, right - left, bottom - top)
            rows, cols = (
                slice(top - w.row_off, bottom - w.row_off),
                slice(left - w.col_off, right - w.col_off),
            )
            for band, p in zip(bands, reader.read(w), strict=True):
                valid = np.ones(p.values.shape, bool) if p.valid is None else p.valid
                np.testing.assert_array_equal(p.values[rows, cols], dataset.read(band.index, window=part))
                np.testing.assert_array_equal(
                    valid[rows, cols], expected_mask(dataset, header, band.index, part)
                )
                # a raster round the whole earth goes on beyond its own edges
                if not header.grid.crs.geographic or header.width * abs(header.transform[0]) < 359:
                    assert valid.sum() == valid[rows, cols].sum()


def test_every_raster():
    read = refused = 0
    for name in listed():
        path = str(FOLDER / name)
        try:
            header = read_header(path, "sources.s")
        except SourceError as e:
            assert str(e).startswith("sources.s") and ";" in str(e) and Path(path).name in str(e), str(e)
            refused += 1
            continue
        if name in DAMAGED:
            with pytest.raises(ReadFailed, match="cannot be read: "):
                check(header)
            continue
        check(header)
        read += 1
    assert read > 200 and refused > 50
