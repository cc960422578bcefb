"""Numbers at the edges of their types, defaultValue, and options that are refused with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from eager import export, plan_of, records_of, write_tif

from patchbeam.errors import EncodeError, JobError
from patchbeam.spec import feature_spec

PATCH = {"patchDimensions": [4, 3]}
TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]


def image(folder: Path, values: Any, dtype: str, **options: Any) -> Path:
    numbers = np.resize(np.array(values, dtype), (3, 4))
    return write_tif(folder / "image.tif", numbers, **options)


def exported(folder: Path, **job: Any) -> list[dict[str, np.ndarray]]:
    """Exports ``image.tif`` and returns what TensorFlow reads, by the printed spec."""
    given = {"sources": "image.tif", "output": "out/x", **job}
    plan = plan_of({**given, "formatOptions": {**PATCH, **given.get("formatOptions", {})}}, folder)
    manifest = export(plan, overwrite=True)
    program: dict = {}
    exec(feature_spec(manifest).to_python(), program)
    return [
        {name: value.numpy() for name, value in program["parse"](tf.constant(record)).items()}
        for record in records_of(plan, manifest)
    ]


def extremes(dtype: str) -> list[Any]:
    if dtype.startswith("float"):
        largest = np.finfo(np.float32).max
        return [0.0, -0.0, 1.5, np.nan, np.inf, -np.inf, largest, -largest, 1e-45, 0.1]
    limits = np.iinfo(dtype)
    edges = {0, 1, 127, 128, limits.min, limits.max, 2**14, 2**24 + 1, 2**53 + 1, -1, -(2**31), 2**62}
    held = [n for n in edges if limits.min <= n <= limits.max]
    return [n for n in held if n < 2**63]


@pytest.mark.parametrize("sequence", [False, True], ids=["patches", "pixels"])
@pytest.mark.parametrize("numbers", ["float", "native"])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_number_of_every_type(tmp_path: Path, dtype: str, numbers: str, sequence: bool) -> None:
    image(tmp_path, extremes(dtype), dtype)
    records = exported(tmp_path, numbers=numbers, formatOptions={"sequenceData": sequence})
    found = np.array([record["B1"] for record in records]).reshape(3, 4)
    values = np.resize(np.array(extremes(dtype), dtype), (3, 4))
    wire = "float32" if numbers == "float" or dtype.startswith("float") else "int64"
    wire = "uint8" if numbers == "native" and dtype == "uint8" else wire
    np.testing.assert_array_equal(found, values.astype(wire), strict=True)
    assert np.signbit(found.astype(float)).tolist() == np.signbit(values.astype(float)).tolist()


@pytest.mark.parametrize(
    ("dtype", "given", "held"),
    [
        ("uint8", -3.7, 0),
        ("uint8", 255.9, 255),
        ("uint8", 1e30, 255),
        ("int8", -3.7, -3),
        ("int8", -1e9, -128),
        ("uint16", 70_000, 65_535),
        ("int16", -9999.5, -9999),
        ("int64", -(2**63), -(2**63)),
        ("int64", 1e30, 2**63 - 1),
        ("uint32", 2**33, 2**32 - 1),
        ("float32", -3.7, np.float32(-3.7)),
        ("float64", float("nan"), np.nan),
        ("float32", "NaN", np.nan),
    ],
)
@pytest.mark.parametrize("array", [False, True], ids=["scalar", "array"])
def test_default_value(tmp_path: Path, dtype: str, given: Any, held: Any, array: bool) -> None:
    image(tmp_path, [7, 1, 2, 3, 7], dtype, nodata=7)
    job: dict[str, Any] = {"numbers": "native", "formatOptions": {"defaultValue": given}}
    if array:
        job["bands"] = [{"band": [1, 1]}]
        job["formatOptions"]["tensorDepths"] = {"B1": 3}
    (record,) = exported(tmp_path, **job)
    expected = np.resize(np.array([held, 1, 2, 3, held]).astype(record["B1"].dtype), (3, 4))
    if array:
        padding = np.full((3, 4), held).astype(record["B1"].dtype)
        expected = np.stack([expected, expected, padding])
    np.testing.assert_array_equal(record["B1"], expected)


def test_uint64_beyond_int64(tmp_path: Path) -> None:
    image(tmp_path, [1, 2, 2**63], "uint64")
    with pytest.raises(EncodeError, match=r"B1, patch 0.*9223372036854775808.*numbers: float"):
        exported(tmp_path, numbers="native")
    with pytest.raises(EncodeError, match="above 2"):
        exported(tmp_path, numbers="native", formatOptions={"sequenceData": True})
    (record,) = exported(tmp_path)
    assert record["B1"][0, 2] == np.float32(2.0**63)


def test_numbers_that_float32_rounds_are_counted_or_refused(tmp_path: Path) -> None:
    image(tmp_path, [2**24, 2**24 + 1, 2**24 + 2, 5, 2**24 + 3, 0], "int32", nodata=2**24 + 3)
    plan = plan_of({"sources": "image.tif", "output": "out/x", "formatOptions": PATCH}, tmp_path)
    assert export(plan).bands[0].rounded_values == 2
    with pytest.raises(EncodeError, match=r"band B1, patch 0: 2 numbers.*strict"):
        exported(tmp_path, strict=True)
    (record,) = exported(tmp_path, strict=True, numbers="native")
    assert record["B1"][0].tolist() == [2**24, 2**24 + 1, 2**24 + 2, 5]


def test_float64_beyond_float32(tmp_path: Path) -> None:
    image(tmp_path, [1, 2, 3, 4, 5, 1e39], "float64")
    for sequence in (False, True):
        with pytest.raises(EncodeError, match=r"band B1, patch 0, pixel \(row, col\) \(1, 1\).*1e\+39"):
            exported(tmp_path, numbers="native", formatOptions={"sequenceData": sequence})


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"formatOptions": {"sequenceData": True, "kernelSize": 3}}, "no neighbourhood"),
        ({"formatOptions": {"tensorDepths": {"a": 3, "k": 2}}}, r"tensorDepths\.a: .*one number a pixel"),
        ({"formatOptions": {"tensorDepths": {"kk": 3}}}, r"tensorDepths\.kk: .*did you mean 'k'"),
        ({"formatOptions": {}}, r"every array band needs a depth; missing: k"),
        ({"formatOptions": {"collapseBands": True}}, r"needs a depth; missing: k"),
        ({"formatOptions": {"sequenceData": True, "tensorDepths": {}}}, r"needs a depth; missing: k"),
        ({"formatOptions": {"tensorDepths": {"k": 0}}}, r"tensorDepths\.k: 0 is not a whole number"),
        ({"maskBand": "a"}, "maskBand: 'a' is the name of a band"),
        ({"gzip": "zlib6", "formatOptions": {"compressed": False}}, "gzip: zlib6.*compressed: false"),
        (
            {"formatOptions": {"defaultValue": float("nan")}},
            "NaN is not a number that the integer bands a, k",
        ),
        ({"formatOptions": {"maxFileSize": 60}}, r"maxFileSize: 60 bytes is less than one record"),
        (
            {"sources": {"image": {"path": "image.tif", "maskedObservations": "fill"}}, "bands": ["B1"]},
            "fill is for array bands",
        ),
        (
            {"sources": {"image": {"path": "image.tif", "time": "%Y"}}, "bands": ["B1"]},
            "no series; add series",
        ),
        ({"formatOptions": {"maskedThreshold": 1.2}}, "share between 0 and 1"),
        ({"formatOptions": {"compress": True, "compressed": True}}, "two spellings of one option"),
        ({"formatOptions": {"patchSize": 3}}, "use patchDimensions"),
    ],
)
def test_what_cannot_go_together_is_refused(tmp_path: Path, job: dict[str, Any], reason: str) -> None:
    write_tif(tmp_path / "image.tif", np.ones((2, 3, 4), "u1"))
    options = {"tensorDepths": {"k": 2}} | PATCH
    given: dict[str, Any] = {
        "sources": "image.tif",
        "bands": [{"name": "a", "band": 1}, {"name": "k", "band": [2, 1]}],
        "output": "out/x",
        **job,
    }
    if "formatOptions" in job and not {"tensorDepths", "collapseBands", "sequenceData"} & {
        *job["formatOptions"]
    }:
        given["formatOptions"] = (options if job["formatOptions"] else PATCH) | job["formatOptions"]
    else:
        given["formatOptions"] = PATCH | job.get("formatOptions", {} if "bands" in job else options)
    with pytest.raises(JobError, match=reason):
        plan_of(given, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "job", "reason"),
    [
        ("float32", {"formatOptions": {"defaultValue": 1e39}}, r"defaultValue: 1e\+39 is beyond float32.*B1"),
        ("float64", {"formatOptions": {"defaultValue": -1e39}}, r"beyond float32"),
        (
            "uint64",
            {"numbers": "native", "formatOptions": {"defaultValue": 1e19}},
            r"becomes 10000000000000000000 in the uint64 band B1",
        ),
        (
            "int64",
            {"formatOptions": {"defaultValue": 2**53 + 1}},
            r"defaultValue: 9007199254740993 .*float64",
        ),
        (
            "int32",
            {"strict": True, "formatOptions": {"defaultValue": 2**24 + 1}},
            r"defaultValue: 16777217, .* of the band B1 would hold, is rounded by float32 and strict is true",
        ),
    ],
)
def test_default_values_that_no_record_holds(
    tmp_path: Path, dtype: str, job: dict[str, Any], reason: str
) -> None:
    image(tmp_path, [1], dtype)
    with pytest.raises(JobError, match=reason):
        plan_of(
            {"sources": "image.tif", "output": "x", **job, "formatOptions": PATCH | job["formatOptions"]},
            tmp_path,
        )
