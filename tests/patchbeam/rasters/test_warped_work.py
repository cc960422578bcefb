"""What warping asks for: of the file, of its quality band, of GDAL."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from affine import Affine
from odc.geo.geobox import GeoBox
from pyproj import Transformer
from rasterio.vrt import WarpedVRT

from patchbeam.patches import Window
from patchbeam.rasters import resample as resampling_module
from patchbeam.rasters.bands import resolve_bands
from patchbeam.rasters.pieces import Rect, read_piece
from patchbeam.rasters.quality import Quality
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.scenes import Scenes
from patchbeam.rasters.source import open_source


def laea(size):
    """A turned grid of pixels of so many metres, which begins inside the files written here."""
    x, y = Transformer.from_crs("EPSG:32633", "EPSG:3035", always_xy=True).transform(500_000, 5_000_000)
    return GeoBox((600, 1100), Affine(size, 0, x, 0, -size, y), "EPSG:3035")


def test_views_are_made_one_at_a_time(write, read, noise, monkeypatch):
    """One that is made while another is in use often has PROJ's database searched, longer than it warps."""
    in_use, most = [], []

    class Noting(WarpedVRT):
        def __init__(self, *arguments, **options):
            in_use.append(self)
            most.append(len(in_use))
            super().__init__(*arguments, **options)

        def __exit__(self, *arguments):
            super().__exit__(*arguments)
            in_use.remove(self)

    monkeypatch.setattr(resampling_module, "WarpedVRT", Noting)
    path = write("a.tif", noise(600, 600), tiled=True)
    read(path, grid=laea(12), resampling="cubic", threads=3)
    assert len(most) > 4
    assert max(most) == 1


@pytest.mark.parametrize("resampling", ["nearest", "bilinear"])
def test_a_window_loads_its_part_of_the_file_once(write, read, noise, monkeypatch, resampling):
    """Tiles of a turned grid need much in common: of a compressed file each would decode it again."""
    rects = []

    def noted(dataset, header, indexes, rect, **options):
        rects.append(rect)
        return read_piece(dataset, header, indexes, rect, **options)

    monkeypatch.setattr("patchbeam.rasters.warped.read_piece", noted)
    path = write("a.tif", noise(700, 1200), nodata=5)
    grid = laea(8)
    read(path, Window(150, 150, 900, 400), grid=grid, resampling=resampling)
    assert len(rects) == 1
    read(path, Window(150, 150, 900, 400), grid=grid, resampling=resampling, threads=2)
    assert len(rects) == 3


def test_a_quality_band_is_read_once_for_a_window(write, noise, monkeypatch):
    values = noise(700, 1200)
    path, flags = write("a.tif", values), write("q.tif", (values % 3).astype(np.uint8))
    source, other = open_source("s", [path]), open_source("q", [flags])
    source = replace(source, quality=Quality(band="1", files=other.files, index=1, keep=(0, 1)))
    asked, good = [], Scenes.good

    def noted(self, number, at):
        asked.append(at)
        return good(self, number, at)

    monkeypatch.setattr(Scenes, "good", noted)
    grid = laea(8)
    with ImageReader([source], resolve_bands([source]), grid) as reader:
        (p,) = reader.read(Window(100, 100, 1000, 400))
    assert asked == [Rect(100, 100, 1100, 500)]
    assert p.valid is not None
    assert set(np.unique(p.values[p.valid] % 3)) == {0, 1}
    assert 0.5 < p.valid.mean() < 0.8
