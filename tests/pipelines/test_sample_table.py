"""Sampled values are rasterio's own, records keep the order of the features, draws are exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rasterio
import rasterio.mask
import shapely
from rasterio.transform import from_origin
from table_jobs import export_table, f32, records_of, write_vector

from patchbeam.errors import EncodeError, JobError
from patchbeam.rasters.reader import ImageReader

WIDTH, HEIGHT, SIZE = 300, 210, 10.0
LEFT, TOP = 500_000.0, 5_300_000.0
CRS = "EPSG:32633"


@pytest.fixture(scope="module")
def rasters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rasters")
    random = np.random.default_rng(0)
    profile = {
        "driver": "GTiff", "width": WIDTH, "height": HEIGHT, "crs": CRS, "tiled": True, "blockxsize": 64,
        "blockysize": 32, "transform": from_origin(LEFT, TOP, SIZE, SIZE),
    }  # fmt: skip
    image = random.integers(0, 3000, (2, HEIGHT, WIDTH)).astype(np.uint16)
    image[random.random(image.shape) < 0.05] = 0
    with rasterio.open(folder / "image.tif", "w", count=2, dtype="uint16", nodata=0, **profile) as file:
        file.write(image)
        file.descriptions = ("red", "nir")
    classes = (np.add.outer(np.arange(HEIGHT) // 20, np.arange(WIDTH) // 30) % 4).astype(np.uint8)
    classes[:3, :5] = 7
    with rasterio.open(folder / "classes.tif", "w", count=1, dtype="uint8", **profile) as file:
        file.write(classes, 1)
        file.descriptions = ("class",)
    return folder


def write_points(
    folder: Path, n: int = 400, *, margin: float = 300.0, crs: str = CRS
) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    x = random.uniform(LEFT - margin, LEFT + WIDTH * SIZE + margin, n)
    y = random.uniform(TOP - HEIGHT * SIZE - margin, TOP + margin, n)
    names = [None if i % 9 == 0 else f"Ort {i}" for i in range(n)]
    pq.write_table(pa.table({"n": np.arange(n), "name": names, "x": x, "y": y}), folder / "points.parquet")
    return x, y


JOB: dict[str, Any] = {
    "features": "points.parquet",
    "xColumn": "x",
    "yColumn": "y",
    "crs": CRS,
    "selectors": ["n", "name"],
}


def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x >= LEFT) & (x < LEFT + WIDTH * SIZE) & (y <= TOP) & (y > TOP - HEIGHT * SIZE)


def test_points_equal_rasterio_sample(rasters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # small buckets and blocks: records come from many of each
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BUCKET_ROWS", 37)
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BLOCK_PIXELS", 4096)
    x, y = write_points(tmp_path)
    report = export_table(tmp_path, sample={"sources": str(rasters / "image.tif")}, **JOB)
    found = records_of(report)
    there = inside(x, y)
    assert report.outside == int((~there).sum()) > 0
    with rasterio.open(rasters / "image.tif") as file:
        expected = np.array(list(file.sample(np.stack([x, y], axis=1))))
    masked = 0
    for i, record in enumerate(found):
        assert record["n"] == [i] and record.get("name") == (None if i % 9 == 0 else [f"Ort {i}"])
        for band, name in enumerate(("red", "nir")):
            if there[i] and expected[i, band]:
                assert record[name] == [expected[i, band]]
            else:
                assert name not in record
                masked += there[i]
    assert report.masked == masked > 0


def test_each_source_block_is_read_once(
    rasters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BLOCK_PIXELS", 4096)
    write_points(tmp_path, 2000)
    read = np.zeros((HEIGHT, WIDTH), int)
    plain = ImageReader.read

    def counting(self: ImageReader, window: Any) -> Any:
        read[window.row_off : window.row_stop, window.col_off : window.col_stop] += 1
        return plain(self, window)

    monkeypatch.setattr(ImageReader, "read", counting)
    export_table(tmp_path, sample={"sources": str(rasters / "image.tif")}, **JOB)
    assert read.max() == 1
    blocks = [
        np.unique(np.nonzero(read[r : r + 32, c : c + 64])[0]).size
        for r in range(0, HEIGHT, 32)
        for c in range(0, WIDTH, 64)
    ]
    assert min(blocks) > 0


def test_points_in_another_crs_and_scale(rasters: Path, tmp_path: Path) -> None:
    from pyproj import Transformer

    x, y = write_points(tmp_path, 60, margin=-40)
    lon, lat = Transformer.from_crs(CRS, "EPSG:4326", always_xy=True).transform(x, y)
    pq.write_table(pa.table({"longitude": lon, "latitude": lat}), tmp_path / "ll.parquet")
    found = records_of(
        export_table(
            tmp_path,
            features="ll.parquet",
            selectors=["longitude"],
            sample={"sources": str(rasters / "classes.tif"), "scale": 30},
        )
    )
    with rasterio.open(rasters / "classes.tif") as file:
        band = file.read(1)
    # the centre of the 30 m pixel, whose edges are multiples of 30 m
    columns = ((np.floor(x / 30) * 30 + 15 - LEFT) // SIZE).astype(int)
    rows = ((TOP - (np.floor(y / 30) * 30 + 15)) // SIZE).astype(int)
    ok = (columns < WIDTH) & (rows < HEIGHT) & (columns >= 0) & (rows >= 0)
    assert [r["class"][0] for r, k in zip(found, ok, strict=True) if k] == band[
        rows[ok], columns[ok]
    ].tolist()


def test_strict_refuses_a_feature_outside(rasters: Path, tmp_path: Path) -> None:
    x, y = write_points(tmp_path)
    first = int(np.argmax(~inside(x, y)))
    with pytest.raises(EncodeError, match=f"feature {first}: has no place on the sampled rasters"):
        export_table(tmp_path, strict=True, sample={"sources": str(rasters / "image.tif")}, **JOB)
    assert not list((tmp_path / "out").glob("*")) and not list((tmp_path / "out").glob(".*"))


def chip(path: Path, x: float, y: float, width: int, height: int) -> np.ndarray:
    with rasterio.open(path) as file:
        row, column = file.index(x, y)
        window = rasterio.windows.Window(column - width // 2, row - height // 2, width, height)
        return file.read(window=window, boundless=True, masked=True).filled(0)


@pytest.mark.parametrize("order", ["source", "block"])
def test_chips_are_centred_on_points_and_sharded(
    rasters: Path, tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BLOCK_PIXELS", 4096)
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BUCKET_ROWS", 50)
    x, y = write_points(tmp_path, 200, margin=50)
    limit = 20_000
    sample = {"sources": str(rasters / "image.tif"), "patch": [8, 5], "order": order, "maxFileSize": limit}
    report = export_table(tmp_path, sample=sample, **JOB)
    assert [Path(name).name for name in report.files] == [
        f"table-{i:05d}.tfrecord.gz" for i in range(len(report.files))
    ]
    assert len(report.files) > 1
    found = records_of(report)
    order_of = [int(record["n"][0]) for record in found]
    assert sorted(order_of) == list(range(200)) and (order_of == sorted(order_of)) == (order == "source")
    for record in found:
        i = int(record["n"][0])
        if not inside(x, y)[i]:
            assert "red" not in record
            continue
        expected = chip(rasters / "image.tif", x[i], y[i], 8, 5)
        for band, name in enumerate(("red", "nir")):
            assert record[name] == expected[band].ravel().tolist()


def test_array_bands(rasters: Path, tmp_path: Path) -> None:
    x, y = write_points(tmp_path, 80, margin=0)
    source = {
        "sources": {"s": str(rasters / "image.tif")},
        "bands": [{"name": "both", "source": "s", "band": [1, 2]}],
    }
    with rasterio.open(rasters / "image.tif") as file:
        steps = [[int(v) for v in values if v] for values in file.sample(np.stack([x, y], axis=1))]
    own = records_of(export_table(tmp_path, sample=source, **JOB))
    assert [record.get("both", []) for record in own] == steps
    fixed = export_table(
        tmp_path, sample={**source, "tensorDepths": {"both": 3}, "defaultValue": -1}, overwrite=True, **JOB
    )
    assert [r.get("both") for r in records_of(fixed)] == [
        [*s, *[-1] * (3 - len(s))] if s else None for s in steps
    ]
    cut = records_of(
        export_table(
            tmp_path, sample={**source, "tensorDepths": {"both": 2}, "patch": 3}, output="out/cut", **JOB
        )
    )
    assert all(len(record["both"]) == 2 * 9 for record in cut)
    with pytest.raises(JobError, match=r"sample.tensorDepths: chips need a depth .*missing: both"):
        export_table(tmp_path, sample={**source, "patch": 3}, output="out/none", **JOB)


@pytest.mark.parametrize("reduce", ["mean", "median"])
def test_polygons_equal_rasterio_mask(
    rasters: Path, tmp_path: Path, reduce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BLOCK_PIXELS", 4096)
    random = np.random.default_rng(3)
    shapes = [
        shapely.Point(LEFT + a, TOP - b).buffer(r)
        for a, b, r in zip(
            random.uniform(0, 3000, 40), random.uniform(0, 2100, 40), random.uniform(2, 300, 40), strict=True
        )
    ]
    # one wider than any block, in strips; one that holds no pixel centre; one outside; a null
    shapes += [
        shapely.box(LEFT, TOP - 2100, LEFT + 3000, TOP),
        shapely.box(LEFT + 1, TOP - 3, LEFT + 3, TOP - 1),
        shapely.box(0, 0, 1, 1),
        None,
    ]
    wkb = pa.array([None if s is None else shapely.to_wkb(s) for s in shapes], pa.binary())
    write_vector(
        tmp_path / "areas.gpkg", pa.table({"n": np.arange(len(shapes))}), wkb, "GPKG", crs=CRS, kind="Polygon"
    )
    sample = {"sources": str(rasters / "image.tif"), "reduce": reduce, "blockBytes": 1 << 16}
    report = export_table(tmp_path, features="areas.gpkg", selectors="n", sample=sample)
    found = records_of(report)
    assert report.outside == 2
    for i, shape in enumerate(shapes[:-2]):
        with rasterio.open(rasters / "image.tif") as file:
            try:
                pixels = rasterio.mask.mask(file, [shape], crop=True, filled=False)[0]
            except ValueError:
                continue
        for band, name in enumerate(("red", "nir")):
            values = pixels[band].compressed().astype(np.float64)
            assert found[i].get(name) == (f32([getattr(np, reduce)(values)]) if values.size else None), (
                i,
                shape,
            )
    assert "red" not in found[41] and found[42] == {"n": [42.0]} and found[43] == {"n": [43.0]}


def test_lines_are_refused(rasters: Path, tmp_path: Path) -> None:
    wkb = pa.array([shapely.to_wkb(shapely.LineString([(LEFT, TOP), (LEFT + 9, TOP - 9)]))], pa.binary())
    write_vector(tmp_path / "lines.gpkg", pa.table({"n": [1]}), wkb, "GPKG", crs=CRS, kind="LineString")
    with pytest.raises(JobError, match="holds LineString geometries, and points and polygons are sampled"):
        export_table(tmp_path, features="lines.gpkg", sample={"sources": str(rasters / "image.tif")})
    write_vector(tmp_path / "any.gpkg", pa.table({"n": [1]}), wkb, "GPKG", crs=CRS, kind="Unknown")
    with pytest.raises(EncodeError, match="feature 0: its geometry is a LineString"):
        export_table(tmp_path, features="any.gpkg", sample={"sources": str(rasters / "image.tif")})


def drawn(folder: Path, rasters: Path, **more: Any) -> list[dict[str, Any]]:
    sources = {"image": str(rasters / "image.tif"), "classes": str(rasters / "classes.tif")}
    sample = {"sources": sources, "stratify": "class", "perClass": 15, "seed": 1, **more}
    return records_of(export_table(folder, geometry="lonlat", overwrite=True, sample=sample))


def test_draws_are_exact_and_the_same_whatever_the_blocks(
    rasters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = drawn(tmp_path, rasters)
    assert Counter(r["class"][0] for r in first) == {0: 15, 1: 15, 2: 15, 3: 15, 7: 15}
    assert len({(*r["longitude"], *r["latitude"]) for r in first}) == 75
    assert [r["system:index"] for r in first] == [[str(i)] for i in range(75)]
    monkeypatch.setattr("patchbeam.tables.sampling.plan._BLOCK_PIXELS", 2048)
    assert drawn(tmp_path, rasters) == first
    assert drawn(tmp_path, rasters, seed=2) != first
    region = [LEFT, TOP - 900, LEFT + 1200, TOP]
    some = drawn(tmp_path, rasters, region=region, classes=[0, 2])
    assert Counter(r["class"][0] for r in some) == {0: 15, 2: 15}
    assert not list((tmp_path / "out").glob(".*"))


def test_a_class_with_too_few_pixels_is_named(rasters: Path, tmp_path: Path) -> None:
    with pytest.raises(
        JobError, match="16 points of each class of band 'class' are wanted, and class 7 has 15 valid"
    ):
        drawn(tmp_path, rasters, perClass=16)
    with pytest.raises(JobError, match="class 5 has 0 valid"):
        drawn(tmp_path, rasters, classes=[1, 5])
    # a band of numbers that was taken for one of classes
    with pytest.raises(
        JobError, match=r"class 27 has 0 and 12 more classes have too few valid .*; lower"
    ) as caught:
        drawn(tmp_path, rasters, classes=list(range(20, 40)))
    assert len(str(caught.value)) < 400


BAD: list[tuple[dict[str, Any], str]] = [
    ({"stratify": "klass", "perClass": 3}, "sample.stratify: 'klass' is not a band.*did you mean 'class'"),
    ({"stratify": "class"}, "sample.perClass: is missing"),
    ({"perClass": 3}, "sample.perClass: goes with sample.stratify"),
    ({"order": "block"}, "sample.order: block is for chips"),
    ({"patch": [64, 64], "maxFileSize": 1000}, "sample.maxFileSize: 1000 bytes do not hold one chip"),
    ({"scale": 10, "crsTransform": [10, 0, 0, 0, -10, 0]}, "sample.scale and sample.crsTransform"),
    ({"tensorDepths": {"class": 3}}, "sample.tensorDepths.class: is not an array band"),
    ({"bands": [{"name": "a", "source": "imag"}]}, r"sample.bands\[0\].*did you mean 'image'"),
]


@pytest.mark.parametrize(("sample", "message"), BAD)
def test_bad_samples(rasters: Path, tmp_path: Path, sample: dict[str, Any], message: str) -> None:
    write_points(tmp_path, 5)
    job = {} if "stratify" in sample else JOB
    with pytest.raises(JobError, match=message):
        export_table(tmp_path, sample={"sources": str(rasters / "classes.tif"), **sample}, **job)
