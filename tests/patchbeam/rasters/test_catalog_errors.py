"""Catalogues that lie, miss scenes or lead astray, and what a block opens of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import stac_items
from catalog_jobs import REGION, job, pixels
from eager import plan_of
from stac_items import collection_of, make, write_json

from patchbeam.errors import JobError, ReadFailed, SourceError
from patchbeam.export import BlockReader
from patchbeam.rasters import handles
from patchbeam.rasters.catalog import item as items_module


def test_what_the_item_says_goes_before_the_file(tmp_path):
    """Nodata, scale and offset of the raster extension, of an opened and of an assumed header."""
    path = stac_items.write_asset(
        tmp_path / "data" / "a.tif", np.array([[1, 2], [3, 4]] * 2, "uint16").repeat(5, 1), 0
    )
    for complete in (True, False):
        told = stac_items.asset(path, "data/a.tif", complete=complete, nodata=3, scale=0.5, offset=1)
        write_json(tmp_path / "i.json", stac_items.item("a", "2024-01-01T00:00:00Z", {"B04": told}))
        given = job("i.json", unscale=True)
        given |= {"grid": {}, "formatOptions": {"patchDimensions": [10, 4], "defaultValue": -1}}
        (got,) = pixels(plan_of(given, tmp_path))
        np.testing.assert_array_equal(got.reshape(4, 10)[:2, ::5], [[1.5, 2], [-1, 3]])


def test_an_item_that_lies(tmp_path):
    items = make(tmp_path)
    items[0]["assets"]["B04"]["proj:shape"] = [40, 51]
    write_json(tmp_path / "c.json", collection_of(items))
    with pytest.raises(ReadFailed, match=r"0_B04\.tif: the catalogue says that its size is \(51, 40\), and"):
        pixels(plan_of(job("c.json", assets="B04"), tmp_path))


@pytest.mark.parametrize("lost", ["2_B04.tif", "2_SCL.tif"])
def test_a_scene_that_is_not_there(tmp_path, lost):
    """Said with its name; or masked, when the job wants it, the scene of a lost quality band too."""
    items = make(tmp_path)
    write_json(tmp_path / "c.json", collection_of(items))
    write_json(tmp_path / "less.json", collection_of(items[:2] + items[3:]))
    given = {"assets": "B04", "compose": "mean", "mask": {"band": "SCL", "drop": [3]}}
    (tmp_path / "data" / lost).unlink()
    with pytest.raises(ReadFailed, match=rf"sources\.s2: .*{lost} does not exist"):
        pixels(plan_of(job("c.json", **given), tmp_path))
    (got,) = pixels(plan_of({**job("c.json", **given), "onMissing": "mask"}, tmp_path))
    (expected,) = pixels(plan_of(job("less.json", **given), tmp_path))
    np.testing.assert_array_equal(got, expected)


def test_errors(tmp_path):
    items = make(tmp_path)
    del items[3]["assets"]["B04"]
    write_json(tmp_path / "c.json", collection_of(items))
    write_json(tmp_path / "odd.json", {"type": "Topology"})
    data = items[2]["assets"]["B04"]
    for source, text in (
        ({"path": "c.json", "assets": "B04"}, r"item 's3' has no asset 'B04'.*it has B8A, SCL"),
        ({"path": "c.json"}, r"assets: is missing, and the items of .* have B04, B8A, SCL"),
        (
            {"path": "c.json", "assets": "B8A", "mask": {"band": "SLC", "keep": [4]}},
            r"mask\.band: 'SLC' is not an asset \(did you mean 'SCL'\?\); the items of .*B04, B8A, SCL",
        ),
        ({"path": "odd.json"}, r"odd\.json is JSON of type 'Topology'"),
        ({"path": "c.json", "assets": "B8A", "cloudCover": {"max": -1}}, r"cloudCover: none of 5.*0 to 40"),
        ({"path": "c.json", "assets": "B8A", "filter": {"tiel": 1}}, r"filter\.tiel: .*did you mean 'tile'"),
        ({"path": "c.json", "assets": "B8A", "datetime": "2020-01-01"}, r"datetime: none of 5.*2024-04-15"),
        ({"path": "c.json", "assets": "B8A", "datetime": "May"}, r"datetime: 'May' is no time"),
        ({"path": ["c.json", "data/0_B04.tif"]}, r"is a catalogue and .* a raster"),
        ({"path": "data/0_B04.tif", "assets": "B04"}, r"assets: is for catalogues of items"),
        ({"path": "data/0_B04.tif", "attribute": "a"}, r"attribute: does not go with path"),
    ):  # fmt: skip
        given = job("c.json")
        given["sources"] = {"s2": source}
        with pytest.raises(JobError, match=text):
            plan_of(given, tmp_path)
    items[2]["properties"]["eo:cloud_cover"] = 10**400
    write_json(tmp_path / "huge.json", collection_of(items))
    given = job("c.json")
    given["sources"] = {"s2": {"path": "huge.json", "assets": "B8A", "cloudCover": {"max": -1}}}
    with pytest.raises(JobError, match=r"cloudCover: none of 5.*0 to a number of 1329 bits"):
        plan_of(given, tmp_path)
    given = job("c.json", assets="B8A")
    given["grid"] = {**REGION, "region": [700_000, 4_999_600, 701_700, 5_000_000]}
    with pytest.raises(SourceError, match=r"sources\.s2: no scene in the region: none of 5"):
        plan_of(given, tmp_path)
    data["raster:bands"] = [{"data_type": "float32"}]
    write_json(tmp_path / "c.json", collection_of([items[0], items[2]]))
    with pytest.raises(SourceError, match=r"'B04' is of type uint16 in .*0_B04.* of type float32 in .*2_B04"):
        plan_of(job("c.json", assets="B04"), tmp_path)


@pytest.mark.parametrize(
    ("href", "where", "root", "expected"),
    [
        ("a.tif", "/c/i/x.json", "/c/", "/c/i/a.tif"),
        ("../d/a.tif", "/c/i/x.json", "/c/", "/c/d/a.tif"),
        ("../../a.tif", "/c/i/x.json", "/c/", None),
        ("../a.tif", "/c/x.json", "/c/", None),
        ("/c/d/a.tif", "/c/x.json", "/c/", "/c/d/a.tif"),
        ("/data/a.tif", "/c/x.json", "/c/", None),
        ("/c/../etc/a.tif", "/c/x.json", "/c/", None),
        ("/data/a.tif", "/c/x.gpkg", None, "/data/a.tif"),
        ("file:///c/a%20b.tif", "/c/x.json", "/c/", "/c/a b.tif"),
        ("file:///data/a.tif", "/c/x.json", "/c/", None),
        ("file:///etc/passwd", "x.json", "", None),
        ("/etc/passwd", "x.json", "", None),
        ("NETCDF:/c/a.nc:v", "/c/x.json", "/c/", None),
        ("PG:dbname=a", "https://h/x.gpkg", None, None),
        ("ftp://h/a.tif", "/c/x.json", "/c/", None),
        ("//h/a.tif", "https://h/c/x.json", "https://h/c/", None),
        ("http://[", "/c/x.json", "/c/", None),
        ("s3://b/a.tif", "/c/x.json", "/c/", "s3://b/a.tif"),
        ("../a.tif", "https://h/c/i/x.json", "https://h/c/", "https://h/c/a.tif"),
        ("../../a.tif", "https://h/c/i/x.json", "https://h/c/", None),
        ("file:///etc/a.tif", "https://h/c/x.json", "https://h/c/", None),
        ("../a.tif", "gs://b/c/i/x.json", "gs://b/c/", "gs://b/c/a.tif"),
        ("../../a.tif", "gs://b/c/i/x.json", "gs://b/c/", None),
        ("/vsicurl/http://h/a.tif", "/c/x.json", "/c/", None),
        ("<VRTDataset/>", "/c/x.json", "/c/", None),
        ("../a.tif", "x.json", "", None),
        ("a.tif", "x.json", "", "a.tif"),
    ],
)
def test_references(href, where, root, expected):
    if expected is not None:
        assert items_module.resolve(href, where, root, "k") == expected
        return
    with pytest.raises(SourceError, match="k: href"):
        items_module.resolve(href, where, root, "k")


def test_a_block_opens_only_scenes_that_touch_it(tmp_path, monkeypatch):
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    plan = replace(plan_of(job("c.json", assets="B04", compose="mean"), tmp_path), block_bytes=1)
    opened = []
    own = handles.Handles.get
    spy = lambda self, path, *a: opened.append(path) or own(self, path, *a)  # noqa: E731
    monkeypatch.setattr(handles.Handles, "get", spy)
    reader = BlockReader(plan, threads=1)
    for block in range(plan.blocks.count):
        opened.clear()
        reader.read(block)
        window = plan.blocks.window(block)
        left, right = window.col_off, window.col_off + window.width
        touching = {n for n in range(5) if 30 * n < right and 30 * n + 50 > left}
        assert {int(Path(path).name[0]) for path in opened} == touching
    reader.close()
    assert plan.blocks.count > 3
