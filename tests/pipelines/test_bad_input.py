"""Every bad value of a job: refused before work starts, in one line with key, value and remedy."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from refusals import GONE, Place, assert_refused, changed, command

NAN, INF = math.nan, math.inf
BOX = [500_000, 5_299_000, 501_200, 5_300_000]
TRANSFORM = [10, 0, 500_000, 0, -10, 5_300_000]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("bad"))


def source(**keys: Any) -> dict[str, Any]:
    return {"sources": {"s": {"path": "scene.tif", **keys}}}


def bands(*specs: Any) -> dict[str, Any]:
    return {"bands": list(specs)}


def grid(**keys: Any) -> dict[str, Any]:
    return {"grid": keys}


Case = tuple[dict[str, Any], tuple[str, ...]]

SOURCES: list[Case] = [
    ({"sources": "none.tif"}, ("sources.image: ", "none.tif does not exist", "job file's folder")),
    ({"sources": "folder"}, ("sources.image.path: the folder ", "folder holds no raster")),
    ({"sources": "file"}, ("sources.image: ", "file is not a raster", "convert it")),
    ({"sources": "x*.tif"}, ("sources.image.path: no file matches ", "x*.tif", "check the folder")),
    ({"sources": ["scene.tif", "scene.tif"]}, ("sources.image.path: ", "stands twice", "once")),
    ({"sources": ["scene.tif", "other.tif"]}, ("sources.image", "other.tif", "band")),
    ({"sources": []}, ("sources.image.path: [] has 0 entries; give at least 1",)),
    ({"sources": {}}, ("sources: {} has 0 entries; give at least 1",)),
    ({"sources": None}, ("sources: null is not a map",)),
    ({"sources": 5}, ("sources: 5 is not a map",)),
    ({"sources": GONE}, ("sources: this key is missing",)),
    ({"sources": ""}, ('sources.image.path[0]: ""', "one character or more")),
    ({"sources": "a\0b.tif"}, ("sources.image.path[0]: ", "NUL", "take it out")),
    ({"sources": {"s": None}}, ("sources.s: null is not a map",)),
    ({"sources": {"s": {}}}, ("sources.s.path: this key is missing",)),
    ({"sources": {"s": {"path": 5}}}, ("sources.s.path: 5 is not",)),
    ({"sources": {"s": {"path": [5]}}}, ("sources.s.path[0]: 5 is not text; put it in quotes",)),
    ({"sources": {1: "scene.tif"}}, ("sources: the key 1 is not text", "quotes")),
    ({"sources": {"": "scene.tif"}}, ("sources", '""', "one character or more")),
    (source(pth=1), ("sources.s.pth: unknown key; known are ", "did you mean 'path'?")),
    (source(resampling="bilinearr"), ('sources.s.resampling: "bilinearr" is not ', "'bilinear'?")),
    (source(compose="firts"), ('sources.s.compose: "firts" is not first, last, min', "'first'?")),
    (source(maskedObservations="keep"), ('maskedObservations: "keep" is not drop or fill',)),
    (source(nodata="0"), ('sources.s.nodata: "0" is not a number',)),
    (source(nodata=True), ("sources.s.nodata: true is not a number",)),
    (source(nodata=-1), ("sources.s.nodata: -1 is no number that the files' type uint16 holds", "give")),
    (source(nodata=0.5), ("sources.s.nodata: 0.5 is no number", "uint16", "leave nodata out")),
    (source(nodata=INF), ("sources.s.nodata: inf is no number", "uint16")),
    (source(crs="EPSG:99999999"), ("sources.s.crs: 'EPSG:99999999' is not a CRS", "give an EPSG:n")),
    (source(crs=32633), ("sources.s.crs: 32633 is not text; put it in quotes",)),
    (source(unscale="yes"), ('sources.s.unscale: "yes" is not true or false',)),
    (source(series=True), ("sources.s: ", "scene.tif has no date tag", "time:")),
    (source(series=True, time="%Q"), ("sources.s.time: %Q", "use %Y")),
    (source(series=True, time="x_%Y"), ("sources.s.time: 'x_%Y' is not found", "write it as")),
]

BANDS: list[Case] = [
    (bands({"band": "gren"}), ("bands[0].band: 'gren' is not a band of ", "'green'?", "red, green, nir")),
    (bands("gren"), ("bands[0].band: 'gren'", "'green'?")),
    (bands({"band": 4}), ("bands[0].band: 4 ", "has bands 1 to 3")),
    (bands({"band": 0}), ("bands[0].band: 0 ", "has bands 1 to 3")),
    (bands({"band": -1}), ("bands[0].band: -1 ", "has bands 1 to 3")),
    (bands({"band": 1.5}), ("bands[0].band: 1.5 is not a whole number or text or a list",)),
    (bands({"band": True}), ("bands[0].band: true is not a whole number",)),
    (bands({"band": [1.5]}), ("bands[0].band[0]: 1.5 is not a whole number",)),
    (bands({"band": [1, 9]}), ("bands[0].band: 9 ", "has bands 1 to 3")),
    (bands({"band": []}), ("bands[0].band: an empty list", "name the bands")),
    (bands({"band": [1, 2], "name": "a"}), ("formatOptions.tensorDepths", "missing: a", "{a: 12}")),
    (bands({"band": {"a": 1}}), ('bands[0].band: {"a": 1} is not',)),
    (bands({"band": 10**30}), ("bands[0].band: 1000", "has bands 1 to 3")),
    (bands(None), ("bands[0]: null is not a map",)),
    (bands(), ("bands: [] has 0 entries; give at least 1",)),
    ({"bands": "red"}, ('bands: "red" is not a list',)),
    (bands({"band": 1, "name": "a"}, {"band": 2, "name": "a"}), ("bands: 2 bands are named 'a'", "name:")),
    (bands({"band": 1}, {"band": 1}), ("bands: 2 bands are named 'image_red'", "name:")),
    (bands({"band": 1, "name": ""}), ('bands[0].name: ""', "one character or more")),
    (bands({"band": 1, "name": 5}), ("bands[0].name: 5 is not text; put it in quotes",)),
    (bands({"band": 1, "source": "imagee"}), ("bands[0].source: 'imagee' is not a source", "'image'?")),
    (bands({"band": 1, "type": "uint61"}), ('bands[0].type: "uint61" is not uint8', "'uint64'?")),
    (bands({"band": 1, "type": "complex64"}), ('bands[0].type: "complex64" is not uint8',)),
    (bands({"bnad": 1}), ("bands[0].bnad: unknown key; known are ", "'band'?")),
    (
        {"sources": {"a": "scene.tif", "b": "other.tif"}, "bands": [{"band": 1}]},
        ("bands[0].source: is missing", "name one of a, b"),
    ),
    ({"maskBand": "red"}, ("maskBand: 'red' is the name of a band", "choose")),
    ({"maskBand": ""}, ('maskBand: ""', "one character or more")),
    ({"maskBand": False}, ("maskBand: false is not text; put it in quotes", "yes, no, on and off")),
]

GRIDS: list[Case] = [
    (grid(scale=10, crsTransform=TRANSFORM, region=BOX), ("grid.scale and grid.crsTransform", "keep one")),
    (grid(scale=10, dimensions=[9, 9], region=BOX), ("grid.scale and grid.dimensions", "keep")),
    (
        grid(crsTransform=TRANSFORM, dimensions=[9, 9], region=BOX),
        ("grid.region and grid.dimensions", "keep one"),
    ),
    (grid(crsTransform=TRANSFORM), ("grid.crsTransform: gives no extent", "add grid.region")),
    (grid(dimensions=[9, 9]), ("grid.dimensions: gives no place", "add grid.region")),
    (grid(regionCrs="EPSG:4326"), ("grid.regionCrs and grid.region", "add grid.region")),
    (grid(clip=True), ("grid.clip and grid.region", "add grid.region")),
    (grid(crs="EPSG:4326"), ("grid.crs: 'EPSG:4326'", "add grid.scale")),
    (grid(crs="EPSG:999999", scale=10), ("grid.crs: 'EPSG:999999' is not a coordinate", "EPSG:32633")),
    (grid(crs="EPSG:5773", scale=10), ("grid.crs: 'EPSG:5773' is neither geographic nor projected",)),
    (grid(crs=32633, scale=10), ("grid.crs: 32633 is not text; put it in quotes",)),
    (grid(scale=0), ("grid.scale: 0.0 must be greater than 0",)),
    (grid(scale=-1), ("grid.scale: -1.0 must be greater than 0",)),
    (grid(scale="10"), ('grid.scale: "10" is not a number',)),
    (grid(scale=NAN), ("grid.scale: nan is not a finite number",)),
    (grid(scale=10**400), ("grid.scale: 1000", "is not a number")),
    (grid(scale=1e-300), ("grid.scale", "more than 2147483647 a side", "give larger pixels")),
    (grid(scale=1e300), ("grid.scale", "0 × 0 pixels", "give a larger region or smaller pixels")),
    (grid(crsTransform=[1, 2, 3], region=BOX), ("grid.crsTransform: [1, 2, 3] has 3 entries; give",)),
    (grid(crsTransform=[1, 1, 0, 1, 1, 0], region=BOX), ("grid.crsTransform: [1.0, ", "singular", "give")),
    (grid(crsTransform=[10, 0, 5e5, 0, NAN, 0], region=BOX), ("grid.crsTransform[4]: nan is not",)),
    (grid(crsTransform=["a", *TRANSFORM[1:]], region=BOX), ('grid.crsTransform[0]: "a" is not a number',)),
    (grid(crsTransform=5, region=BOX), ("grid.crsTransform: 5 is not a list",)),
    (grid(crsTransform=TRANSFORM, dimensions=[0, 9]), ("grid.dimensions: 0 is not", "greater than 0")),
    (grid(crsTransform=TRANSFORM, dimensions=[9.5, 9]), ("grid.dimensions[0]: 9.5 is not a whole",)),
    (grid(crsTransform=TRANSFORM, dimensions=2**40), ("grid.dimensions: ", "more than 2147483647 a side")),
    (grid(region=[0, 0, 1000, 1000]), ("grid.region: no source covers", "[0.0, 0.0, 1000.0", "check")),
    (grid(region=[9, 9, 0, 0]), ("grid.region: [9.0, 9.0, 0.0, 0.0] has no area", "needs xmin < xmax")),
    (grid(region=[1, 2, 3]), ("grid.region: '[1, 2, 3]' is neither", "[xmin, ymin, xmax, ymax]")),
    (grid(region=[1, 2, 3, NAN]), ("grid.region[3]: nan is not finite; give",)),
    (grid(region=[1, 2, 3, 10**400]), ("grid.region[3]: a number of ", "digits", "give one")),
    (grid(region=["a", 2, 3, 4]), ("grid.region[0]: 'a' is not a number",)),
    (grid(region={"type": "Polgon"}), ("grid.region.type: 'Polgon'", "'Polygon'?")),
    (grid(region={}), ("grid.region.type: None", "give one of Point")),
    (grid(region={"type": "Point", "coordinates": [5e5, 5e6]}), ("grid.region: (500000, ", "regionCrs")),
    (grid(region=True), ("grid.region: 'True' is neither",)),
    (grid(region="none.geojson"), ("grid.region: ", "none.geojson: cannot read", "give a GeoJSON file")),
    (grid(region="folder"), ("grid.region: ", "folder: cannot read", "give a GeoJSON file")),
    (grid(region="file"), ("grid.region: ", "file is not GeoJSON: Expecting value: line 1", "ogr2ogr")),
    (grid(region="scene.tif"), ("grid.region: ", "scene.tif is not GeoJSON", "ogr2ogr")),
    (grid(region=BOX, regionCrs="EPSG:9999999"), ("grid.regionCrs: 'EPSG:9999999'", "EPSG:32633")),
    (grid(scael=10), ("grid.scael: unknown key; known are ", "'scale'?")),
    ({"grid": [1]}, ("grid: [1] is not a map",)),
    ({"grid": None}, ("grid: null is not a map",)),
    (
        grid(scale=0.01, region=[500_000, 5_200_000, 600_000, 5_300_000]),
        ("output: ", " free", "at least", "free some space"),
    ),
]

OUTPUTS: list[Case] = [
    ({"output": GONE}, ("output: this key is missing",)),
    ({"output": ""}, ('output: ""', "one character or more")),
    ({"output": 5}, ("output: 5 is not text; put it in quotes",)),
    ({"output": "out/"}, ("output: 'out/' names a folder", "for instance out/scene")),
    ({"output": ".."}, ("output: '..' names a folder", "for instance ../scene")),
    ({"output": "gs://bucket"}, ("output: 'gs://bucket' names a folder", "gs://bucket/scene")),
    ({"output": "file/scene"}, ("output: ", "is a file, not a folder", "choose another output")),
    ({"output": "s3://bucket/x"}, ("output: s3://bucket/x: s3:// is not a place", "give a local path")),
    ({"output": "a\0b"}, ("output: ", "NUL", "take it out")),
    ({"output": "out/" + "x" * 240}, ("output: ", "File name too long", "choose another output")),
    ({"output": "y" * 300 + "/x"}, ("output: ", "File name too long")),
]

OTHERS: list[Case] = [
    ({"source": "x"}, ("source: unknown key; known are ", "'sources'?")),
    ({"formatOption": {}}, ("formatOption: unknown key; known are ", "'formatOptions'?")),
    ({"edge": "dorp"}, ('edge: "dorp" is not drop or pad', "'drop'?")),
    ({"edge": None}, ("edge: null is not drop or pad",)),
    ({"numbers": "int"}, ('numbers: "int" is not float or native',)),
    ({"gzip": "zlib"}, ('gzip: "zlib" is not indexed or zlib6', "'zlib6'?")),
    ({"naming": 1}, ("naming: 1 is not drive or gcs",)),
    ({"strict": "x"}, ('strict: "x" is not true or false',)),
    ({"blockBytes": 0}, ("blockBytes: 0 is too small; give 65536 or more",)),
    ({"blockBytes": 65536.0}, ("blockBytes: 65536.0 is not a whole number",)),
    ({"blockBytes": "64MB"}, ('blockBytes: "64MB" is not a whole number',)),
    ({"blockBytes": 10**400}, ("blockBytes: 1000", "too large; give ")),
    ({"job": GONE}, ("job: this key is missing; give one of export-image",)),
    ({"job": "export_image"}, ("job: 'export_image' is not known", "'export-image'?")),
    ({"job": 5}, ("job: 5 is not known",)),
]


@pytest.mark.parametrize(
    ("change", "fragments"), [*SOURCES, *BANDS, *GRIDS, *OUTPUTS, *OTHERS], ids=lambda v: repr(v)[:60]
)
def test_refused(place: Place, change: dict[str, Any], fragments: tuple[str, ...]) -> None:
    place.refused(changed(change), *fragments)


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("[1, 2]", ("geo.json: GeoJSON: '[1, 2]' is neither",)),
        ('{"type": "Feature"}', ("geo.json: GeoJSON", "holds no geometry")),
        ('{"type": "Point", "coordinates": [NaN, 1]}', ("coordinates[0]", "nan is not finite")),
        ("[" * 100_000, ("geo.json is not GeoJSON", "recursion")),
    ],
    ids=["list", "empty", "nan", "deep"],
)
def test_region_files(place: Place, text: str, fragments: tuple[str, ...]) -> None:
    (place.folder / "geo.json").write_text(text)
    place.refused(changed(grid(region="geo.json")), "grid.region: ", *fragments)


def test_all_errors_of_a_job_file_are_said_at_once(place: Place) -> None:
    job = changed({"edge": "dorp", "numbers": 3, "sources": {"s": {"path": "x.tif", "nodata": "0"}}})
    message = place.refused(job, 'edge: "dorp"', "numbers: 3", 'sources.s.nodata: "0"')
    assert "job.yaml: 3 errors:\n" in message


def test_output_that_exists(place: Place, tmp_path: Path) -> None:
    here = Place(tmp_path)
    assert here.export(changed({})).status == 0
    names = "scene-00000.tfrecord.gz"
    here.refused(changed({}), "output: 4 files of an earlier export stand at ", names, "--overwrite")
    # a longer name is another export, and so is a shorter one
    assert here.export(changed({"output": "out/scene2"})).status == 0
    assert here.export(changed({"output": "out/scen"})).status == 0


def test_too_little_free_space(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbeam.storage.free_bytes", lambda folder: 1000)
    place.refused(changed({}), "output: ", "has 1000 B free", "at least", "free some space")


def test_output_folder_without_permission(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("patchbeam.storage.local.open", refuse, raising=False)
    # the job file has to be read: only the probe is refused
    monkeypatch.setattr("pipelines.jobfile.load.read_bytes", lambda path: Path(path).read_bytes())
    place.refused(changed({}), "output: ", "Permission denied", "choose another output")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_output_folder(place: Place) -> None:
    folder = place.folder / "read-only"
    folder.mkdir(mode=0o500)
    place.refused(changed({"output": "read-only/scene"}), "output: ", "Permission denied", "choose another")


def test_plan_refuses_the_same(place: Place) -> None:
    path = place.write(changed({"sources": "none.tif"}))
    assert_refused(command("plan", str(path)), "sources.image: ", "none.tif does not exist")
