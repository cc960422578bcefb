"""Burnt labels equal rasterio's rasterize of the whole layer on the whole grid, window by window."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import shapely
from affine import Affine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from odc.geo.geobox import GeoBox
from pyproj import Transformer
from rasterio.features import rasterize

from patchbeam.errors import ReadFailed, SourceError
from patchbeam.patches import Window
from patchbeam.rasters.bands import BandSpec, resolve_bands
from patchbeam.rasters.burn import open_vector, stand_in
from patchbeam.rasters.reader import ImageReader
from patchbeam.rasters.source import Source

UTM = "EPSG:32633"
GRID = GeoBox((120, 150), Affine(10, 0, 500_003, 0, -10, 5_000_007), UTM)
SUFFIXES = ("gpkg", "fgb", "shp", "geojson", "parquet")


def fields(count=60, seed=0, nice=False):
    """Polygons with holes, lines and slivers over and round the grid; corners on pixel centres if nice."""
    random = np.random.default_rng(seed)
    left, top = 500_003, 5_000_007
    shapes = []
    for _ in range(count):
        x, y = left + random.uniform(-200, 1600), top - random.uniform(-200, 1400)
        corners = np.stack([random.uniform(-200, 200, 5) + x, random.uniform(-200, 200, 5) + y], axis=1)
        if nice:
            corners = np.round((corners - [left, top]) / 5) * 5 + [left, top]
        shape = shapely.convex_hull(shapely.multipoints(corners))
        if random.random() < 0.3:
            shape = shapely.difference(shape, shapely.buffer(shapely.centroid(shape), 30))
        shapes.append(shape)
    shapes = [s for s in shapes if s.geom_type == "Polygon" and s.area > 1]
    crop, rank = random.integers(1, 9, len(shapes)), random.integers(0, 5, len(shapes))
    return np.array(shapes), crop, rank


def write(folder: Path, suffix: str, shapes, crop, rank, crs=UTM) -> str:
    path = folder / f"fields.{suffix}"
    if suffix == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet
        from pyproj import CRS

        told = {"primary_column": "geometry", "columns": {"geometry": {"crs": CRS(crs).to_json_dict()}}}
        table = pa.table({"crop": crop, "rank": rank, "geometry": shapely.to_wkb(shapes)})
        parquet.write_table(table.replace_schema_metadata({"geo": json.dumps(told)}), path)
    else:
        pyogrio.raw.write(
            path, shapely.to_wkb(shapes), [crop, rank], ["crop", "rank"],
            geometry_type="Polygon", crs=crs, driver=None,
        )  # fmt: skip
    return str(path)


def reader_of(path: str, grid: GeoBox = GRID, type_: str | None = None, **options) -> ImageReader:
    burn = open_vector("crops", path, **options)
    source = Source(name="crops", files=(stand_in(burn, "crops", grid),), vector=burn)
    return ImageReader([source], resolve_bands([source], [BandSpec(source="crops", type=type_)]), grid)


def by_windows(reader: ImageReader, side: int = 37):
    """The whole grid, patch by patch: values and validity."""
    height, width = reader.grid.shape
    values, valid = np.zeros((height, width)), np.zeros((height, width), bool)
    for top in range(0, height, side):
        for left in range(0, width, side):
            window = Window(left, top, min(side, width - left), min(side, height - top))
            (pixels,) = reader.read(window)
            at = slice(top, top + window.height), slice(left, left + window.width)
            values[at] = pixels.values
            valid[at] = True if pixels.valid is None else pixels.valid
    return values, valid


def whole(shapes, numbers, fill=0, grid=GRID, **options):
    return rasterize(
        list(zip(shapes, numbers.tolist(), strict=True)), out_shape=grid.shape, fill=fill,
        transform=grid.affine, dtype="float64", **options,
    )  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(0, 10**6), st.booleans(), st.booleans(), st.sampled_from(SUFFIXES), st.sampled_from([19, 64])
)
def test_equals_the_whole(tmp_path_factory, seed, nice, touched, suffix, side):
    nice &= not touched  # where lines touch pixels GDAL decides, and counts from the window's corner
    shapes, crop, rank = fields(seed=seed, nice=nice)
    path = write(tmp_path_factory.mktemp("layer"), suffix, shapes, crop, rank)
    with reader_of(path, attribute="crop", all_touched=touched, order_by="rank") as reader:
        values, valid = by_windows(reader, side)
    # a FlatGeobuf is stored along a curve
    order = np.argsort(rank, kind="stable") if suffix != "fgb" else stored_order(path)
    source, numbers = (shapes, crop) if suffix != "fgb" else stored_fields(path)
    assert valid.all()
    np.testing.assert_array_equal(values, whole(source[order], numbers[order], all_touched=touched))


def stored_fields(path):
    """A FlatGeobuf's features in the order of their ids."""
    meta, fids, wkb, data = pyogrio.raw.read(path, return_fids=True)
    by = np.argsort(fids)
    return shapely.from_wkb(wkb)[by], data[list(meta["fields"]).index("crop")][by]


def stored_order(path):
    meta, fids, _, data = pyogrio.raw.read(path, return_fids=True)
    return np.argsort(data[list(meta["fields"]).index("rank")][np.argsort(fids)], kind="stable")


