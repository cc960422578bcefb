"""What users write: job files, placeholders, regions, catalogues, prices."""

from __future__ import annotations

import json
import os
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import stac_items
import yaml
from eager import write_tif
from fuzzing import Target, changed, damaged, json_text
from odc.geo.crs import CRS
from shared import ROOT

from fuzz_targets.places import folder, put
from patchbeam.errors import JobError
from patchbeam.rasters.catalog import Filters, find_scenes
from patchbeam.rasters.catalog.filters import in_order
from patchbeam.rasters.catalog.open import open_items
from patchbeam.region import parse_region
from pipelines.jobfile.load import load_job
from pipelines.jobfile.placeholders import fill_placeholders
from pipelines.jobfile.yamltext import parse_yaml
from pipelines.plan_text import plan_text
from pipelines.prices import costs, load_prices
from pipelines.resolve import load_plan

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


@cache
def configs() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in CONFIGS if b"job:" in path.read_bytes())


@cache
def trees() -> tuple[Any, ...]:
    return tuple(yaml.safe_load(text) for text in configs())


def job(chance: random.Random) -> bytes:
    if chance.random() < 0.4:
        return damaged(chance, chance.choice(configs()), configs())
    return json_text(chance, chance.choice(trees()))


def read_job(data: bytes) -> None:
    load_job(put("jobs", "job.yaml", data))


_YAML = [
    "&a",
    "*a",
    "<<:",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    "!!python/object:os.system",
    "!!binary",
    "|",
    ">",
    "'",
]
_YAML += [
    '"',
    "#",
    "\n",
    "\n  ",
    "---\n",
    "?",
    "!",
    "%",
    "@",
    "`",
    "a",
    "1",
    "1e3",
    "0x1f",
    "~",
    "\t",
    "é",
    "...\n",
]


def text(chance: random.Random) -> str:
    return "".join(chance.choices(_YAML, k=chance.randrange(30)))


def read_text(data: str) -> None:
    parse_yaml(data, "x.yaml")


EXPORT = {
    "job": "export-image",
    "sources": {"s2": {"path": "scene.tif", "compose": "first", "nodata": 0}, "dem": {"path": ["scene.tif"]}},
    "bands": [
        {"name": "red", "source": "s2", "band": 1, "type": "uint16"},
        {"source": "s2", "band": "green"},
    ],
    "grid": {"crs": "EPSG:32633", "scale": 10.0, "region": [500100, 5299100, 501000, 5299900]},
    "formatOptions": {"patchDimensions": [8, 8], "kernelSize": [3, 3], "maxFileSize": 1000000},
    "split": {"train": 0.5, "test": 0.5, "block": [3, 3], "seed": 1},
    "keep": {"band": "red", "classes": [1, 2], "minimum": 0.1},
    "edge": "drop",
    "output": "out/scene",
}


@cache
def scene() -> Path:
    values = np.random.default_rng(1).integers(1, 4000, (3, 100, 120)).astype(np.uint16)
    return write_tif(folder("plans") / "scene.tif", values, names=["red", "green", "nir"])


def plan_file(chance: random.Random) -> bytes:
    return json_text(chance, EXPORT)


def read_plan(data: bytes) -> None:
    scene()
    plan = load_plan(put("plans", "job.yaml", data))
    json.dumps(plan.to_json(), allow_nan=False)
    assert plan_text(plan)


_PIECES = [
    "{date}",
    "{date:",
    "}",
    "%",
    "%Y",
    "%E",
    "%9999d",
    "%-d",
    "%\0",
    "\ud800",
    "${",
    "$${",
    "HOME}",
    "{",
    "a",
]
_PIECES += ["{date:%s}", "{date:%}", "${HOME}", "${NO_SUCH}", ":", "é", "\n", "{date:\ud800}", "{date:\0}"]


def placeholders(chance: random.Random) -> Any:
    return {"a": ["".join(chance.choices(_PIECES, k=chance.randrange(6)))]}


def read_placeholders(value: Any) -> None:
    fill_placeholders(value, "job.yaml")


RING = [[15.0, 47.84], [15.01, 47.84], [15.0, 47.85], [15.0, 47.84]]
POLYGON = {"type": "Polygon", "coordinates": [RING]}
REGIONS: list[Any] = [
    [15.0, 47.8, 15.1, 47.9],
    POLYGON,
    {"type": "MultiPolygon", "coordinates": [[RING], [RING]]},
    {"type": "LineString", "coordinates": RING},
    {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "EPSG:4326"}},
        "features": [{"type": "Feature", "properties": {}, "geometry": POLYGON}],
    },
    {"type": "GeometryCollection", "geometries": [{"type": "Point", "coordinates": [15, 47.8]}, POLYGON]},
]
DEGREES, METRES = CRS("EPSG:4326"), CRS("EPSG:32633")


def region(chance: random.Random) -> Any:
    return changed(chance, chance.choice(REGIONS))


def read_region(value: Any) -> None:
    read = parse_region(value)
    geometry = read.in_crs(read.crs or DEGREES, METRES)
    assert len(geometry.bounds) == 4


@cache
def items() -> tuple[Any, ...]:
    place = folder("stac")
    made = stac_items.make(place, complete=True)
    index = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": {"location": "data/a.tif"}, "geometry": None}],
    }
    whole = {"type": "FeatureCollection", "features": made}
    catalogue = {**stac_items.collection_of(made), "links": [{"rel": "item", "href": "item.json"}]}
    (place / "item.json").write_text(json.dumps(made[0]))
    return (*made, whole, catalogue, index)


def catalogue(chance: random.Random) -> bytes:
    return json_text(chance, chance.choice(items()))


def read_catalogue(data: bytes) -> None:
    if b"http" in data or b"/vsi" in data:
        raise JobError("nothing is fetched here")
    found = find_scenes([(put("stac", "scenes.json", data), "sources.s2.path")], "sources.s2")
    chosen = Filters(datetime="2000-01-01/2100-01-01", properties={"eo:cloud_cover": {"max": 100}})
    if not found.items:
        raise JobError("a catalogue without items is refused by who asks for them")
    some = chosen.choose(found.items, "sources.s2")
    ordered = in_order(some, None, "sources.s2")
    for source in open_items("s2", ordered, assets=sorted(ordered[0].assets)[:1] or ["a"]):
        for file in source.files:
            assert file.grid.shape


PRICES = (ROOT / "patchbeam" / "prices.yaml").read_bytes()


def prices(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return damaged(chance, PRICES)
    tree = yaml.safe_load(PRICES)
    return json_text(chance, {**tree, "as_of" if "as_of" in tree else "asOf": "2026-01-01"})


def read_prices(data: bytes) -> None:
    for cost in costs(load_prices(put("prices", "prices.yaml", data)), 1e4, 1 << 30, 100):
        assert cost.minutes >= 0


os.environ.pop("NO_SUCH", None)

TARGETS = [
    Target(name="job-files", make=job, read=read_job, short=300, long=10_000),
    Target(name="yaml-texts", make=text, read=read_text, short=1500, long=40_000),
    Target(name="plans", make=plan_file, read=read_plan, short=150, long=5_000),
    Target(name="placeholders", make=placeholders, read=read_placeholders, short=1000, long=30_000),
    Target(name="regions", make=region, read=read_region, short=500, long=12_000),
    Target(name="catalogues", make=catalogue, read=read_catalogue, short=400, long=15_000),
    Target(name="prices", make=prices, read=read_prices, short=200, long=5_000),
]
