"""Where maps of the earth break: the antimeridian, a pole, the edge of a projection, several zones."""

from __future__ import annotations

import numpy as np
import pytest
import rasterio
from affine import Affine
from odc.geo.geobox import GeoBox
from rasterio.vrt import WarpedVRT

from patchbeam.rasters.coordinates import PixelMap
from patchbeam.rasters.source import open_source

UTM33 = "EPSG:32633"


def whole(path, grid):
    """The first band on the whole grid by GDAL, nearest, PROJ asked for every pixel."""
    with (
        rasterio.open(path) as dataset,
        WarpedVRT(
            dataset, crs=rasterio.CRS.from_user_input(str(grid.crs)), transform=grid.affine, width=grid.width,
            height=grid.height, tolerance=1e-9,
        ) as view,
    ):  # fmt: skip
        return view.read(1)


@pytest.mark.parametrize("west", [170.0, -190.0], ids=["0-360", "-190"])
def test_a_geographic_grid_over_the_antimeridian(write, read, valid, noise, west):
    """Files on either side meet, where the grid counts on past 180 degrees, or before -180."""
    east = write("e.tif", noise(10, 40), crs="EPSG:4326", transform=Affine(0.25, 0, 170, 0, -0.25, 2))
    other = write(
        "w.tif", noise(10, 40, seed=1), crs="EPSG:4326", transform=Affine(0.25, 0, -180, 0, -0.25, 2)
    )
    for scale, resampling in ((0.25, "nearest"), (0.125, "nearest"), (0.1, "bilinear")):
        n = round(0.25 / scale) if scale != 0.1 else 2.5
        width = round(20 / scale)
        grid = GeoBox((round(2.5 / scale), width), Affine(scale, 0, west, 0, -scale, 2), "EPSG:4326")
        (p,) = read([east, other], grid=grid, resampling=resampling)
        assert p.valid is None
        if resampling == "nearest":
            both = np.concatenate([noise(10, 40), noise(10, 40, seed=1)], axis=1)
            np.testing.assert_array_equal(p.values, np.kron(both, np.ones((n, n), int)))


def test_a_scene_over_the_antimeridian(write, read, valid, noise):
    transform = Affine(1000, 0, 780_000, 0, -1000, 1_000_000)
    path = write("a.tif", noise(60, 100), crs="EPSG:32660", transform=transform)
    header = open_source("s", [path]).files[0]
    for west in (179.0, -181.0):
        grid = GeoBox((60, 200), Affine(0.01, 0, west, 0, -0.01, 8.9), "EPSG:4326")
        (p,) = read(path, grid=grid)
        cols, rows = PixelMap(header, grid).exact(*np.meshgrid(np.arange(200) + 0.5, np.arange(60) + 0.5))
        inside = (cols >= 0) & (cols < 100) & (rows >= 0) & (rows < 60)
        np.testing.assert_array_equal(valid(p), inside)
        assert inside[:, :100].any() and inside[:, 101:].any()
        source = noise(60, 100)
        np.testing.assert_array_equal(
            p.values[inside], source[rows[inside].astype(int), cols[inside].astype(int)]
        )


def test_a_pole(write, read, valid):
    """A polar raster on a geographic grid: every longitude meets it."""
    values = np.ones((200, 200), np.uint8)
    path = write("a.tif", values, crs="EPSG:3413", transform=Affine(10_000, 0, -1e6, 0, -10_000, 1e6))
    grid = GeoBox((40, 360), Affine(1, 0, -180, 0, -0.5, 90), "EPSG:4326")
    (p,) = read(path, grid=grid)
    assert valid(p)[:10].all() and not valid(p)[-10:].any()


def test_a_world_on_a_grid_that_knows_only_a_part(write, read, valid, noise):
    path = write("w.tif", noise(180, 360), crs="EPSG:4326", transform=Affine(1, 0, -180, 0, -1, 90))
    grid = GeoBox((50, 50), Affine(20_000, 0, 0, 0, -20_000, 5_500_000), UTM33)
    (p,) = read(path, grid=grid)
    assert p.valid is None
    np.testing.assert_array_equal(p.values, whole(path, grid))


def test_far_files_contribute_nothing(write, read, valid, noise):
    path = write("a.tif", noise(8, 8))
    grid = GeoBox((8, 8), Affine(0.1, 0, -60, 0, -0.1, -20), "EPSG:4326")
    assert not valid(read(path, grid=grid)[0]).any()


def test_a_mosaic_of_zones(write, read, valid, noise):
    """Files in other CRSs of one source are each warped by themselves."""
    a = write("a.tif", noise(60, 60), crs=UTM33, transform=Affine(100, 0, 500_000, 0, -100, 5_000_000))
    b = write(
        "b.tif",
        noise(60, 60, seed=1),
        crs="EPSG:32632",
        transform=Affine(100, 0, 970_000, 0, -100, 5_020_000),
    )
    grid = GeoBox((80, 80), Affine(0.0013, 0, 14.97, 0, -0.0011, 45.17), "EPSG:4326")
    (p,) = read([a, b], grid=grid)
    first, second = whole(a, grid), whole(b, grid)
    assert (first != 0).any() and ((first == 0) & (second != 0)).any()
    np.testing.assert_array_equal(np.where(valid(p), p.values, 0), np.where(first != 0, first, second))
