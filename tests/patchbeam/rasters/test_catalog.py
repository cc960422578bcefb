"""Scenes of catalogues: every kind of document gives the sources that a list of the files gives."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import rasterio
import shapely
import stac_items
from catalog_jobs import job, paths, pixels, same
from eager import plan_of
from stac_items import LEFT, TOP, collection_of, make, write_json

from patchbeam.errors import JobError, SourceError
from patchbeam.export import BlockReader


@pytest.mark.parametrize("complete", [True, False])
def test_an_item_collection(tmp_path, complete, monkeypatch):
    write_json(tmp_path / "c.json", collection_of(make(tmp_path, complete=complete)[::-1]))
    if complete:  # no file is opened to plan
        monkeypatch.setattr("patchbeam.rasters.catalog.open.read_header", None)
    plan = plan_of(job("c.json", assets="B04", compose="median"), tmp_path)
    assert plan.bands[0].name == "B04" and plan.sources[0].name == "s2"
    assert paths(plan) == [f"{n}_B04.tif" for n in range(5)]  # by time
    assert all(file.assumed is complete for file in plan.sources[0].files)
    monkeypatch.undo()
    same(plan, tmp_path, compose="median")


def test_one_item(tmp_path):
    write_json(tmp_path / "i.json", make(tmp_path)[2])
    assert paths(plan_of(job("i.json", assets="B04"), tmp_path)) == ["2_B04.tif"]


def test_a_static_catalogue(tmp_path):
    """Collection → child → items; hrefs go up, within the root."""
    items = make(tmp_path, hrefs="../../data/")
    for n, one in enumerate(items):
        one["links"] = [{"rel": "root", "href": "../../catalog.json"}]
        write_json(tmp_path / "sub" / "items" / f"{n}.json", one)
    links = [{"rel": "item", "href": f"./items/{n}.json"} for n in range(5)]
    write_json(
        tmp_path / "sub" / "collection.json", {"type": "Collection", "stac_version": "1.0.0", "links": links}
    )
    root = {
        "type": "Catalog",
        "stac_version": "1.0.0",
        "links": [{"rel": "child", "href": "sub/collection.json"}],
    }
    write_json(tmp_path / "catalog.json", root)
    same(plan_of(job("catalog.json", assets="B04"), tmp_path), tmp_path)
    # the item alone: its root link says how far up references may go
    assert paths(plan_of(job("sub/items/3.json", assets="B04"), tmp_path)) == ["3_B04.tif"]
    # the collection alone has no root above: its items' hrefs leave its folder
    with pytest.raises(SourceError, match=r"leads to .*outside of the catalogue's folder .*sub/"):
        plan_of(job("sub/collection.json", assets="B04"), tmp_path)


def test_stac_geoparquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = []
    for one in make(tmp_path):
        flat = {k: v for k, v in one.items() if k not in ("properties", "geometry", "links", "bbox")}
        rows.append({**flat, **one["properties"], "geometry": shapely.to_wkb(shapely.Point(15, 45))})
    rows[0]["assets"] = dict(rows[0]["assets"], extra={"href": "none"})
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "c.parquet")
    same(plan_of(job("c.parquet", assets="B04"), tmp_path), tmp_path)
    chosen = plan_of(job("c.parquet", assets="B04", cloudCover={"max": 15}), tmp_path)
    assert paths(chosen) == ["0_B04.tif", "1_B04.tif"]


@pytest.mark.parametrize("suffix", ["gpkg", "geojson", "shp", "parquet"])
def test_a_tile_index(tmp_path, suffix):
    import pyogrio

    make(tmp_path)
    files = np.array([f"data/{n}_B04.tif" for n in range(5)], object)
    clouds, shapes = np.arange(5.0), shapely.to_wkb(shapely.points(np.arange(5), np.arange(5)))
    if suffix == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"location": files, "clouds": clouds}), tmp_path / "i.parquet")
    else:
        pyogrio.raw.write(
            tmp_path / f"i.{suffix}", shapes, [files, clouds], ["location", "clouds"],
            geometry_type="Point", crs="EPSG:4326",
        )  # fmt: skip
    same(plan_of(job(f"i.{suffix}"), tmp_path), tmp_path)
    assert paths(plan_of(job(f"i.{suffix}", filter={"clouds": {"min": 3}}), tmp_path)) == [
        "3_B04.tif",
        "4_B04.tif",
    ]


def test_a_folder_and_a_pattern(tmp_path):
    make(tmp_path)
    for path in (tmp_path / "data").glob("*"):
        if "B04" not in path.name:
            path.unlink()
    (tmp_path / "data" / "notes.txt").write_text("no raster")
    for path in ("data", "data/*_B04.tif"):
        plan = plan_of(job(path), tmp_path)
        assert paths(plan) == [f"{n}_B04.tif" for n in range(5)]
        same(plan, tmp_path)


def test_a_vrt_is_the_raster_that_it_describes(tmp_path):
    make(tmp_path)
    parts = []
    for n in reversed(range(5)):  # the last one wins in a VRT, the first one in a list
        with rasterio.open(tmp_path / "data" / f"{n}_B04.tif") as file:
            left, size = round((file.transform.c - LEFT) / 10), f"xSize='{file.width}' ySize='{file.height}'"
        parts.append(
            f"<ComplexSource><SourceFilename relativeToVRT='1'>data/{n}_B04.tif</SourceFilename>"
            f"<SourceBand>1</SourceBand><NODATA>0</NODATA><SrcRect xOff='0' yOff='0' {size}/>"
            f"<DstRect xOff='{left}' yOff='0' {size}/></ComplexSource>"
        )
    (tmp_path / "all.vrt").write_text(
        "<VRTDataset rasterXSize='170' rasterYSize='40'><SRS>EPSG:32633</SRS>"
        f"<GeoTransform>{LEFT}, 10, 0, {TOP}, 0, -10</GeoTransform>"
        "<VRTRasterBand dataType='UInt16' band='1'><NoDataValue>0</NoDataValue>"
        f"{''.join(parts)}</VRTRasterBand></VRTDataset>"
    )
    plan = plan_of(job("all.vrt"), tmp_path)
    assert paths(plan) == ["all.vrt"]
    same(plan, tmp_path)


def test_several_assets_and_a_quality_band(tmp_path):
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    mask = {"band": "SCL", "keep": [4, 5, 6]}
    given = job("c.json", mask=mask, compose="mean")
    given["bands"] = [{"source": "s2", "band": "B8A", "name": "nir"}, {"source": "s2", "band": "B04"}]
    plan = plan_of(given, tmp_path)
    assert [b.name for b in plan.bands] == ["nir", "B04"] and [b.type for b in plan.bands] == ["float32"] * 2
    assert [s.name for s in plan.sources] == ["s2.B8A", "s2.B04"]
    reader = BlockReader(plan, threads=1)
    block = reader.read(0)
    window = plan.blocks.window(0)
    reader.close()
    for band, key, size in ((0, "B8A", 20), (1, "B04", 10)):
        total, count = np.zeros((40, 170)), np.zeros((40, 170))
        for n in range(5):
            with rasterio.open(tmp_path / "data" / f"{n}_{key}.tif") as file:
                values = file.read(1).repeat(size // 10, 0).repeat(size // 10, 1).astype(float)
                nodata = file.nodata
            with rasterio.open(tmp_path / "data" / f"{n}_SCL.tif") as file:
                scl = file.read(1).repeat(2, 0).repeat(2, 1)
            good = np.isin(scl, [4, 5, 6]) & (values != (-1 if nodata is None else nodata))
            at = slice(30 * n, 30 * n + 50)
            total[:, at] += np.where(good, values, 0)
            count[:, at] += good
        expected = (total / np.maximum(count, 1)).astype("float32")
        part = (
            slice(window.row_off, window.row_off + window.height),
            slice(window.col_off, window.col_off + window.width),
        )
        np.testing.assert_array_equal(block.bands[band].values, expected[part])


def test_masks_of_bits_and_of_a_band_of_the_file(tmp_path):
    random = np.random.default_rng(0)
    values = random.integers(1, 99, (2, 40, 50)).astype("uint16")
    values[1] = random.integers(0, 64, (40, 50))
    path = stac_items.write_asset(tmp_path / "a.tif", values, 0)
    with rasterio.open(path, "r+") as file:
        file.descriptions = ("red", "QA_PIXEL")
    for mask, good in (
        ({"band": "QA_PIXEL", "bits": [1, 3, 4]}, values[1] & 0b11010 == 0),
        ({"band": 2, "drop": [0, 7]}, ~np.isin(values[1], [0, 7])),
    ):
        given = job("a.tif", mask=mask)
        given["bands"] = ["red"]
        given["grid"] = {}
        (got,) = pixels(plan_of(given, tmp_path))
        expected = np.where(good, values[0], 0).reshape(4, 10, 5, 10)
        np.testing.assert_array_equal(np.sort(got), np.sort(expected.ravel()))
    for mask, text in (
        ({"band": "QA", "bits": [1]}, r"mask\.band: 'QA' is not a band of .*it has red, QA_PIXEL"),
        ({"band": 2, "bits": [16]}, r"mask\.bits: 16 is beyond the 16 bits"),
        ({"band": 2, "bits": [1], "keep": [1]}, r"mask: give one of keep.*there are keep, bits"),
        ({"band": 3, "bits": [1]}, r"mask\.band: 3 asked for"),
    ):
        with pytest.raises(SourceError, match=text):
            plan_of({**job("a.tif", mask=mask), "grid": {}}, tmp_path)


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"datetime": "2024-05-01/2024-07-15"}, [1, 2, 3]),
        ({"datetime": "../2024-05-15"}, [0, 1]),
        ({"datetime": "2024-08-15"}, [4]),
        ({"cloudCover": {"max": 20}}, [0, 1, 2]),
        ({"filter": {"tile": "odd"}}, [1, 3]),
        ({"filter": {"tile": ["odd", "even"], "eo:cloud_cover": {"min": 25}}}, [3, 4]),
        ({"sortBy": "-eo:cloud_cover"}, [4, 3, 2, 1, 0]),
    ],
)
def test_filters(tmp_path, filters, kept):
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    assert paths(plan_of(job("c.json", assets="B04", **filters), tmp_path)) == [f"{n}_B04.tif" for n in kept]


def test_times_of_plain_files(tmp_path, noise):
    for day in ("20240101", "20240201", "20240301"):
        stac_items.write_asset(tmp_path / "t" / f"a_{day}.tif", noise(40, 50), 0)
    plan = plan_of(job("t/*.tif", time="%Y%m%d", datetime="2024-02-01/.."), tmp_path)
    assert paths(plan) == ["a_20240201.tif", "a_20240301.tif"]


def test_a_series_of_items(tmp_path):
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    given = job("c.json", assets="B04", series=True)
    given["formatOptions"]["tensorDepths"] = {"B04": 5}
    plan = plan_of(given, tmp_path)
    assert plan.sources[0].times == tuple(f"2024-0{n + 4}-15T10:00:00+00:00" for n in range(5))
    assert plan.steps(plan.bands[0]) == 5


class _Api(BaseHTTPRequestHandler):
    items: ClassVar[list[dict]] = []
    asked: ClassVar[list[dict]] = []

    def do_GET(self):
        url = f"http://{self.headers['Host']}"
        document = {
            "type": "Catalog", "stac_version": "1.0.0", "id": "api", "description": "d",
            "conformsTo": ["https://api.stacspec.org/v1.0.0/core", "https://api.stacspec.org/v1.0.0/item-search"],
            "links": [
                {"rel": "search", "href": f"{url}/search", "type": "application/geo+json", "method": "POST"},
                {"rel": "self", "href": url}, {"rel": "root", "href": url},
            ],
        }  # fmt: skip
        self.answer(document)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(asked)
        start = asked.get("token", 0)
        links = []
        if start + 2 < len(self.items):
            links = [{
                "rel": "next", "href": f"http://{self.headers['Host']}/search", "method": "POST",
                "body": {**asked, "token": start + 2}, "type": "application/geo+json",
            }]  # fmt: skip
        self.answer({"type": "FeatureCollection", "features": self.items[start : start + 2], "links": links})

    def answer(self, document):
        text = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def api():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Api)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _Api.items, _Api.asked = [], []
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_search_of_an_api(tmp_path, api):
    pytest.importorskip("pystac_client")
    _Api.items = make(tmp_path, hrefs="s3://none/")[::-1]
    for one in _Api.items:
        for told in one["assets"].values():
            told["href"] = str(tmp_path / "data" / Path(told["href"]).name)
            told["href"] = "https://h/" + told["href"]
    plan = plan_of(job(api, stacApi=True, collections="scenes", assets="B04", cloudCover={"max": 35},
                       datetime="2024-01-01/2024-12-31"), tmp_path)  # fmt: skip
    assert paths(plan) == ["0_B04.tif", "1_B04.tif", "2_B04.tif", "3_B04.tif"]
    first = _Api.asked[0]
    assert first["collections"] == ["scenes"] and len(_Api.asked) == 3
    np.testing.assert_allclose(first["bbox"], [15, 45.15, 15.02, 45.16], atol=0.02)
    _Api.items = []
    with pytest.raises(SourceError, match=r"sources\.s2: http.* finds no scene in the region: coll"):
        plan_of(job(api, stacApi=True, collections="scenes", assets="B04"), tmp_path)
    with pytest.raises(JobError, match=r"collections: is missing"):
        plan_of(job(api, stacApi=True, assets="B04"), tmp_path)
