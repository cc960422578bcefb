"""Many scenes, labels and masks from job files to records, and verified against the sources again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from exports import floats, parsed, run_eagerly, run_job
from rasterio.features import rasterize
from shared import shared_data
from stac_items import LEFT, TOP, asset, collection_of, item, make, write_json

from patchbeam.verify import verify

OPTIONS = {"patchDimensions": [20, 20], "defaultValue": 0}


def fields(folder: Path) -> list[tuple[Any, int]]:
    """Two overlapping fields over the scenes."""
    shapes = [
        shapely.box(LEFT + 35, TOP - 300, LEFT + 700, TOP - 22),
        shapely.Point(LEFT + 800, TOP - 200).buffer(150),
    ]
    crop = np.array([3, 9])
    pyogrio.raw.write(
        folder / "fields.gpkg",
        shapely.to_wkb(shapes),
        [crop],
        ["crop"],
        geometry_type="Polygon",
        crs="EPSG:32633",
    )
    return list(zip(shapes, crop.tolist(), strict=True))


def job(**more: Any) -> dict[str, Any]:
    return {
        "sources": {
            "s2": {"path": "c.json", "compose": "median", "mask": {"band": "SCL", "keep": [4, 5, 6, 7]}},
            "crops": {"vector": "fields.gpkg", "attribute": "crop", "background": "masked"},
        },
        "bands": [
            {"source": "s2", "band": "B04", "name": "red"},
            {"source": "s2", "band": "B8A", "name": "nir"},
            {"source": "crops", "name": "landcover"},
        ],
        "formatOptions": OPTIONS,
        "maskBand": "valid",
        **more,
    }


def median_of(folder: Path, key: str) -> tuple[np.ndarray, np.ndarray]:
    size = 1 if key == "B04" else 2
    stack = np.full((5, 40, 170), np.nan)
    for n in range(5):
        with rasterio.open(folder / "data" / f"{n}_{key}.tif") as file:
            values = file.read(1, masked=True).astype(float).filled(np.nan).repeat(size, 0).repeat(size, 1)
        with rasterio.open(folder / "data" / f"{n}_SCL.tif") as file:
            values[~np.isin(file.read(1), [4, 5, 6, 7]).repeat(2, 0).repeat(2, 1)] = np.nan
        stack[n, :, 30 * n : 30 * n + 50] = values
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        middle = np.nanmedian(stack, axis=0)
    return np.nan_to_num(middle), ~np.isnan(middle)


@pytest.mark.parametrize("beam", [False, True])
def test_an_export(tmp_path: Path, beam: bool) -> None:
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    shapes = fields(tmp_path)
    export = (run_job if beam else run_eagerly)(tmp_path, job())
    records = parsed(export, floats((20, 20), "red", "nir", "landcover", "valid"))
    red, good = median_of(tmp_path, "B04")
    nir, fine = median_of(tmp_path, "B8A")
    with rasterio.open(tmp_path / "data" / "0_B04.tif") as file:
        transform = file.transform
    crops = rasterize(shapes, out_shape=(40, 170), transform=transform)
    for number, place in enumerate(export.places()):
        row, col = int(place.row_off), int(place.col_off)
        at = slice(row, row + 20), slice(col, col + 20)
        np.testing.assert_array_equal(records["red"][number], red[at].astype("float32"))
        np.testing.assert_array_equal(records["nir"][number], nir[at].astype("float32"))
        np.testing.assert_array_equal(records["landcover"][number], crops[at])
        np.testing.assert_array_equal(records["valid"][number], (good & fine & (crops != 0))[at])
    names = [source.name for source in export.manifest.sources]
    assert names == ["s2.B04", "s2.B8A", "crops"]
    report = verify(str(export.prefix), threads=2, sources=8)
    assert not report.findings, report.findings
    # and it does look: another class in the quality bands is found
    for path in (tmp_path / "data").glob("*_SCL.tif"):
        with rasterio.open(path, "r+") as file:
            file.write(np.zeros_like(file.read()))
    assert verify(str(export.prefix), threads=2, sources=8).findings


def test_what_the_catalogue_told_is_verified(tmp_path: Path) -> None:
    """Nodata, scale and offset of an item are in the manifest."""
    items = make(tmp_path)
    for one in items:
        one["assets"]["B04"]["raster:bands"] = [
            {"data_type": "uint16", "nodata": 7, "scale": 0.5, "offset": 2}
        ]
    write_json(tmp_path / "c.json", collection_of(items))
    source = {"path": "c.json", "assets": "B04", "unscale": True}
    export = run_eagerly(tmp_path, {"sources": {"s": source}, "formatOptions": OPTIONS})
    assert export.manifest.sources[0].files[0].nodata == (7,)
    assert not verify(str(export.prefix), threads=1, sources=8).findings


def real(*parts: str) -> Path:
    data = shared_data()
    path = None if data is None else data.joinpath("rasters", *parts)
    if path is None or not path.exists():
        pytest.skip("no real data")
    return path


@pytest.mark.parametrize("compose", ["median", "mean", "count", "max"])
def test_a_real_stack(tmp_path: Path, compose: str) -> None:
    """Twelve dates of MODIS NDVI in JPEG 2000, against NumPy."""
    folder = real("sits", "mod13q1")
    source = {"path": f"{folder}/*.jp2", "compose": compose, "nodata": -3000}
    options = {"patchDimensions": [64, 64]}
    export = run_eagerly(tmp_path, {"sources": {"ndvi": source}, "formatOptions": options})
    stack = []
    for path in sorted(folder.glob("*.jp2")):
        with rasterio.open(path) as file:
            stack.append(file.read(1))
    stack = np.ma.masked_equal(np.stack(stack), -3000)
    function = {"median": np.ma.median, "mean": np.ma.mean, "max": np.ma.max, "count": np.ma.count}[compose]
    expected = np.ma.filled(function(stack.astype("float64") if compose != "max" else stack, axis=0), 0)
    (name,) = [band.name for band in export.manifest.bands]
    records = parsed(export, floats((64, 64), name))[name]
    for number, place in enumerate(export.places()):
        row, col = int(place.row_off), int(place.col_off)
        np.testing.assert_array_equal(
            records[number], expected[row : row + 64, col : col + 64].astype("float32")
        )


def test_a_real_series_by_date(tmp_path: Path) -> None:
    folder = real("sits", "mod13q1")
    source = {
        "path": f"{folder}/*.jp2",
        "series": True,
        "time": "NDVI_%Y-%m-%d",
        "datetime": "2014-01-01/2014-06-30",
    }
    export = run_eagerly(
        tmp_path,
        {"sources": {"ndvi": source}, "formatOptions": {"patchDimensions": 32, "tensorDepths": {"B1": 6}}},
    )
    assert [time[:10] for time in export.manifest.bands[0].times] == [
        "2014-01-17", "2014-02-18", "2014-03-22", "2014-04-23", "2014-05-25", "2014-06-26",
    ]  # fmt: skip


def test_real_landsat_scenes_of_two_paths(tmp_path: Path) -> None:
    """Dates of overlapping tracks, without fill and cloud as the quality band has them."""
    folder = tmp_path / "data"
    folder.symlink_to(real("gdalcubes", "L8NY18"))
    items = []
    for scene in sorted(folder.iterdir()):
        told = {}
        for path in sorted(scene.glob("*.[tT][iI][fF]*")):
            told[path.stem.rpartition("_")[2]] = asset(path, str(path), complete=False)
        date = scene.name.split("_")[3]
        items.append(item(scene.name, f"{date[:4]}-{date[4:6]}-{date[6:]}T15:00:00Z", told))
    items = [one for one in items if "BQA" in one["assets"]]
    bands = sorted(set.intersection(*(set(one["assets"]) for one in items)) - {"BQA"})
    assert len(items) > 1 and bands
    write_json(tmp_path / "c.json", collection_of(items))
    source = {
        "path": "c.json",
        "assets": bands[:1],
        "compose": "median",
        "mask": {"band": "BQA", "bits": [0, 4]},
    }
    export = run_eagerly(tmp_path, {"sources": {"l8": source}, "formatOptions": {"patchDimensions": 32}})
    assert export.manifest.patches.written > 0
    assert export.manifest.bands[0].statistics.valid_count > 0
    assert not verify(str(export.prefix), threads=2, sources=3).findings


ASSETS = {
    ("raster-vision", "stac", "item_collection.json"): ("blue", True),
    ("raster-vision", "stac", "item.json"): ("nir", True),
    ("rio-tiler", "stac.json"): ("red", False),
}


@pytest.mark.parametrize("parts", ASSETS)
def test_real_items(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """Items as providers write them; files stand in for what they refer to, where these are not at hand."""
    document = json.loads(real(*parts).read_text())
    name, remote = ASSETS[parts]
    items = document["features"] if document["type"] == "FeatureCollection" else [document]
    for one in items:
        told = one["assets"][name]
        local = tmp_path / "data" / f"{one['id']}.tif"
        local.parent.mkdir(exist_ok=True)
        if not remote:
            local.symlink_to(real(*parts).parent / Path(told["href"]).name)
        else:  # a small file in the place of one of a hundred megapixels
            a, _, c, _, e, f = told["proj:transform"][:6]
            rows, cols = told["proj:shape"]
            with rasterio.open(
                local, "w", driver="GTiff", width=cols // 183, height=rows // 183, count=1, dtype="uint16",
                crs=one["properties"]["proj:epsg"], transform=rasterio.Affine(a * 183, 0, c, 0, e * 183, f),
                nodata=0,
            ) as file:  # fmt: skip
                file.write(np.full((1, rows // 183, cols // 183), 7, "uint16"))
            told["proj:transform"], told["proj:shape"] = (
                [a * 183, 0, c, 0, e * 183, f],
                [rows // 183, cols // 183],
            )
        told["href"] = str(local)
    write_json(tmp_path / "c.json", document)
    source = {"path": "c.json", "assets": name, "compose": "max"}
    options = {"patchDimensions": 20}
    export = run_eagerly(tmp_path, {"sources": {"s": source}, "formatOptions": options})
    assert export.manifest.bands[0].name == name
    assert export.manifest.bands[0].statistics.valid_count > 0
    assert not verify(str(export.prefix), threads=1, sources=3).findings
