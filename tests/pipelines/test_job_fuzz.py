"""Whatever stands in a job file: a plan comes of it, or a ``JobError``, and never another exception."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import Place

from patchbeam.errors import JobError
from pipelines.jobfile.load import apply_override
from pipelines.jobfile.yamltext import parse_yaml
from pipelines.plan_text import plan_text
from pipelines.resolve import load_plan

BOX = [500_100, 5_299_100, 501_000, 5_299_900]
TRIANGLE = {"type": "Polygon", "coordinates": [[[15.0, 47.84], [15.01, 47.84], [15.0, 47.85], [15.0, 47.84]]]}

FULL: dict[str, Any] = {
    "job": "export-image",
    "sources": {
        "s2": {"path": "scene.tif", "compose": "first", "nodata": 0, "resampling": "bilinear"},
        "dem": {"path": ["other.tif"], "unscale": False, "crs": "EPSG:32633"},
    },
    "bands": [
        {"name": "red", "source": "s2", "band": 1, "type": "uint16", "resampling": "nearest"},
        {"source": "s2", "band": "green"},
        {"name": "both", "source": "s2", "band": [1, 2]},
        {"name": "elevation", "source": "dem"},
    ],
    "grid": {"crs": "EPSG:32633", "scale": 10.0, "region": BOX, "regionCrs": "EPSG:32633", "clip": False},
    "formatOptions": {
        "patchDimensions": [32, 32],
        "kernelSize": [3, 3],
        "compressed": True,
        "maxFileSize": 1_000_000,
        "defaultValue": 0,
        "tensorDepths": {"both": 2},
        "sequenceData": False,
        "collapseBands": False,
        "maskedThreshold": 1.0,
    },
    "edge": "drop",
    "numbers": "float",
    "gzip": "indexed",
    "naming": "drive",
    "maskBand": "valid",
    "strict": False,
    "blockBytes": 1 << 20,
    "output": "out/scene",
}

WORDS = [
    "",
    " ",
    ".",
    "..",
    "/",
    "scene.tif",
    "folder",
    "file",
    "*.tif",
    "**",
    "[",
    "gs://",
    "http://a/b",
    "pad",
]
WORDS += ["EPSG:4326", "EPSG:0", "+proj=longlat", "LOCAL_CS[]", "native", "nearest", "red", "B1", "\0"]

ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**31 - 1, 2**31, 2**63, 2**64, 10**30, 10**400, -(10**400)]),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e-320, 1e300, -1e300, math.nan, math.inf, 0.5, 1.5]),
    st.text(max_size=8),
    st.sampled_from(WORDS),
    st.just(BOX),
    st.just(TRIANGLE),
    st.just([]),
    st.just({}),
    st.lists(st.one_of(st.integers(-3, 300), st.floats(), st.text(max_size=2), st.none()), max_size=7),
    st.dictionaries(st.text(max_size=4), st.integers(-3, 300), max_size=3),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value of a job."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """The full job with one to four changes: a value replaced, a key dropped, added or renamed."""
    job: Any = copy.deepcopy(FULL)
    odd = ODD.map(copy.deepcopy)
    for _ in range(draw(st.integers(1, 4))):
        ways = [place for place in places(job) if place]
        if not ways:
            break
        *parents, key = draw(st.sampled_from(ways))
        target = job
        for parent in parents:
            target = target[parent]
        match draw(st.sampled_from(["replace", "replace", "drop", "add", "rename"])):
            case "drop":
                del target[key]
            case "add" if isinstance(target, dict):
                target[draw(st.one_of(st.text(max_size=6), st.integers(), st.none()))] = draw(odd)
            case "rename" if isinstance(target, dict):
                target[str(key).swapcase()] = target.pop(key)
            case _:
                target[key] = draw(odd)
    return job


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("fuzz"))


def planned(path: Path) -> bool:
    try:
        plan = load_plan(str(path))
    except JobError as error:
        assert str(error) and "Traceback" not in str(error)
        assert error.exit_status == 2
        return False
    json.dumps(plan.to_json(), allow_nan=False)
    assert plan_text(plan)
    return True


def test_the_job_that_is_mutated_is_valid(place: Place) -> None:
    assert planned(place.write(FULL))


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(job=mutated())
def test_mutated_jobs(place: Place, job: Any) -> None:
    # as text: what YAML cannot carry is no job file
    try:
        text = yaml.safe_dump(job, allow_unicode=True)
        data = text.encode()
    except (yaml.YAMLError, UnicodeEncodeError, ValueError):
        return
    planned(place.write(data))


@given(text=st.text(max_size=200))
def test_any_text(place: Place, text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    planned(place.write(data))


@given(data=st.binary(max_size=200))
def test_any_bytes(place: Place, data: bytes) -> None:
    planned(place.write(data))


@given(at=st.data())
def test_damaged_text(place: Place, at: st.DataObject) -> None:
    data = bytearray(yaml.safe_dump(FULL).encode())
    for _ in range(at.draw(st.integers(1, 5))):
        i = at.draw(st.integers(0, len(data) - 1))
        data[i : i + at.draw(st.integers(0, 3))] = at.draw(st.binary(max_size=3))
    planned(place.write(bytes(data)))


@given(override=st.text(alphabet=st.sampled_from("abs01.=[]{},:&*!|>%@`'\" \n-#"), max_size=30))
def test_any_override(override: str) -> None:
    job = copy.deepcopy(FULL)
    try:
        apply_override(job, override)
    except JobError as error:
        assert "--set" in str(error)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(value=JSON, ascii_only=st.booleans())
def test_json_is_read_as_json(value: Any, ascii_only: bool) -> None:
    text = json.dumps({"a": value}, ensure_ascii=ascii_only)
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    try:
        parsed = parse_yaml(text, "x")
    except JobError as error:
        # YAML wants some characters escaped that JSON takes as they are
        assert "cannot stand in YAML" in str(error) and not ascii_only
        return
    # repr tells 1 from 1.0 and -0.0 from 0.0
    assert repr(parsed) == repr(json.loads(text))
