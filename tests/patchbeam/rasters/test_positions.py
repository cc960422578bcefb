"""Whole numbers below positions, and who asks PROJ, against the positions themselves."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from affine import Affine
from hypothesis import given, settings
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from pyproj import CRS, Transformer

from patchbeam.rasters import projector
from patchbeam.rasters.cells import Cells
from patchbeam.rasters.coordinates import PixelMap, prepare
from patchbeam.rasters.floors import CELL, WEIGHTS, floors
from patchbeam.rasters.gather import SNAP
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.source import open_source

UTM33, LAEA = (CRS.from_epsg(code).to_wkt() for code in (32633, 3035))


def interpolated(lines):
    """Positions of all pixels of the cells, by the formula."""
    count = lines.shape[2] - 3
    total = lines[:, :, 0:count, None] * WEIGHTS[0]
    for k in range(1, 4):
        total = total + lines[:, :, k : k + count, None] * WEIGHTS[k]
    return total.reshape(*lines.shape[:2], count * CELL)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 40),
    cells=st.integers(1, 9),
    step=st.sampled_from([0.0, 0.25, 1.0, -1.0, 0.9973, 3.7, -40.0]),
    bend=st.sampled_from([0.0, 1e-9, 1e-5, 0.02]),
    start=st.sampled_from([0.0, 0.5, -3.0, 1e5, -1e7, 3e8]),
    shift=st.sampled_from([0.0, SNAP, 0.5]),
)
def test_floors_are_those_of_the_interpolation(seed, rows, cells, step, bend, start, shift):
    rng = np.random.default_rng(seed)
    nodes = (np.arange(cells + 3) - 1.0) * CELL
    # steps of a quarter have every fourth pixel exactly on the edge of one
    lines = (
        start
        + step * nodes
        + 0.25 * np.arange(rows)[:, None]
        + bend * rng.normal(size=(2, rows, 1)) * nodes**2
    )
    lines += bend * rng.normal(size=lines.shape)
    first, last = sorted(rng.integers(0, cells * CELL, 2).tolist())
    found = floors(lines, np.arange(first, last + 1), shift)
    if found is not None:
        expected = np.floor(interpolated(lines)[:, :, first : last + 1] + shift)
        np.testing.assert_array_equal(found, expected)
    elif bend <= 1e-9 and step not in (0.0, 0.25) and abs(start) < 1e8:
        # all that it may not manage: many ties, tears, and what is too far out
        assert (
            np.abs(interpolated(lines) + shift - np.rint(interpolated(lines) + shift)) < 1e-2
        ).mean() > 1 / 40


@pytest.mark.parametrize("crs", ["EPSG:3035", "EPSG:4326", "EPSG:3857", "EPSG:32632"])
def test_whole_numbers_between_crs_are_those_of_the_centres(write, noise, crs):
    path = write("a.tif", noise(64, 64))
    (file,) = open_source("s", [path]).files
    longitude = crs == "EPSG:4326"
    size = 1e-4 if longitude else 9.7
    (x,), (y,) = Transformer.from_crs(file.crs_wkt, crs, always_xy=True).transform([499_000.0], [5_002_000.0])
    map_ = PixelMap(file, GeoBox((500, 700), Affine(size, 0, x, 0, -size, y), crs))
    for part in (Rect(0, 0, 700, 500), Rect(-70, 33, 130, 300), Rect(5, 5, 6, 6), Rect(63, 64, 640, 65)):
        positions = map_.over(part)
        found = positions.whole(part, SNAP)
        assert found is not None
        np.testing.assert_array_equal(found, np.floor(np.stack(positions.centres(part)) + SNAP))
        around = positions.around()
        assert around is not None
        assert around.holds(Rect(*found.min(axis=(1, 2)).tolist(), *(found.max(axis=(1, 2)) + 1).tolist()))


def test_torn_cells_have_no_whole_numbers():
    def exact(cols, rows):
        return np.where(cols < 100, np.nan, cols + 0.3), rows + 0.3

    cells = Cells(exact, Rect(0, 0, 256, 64))
    assert cells.whole(Rect(0, 0, 256, 64), 0) is None
    assert cells.around() is None
    found = cells.whole(Rect(192, 0, 256, 64), 0)
    assert found is not None
    assert found[0, 0].tolist() == list(range(192, 256))


def test_places_are_the_same_whoever_asks(monkeypatch):
    rng = np.random.default_rng(3)
    x, y = rng.uniform(4e5, 6e5, (5, 40)), rng.uniform(5e6, 5.2e6, (5, 40))
    expected = Transformer.from_crs(UTM33, LAEA, always_xy=True).transform(x, y)
    threads, found = [], []
    monkeypatch.setattr(projector, "_ENOUGH", 500)

    def ask():
        # the third time it is asked by a transformer of the thread's own
        found.extend(projector.transform(UTM33, LAEA, x, y) for _ in range(4))
        threads.append(sorted(vars(projector._local)))

    for thread in [threading.Thread(target=ask) for _ in range(3)]:
        thread.start()
        thread.join()
    assert threads == [["asked", "transformers"]] * 3
    for places in found:
        np.testing.assert_array_equal(places, expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads: that is what is tested
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_asks_a_thread_of_its_own():
    x, y = np.array([5e5]), np.array([5e6])
    expected = projector.transform(UTM33, LAEA, x, y)
    child = os.fork()
    if not child:
        same = bool(np.array_equal(projector.transform(UTM33, LAEA, x, y), expected))
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_transformers_are_made_before_they_are_asked_for(write, noise, monkeypatch):
    made = []

    class Noting:
        @staticmethod
        def from_crs(source, target, **options):
            made.append((CRS(source).to_epsg(), CRS(target).to_epsg(), threading.current_thread().name))
            return Transformer.from_crs(source, target, **options)

    monkeypatch.setattr(projector, "Transformer", Noting)
    (file,) = open_source("s", [write("a.tif", noise(8, 8))]).files
    prepare(file, file.grid)
    grid = GeoBox((8, 8), Affine(10, 0, 600_000, 0, -10, 5_000_000), "EPSG:32631")
    prepare(file, grid)
    projector._Common.thread.submit(int).result()
    # none where nothing is to be transformed
    assert [m[:2] for m in made] == [(32633, 32631), (32631, 32633)]
    PixelMap(file, grid).centres(Rect(0, 0, 8, 8))
    assert len(made) == 2
    assert {name[:14] for *_, name in made} == {"patchbeam-proj"}
