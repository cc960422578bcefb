"""Array bands made of one observation a file."""

from __future__ import annotations

import numpy as np
import pytest
from affine import Affine
from odc.geo.geobox import GeoBox

from patchbeam.errors import SourceError
from patchbeam.rasters.bands import BandSpec, resolve_bands
from patchbeam.rasters.source import Source, open_source, read_header
from patchbeam.rasters.times import observation_time


def test_in_time_order_with_a_mask_a_step(write, read, valid, noise):
    days = ["20200301", "20190101", "20200115"]
    values = {day: noise(8, 8, seed=int(day), low=0, high=4) for day in days}
    paths = [write(f"ndvi_{day}.tif", values[day], nodata=0) for day in days]
    source = open_source("ndvi", paths, series=True, time="ndvi_%Y%m%d")
    assert source.times == tuple(f"{d}T00:00:00+00:00" for d in ("2019-01-01", "2020-01-15", "2020-03-01"))
    (band,) = resolve_bands([source])
    assert band.series and band.is_array
    (p,) = read(paths, series=True, time="ndvi_%Y%m%d")
    expected = np.stack([values[day] for day in sorted(days)])
    np.testing.assert_array_equal(p.values, expected)
    np.testing.assert_array_equal(valid(p), expected != 0)


def test_observations_off_the_grid(write, read, valid, noise):
    a = write("2020-01-01.tif", noise(8, 8))
    b = write("2020-01-02.tif", noise(4, 4, seed=1), transform=Affine(20, 0, 500_000, 0, -20, 5_000_000))
    far = write("2020-01-03.tif", noise(4, 4), transform=Affine(20, 0, 900_000, 0, -20, 5_000_000))
    grid = GeoBox((8, 8), Affine(10, 0, 500_000, 0, -10, 5_000_000), "EPSG:32633")
    (p,) = read([far, b, a], grid=grid, series=True, time="%Y-%m-%d")
    np.testing.assert_array_equal(p.values[0], noise(8, 8))
    np.testing.assert_array_equal(p.values[1], np.kron(noise(4, 4, seed=1), np.ones((2, 2), int)))
    assert valid(p).reshape(3, -1).all(axis=1).tolist() == [True, True, False] and not valid(p)[2].any()


def test_equal_times_keep_path_order(write, noise):
    paths = [write(name, noise(2, 2)) for name in ("b_2020.tif", "a_2020.tif", "c_2019.tif")]
    source = open_source("s", paths, series=True, time="_%Y")
    assert [f.path[-10:] for f in source.files] == ["c_2019.tif", "a_2020.tif", "b_2020.tif"]


def test_the_date_tag(write, noise):
    def finish(dataset):
        dataset.update_tags(TIFFTAG_DATETIME="2020:05:17 10:20:30")

    header = read_header(write("a.tif", noise(2, 2), finish=finish))
    assert observation_time(header, None, "sources.s") == "2020-05-17T10:20:30+00:00"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (None, "has no date tag"),
        ("x_%Y%m%d", "'x_%Y%m%d' is not found in the path"),
        ("a_%Y%m%d", "'20201399' in .* is not a date of the form 'a_%Y%m%d'|'a_20201399' in"),
        ("a_%Q", "%Q in 'a_%Q' is not known; use %Y, %m"),
        ("a_", "holds no date field"),
    ],
)
def test_no_time(write, noise, pattern, message):
    path = write("a_20201399.tif", noise(2, 2))
    with pytest.raises(SourceError, match=rf"^sources\.s.*({message})"):
        open_source("s", [path], series=True, time=pattern)


def test_a_series_is_checked(write, noise):
    header = read_header(write("a.tif", noise(2, 2, 2)))
    with pytest.raises(SourceError, match="a series of 1 files has 0 times"):
        Source(name="s", files=(header,), series=True)
    source = Source(name="s", files=(header,), series=True, times=("2020-01-01T00:00:00+00:00",))
    with pytest.raises(SourceError, match="is a series, whose steps are its files"):
        resolve_bands([source], [BandSpec(source="s", indexes=(1, 2))])