@pytest.mark.parametrize("suffix", ["gpkg", "geojson"])
def test_another_crs(tmp_path, suffix):
    shapes, crop, rank = fields(seed=5)
    away = Transformer.from_crs(UTM, "EPSG:4326", always_xy=True)
    degrees = shapely.transform(shapes, lambda xy: np.stack(away.transform(*xy.T), axis=1))
    path = write(tmp_path, suffix, degrees, crop, rank, "EPSG:4326")
    back = Transformer.from_crs("EPSG:4326", UTM, always_xy=True)
    stored = shapely.from_wkb(pyogrio.raw.read(path)[2])
    again = shapely.transform(stored, lambda xy: np.stack(back.transform(*xy.T), axis=1))
    with reader_of(path, attribute="crop", background=None) as reader:
        values, valid = by_windows(reader)
    expected = whole(again, crop, fill=0)
    np.testing.assert_array_equal(valid, expected != 0)
    np.testing.assert_array_equal(values[valid], expected[valid])


def test_a_constant_and_margins_outside(tmp_path):
    shapes, crop, rank = fields()
    path = write(tmp_path, "gpkg", shapes, crop, rank)
    with reader_of(path, value=7, background=255) as reader:
        (pixels,) = reader.read(Window(-12, -9, 174, 140))
    larger = GeoBox((140, 174), Affine(10, 0, 500_003 - 120, 0, -10, 5_000_007 + 90), UTM)
    np.testing.assert_array_equal(pixels.values, whole(shapes, np.full(len(shapes), 7), 255, larger))
    assert pixels.values.dtype == "uint8"


def test_across_the_antimeridian(tmp_path):
    grid = GeoBox((20, 40), Affine(0.1, 0, 178, 0, -0.1, 1), "EPSG:4326")
    shapes = np.array([shapely.box(-179.5, 0, -179, 0.5), shapely.box(179, -0.5, 179.5, 0.2)])
    path = write(tmp_path, "gpkg", shapes, np.array([3, 4]), np.zeros(2), "EPSG:4326")
    with reader_of(path, grid, attribute="crop") as reader:
        values, _ = by_windows(reader, 16)
    moved = np.array([shapely.box(180.5, 0, 181, 0.5), shapes[1]])
    np.testing.assert_array_equal(values, whole(moved, np.array([3, 4]), grid=grid))
    assert set(np.unique(values)) == {0, 3, 4}


def test_reads_only_what_meets_the_window(tmp_path, monkeypatch):
    shapes, crop, rank = fields(300)
    reader = reader_of(write(tmp_path, "gpkg", shapes, crop, rank), attribute="crop")
    read = []
    own = pyogrio.raw.read
    monkeypatch.setattr(pyogrio.raw, "read", lambda *a, **k: read.append(own(*a, **k)) or read[-1])
    with reader:
        reader.read(Window(0, 0, 8, 8))
    near = shapely.intersects(shapes, shapely.box(499_900, 4_999_800, 500_200, 5_000_100)).sum()
    assert 0 < len(read[0][1]) <= near < 0.2 * len(shapes)


@pytest.mark.parametrize(
    ("crop", "background", "expected"),
    [
        ([1, 255], 0, "uint8"),
        ([1, 256], 0, "int16"),
        ([-1, 200], 0, "int16"),
        ([1, 40_000], 0, "uint16"),
        ([1, 70_000], None, "int32"),
        ([1, 3_000_000_000], 0, "uint32"),
        ([1, 2], -1, "int16"),
        ([0.5, 2], 0, "float32"),
        ([0.1, 2], 0, "float64"),
    ],
)
def test_types(tmp_path, crop, background, expected):
    shapes = np.array([shapely.box(500_003, 4_999_907, 500_053, 5_000_007), shapely.box(0, 0, 1, 1)])
    path = write(tmp_path, "gpkg", shapes, np.array(crop), np.zeros(2))
    with reader_of(path, attribute="crop", background=background) as reader:
        (pixels,) = reader.read(Window(0, 0, 5, 5))
    assert pixels.values.dtype == expected and (pixels.values == crop[0]).all()


def test_refusals(tmp_path):
    shapes = np.array([shapely.box(0, 0, 1, 1)])
    path = str(tmp_path / "f.gpkg")
    names = np.array(["wheat"], object)
    pyogrio.raw.write(path, shapely.to_wkb(shapes), [names], ["crop"], geometry_type="Polygon", crs=UTM)
    for options, text in (
        ({"attribute": "crop"}, r"sources\.crops\.attribute: 'crop' of .* holds no numbers"),
        ({"attribute": "corp"}, r"'corp' is not an attribute of .*did you mean 'crop'.*it has crop"),
        ({"attribute": "crop", "value": 1}, "attribute and value both say"),
        ({"layer": "g"}, r"sources\.crops\.layer: 'g' is not in"),
    ):
        with pytest.raises(SourceError, match=text):
            open_vector("crops", path, **options)
    with pytest.raises(SourceError, match="cannot be read"):
        open_vector("crops", str(tmp_path / "none.gpkg"))
    with (
        reader_of(path, value=300, background=300, type_="uint8") as reader,
        pytest.raises(ReadFailed, match=r"burnt from .*300 does not fit into uint8"),
    ):
        reader.read(Window(0, 0, 3, 3))
