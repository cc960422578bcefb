"""Format options in both spellings, their checks, and the way back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbeam.errors import JobError
from patchbeam.options import GIB, SPELLINGS, FormatOptions

VALUES: dict[str, Any] = {
    "patchDimensions": [64, 32],
    "kernelSize": [3, 5],
    "compressed": False,
    "maxFileSize": 1000,
    "defaultValue": -1.5,
    "tensorDepths": {"ndvi": 12},
    "sequenceData": True,
    "collapseBands": True,
    "maskedThreshold": 0.25,
}


def test_defaults() -> None:
    options = FormatOptions.from_mapping({})
    assert options == FormatOptions()
    assert options.patch_width_height == (256, 256)
    assert options.kernel_width_height == (1, 1)
    assert options.compressed
    assert options.max_file_size_bytes == GIB == 1073741824
    assert options.default_value == 0
    assert options.tensor_depths is None
    assert not options.sequence_data
    assert not options.collapse_bands
    assert options.masked_threshold == 1


@pytest.mark.parametrize(("client", "rest"), SPELLINGS.items())
def test_both_spellings_say_the_same(client: str, rest: str) -> None:
    one = FormatOptions.from_mapping({client: VALUES[client]})
    assert one == FormatOptions.from_mapping({rest: VALUES[client]})
    assert one != FormatOptions()
    assert one.to_mapping()[client] == VALUES[client]


@given(st.sets(st.sampled_from(list(VALUES))))
def test_the_way_back(names: set[str]) -> None:
    if {"kernelSize", "sequenceData"} <= names:
        names -= {"kernelSize"}
    options = FormatOptions.from_mapping({name: VALUES[name] for name in names})
    assert FormatOptions.from_mapping(json.loads(json.dumps(options.to_mapping()))) == options
    assert list(options.to_mapping()) == list(SPELLINGS)


def test_nan_survives_json() -> None:
    options = FormatOptions.from_mapping({"defaultValue": math.nan})
    text = json.dumps(options.to_mapping(), allow_nan=False)
    assert math.isnan(FormatOptions.from_mapping(json.loads(text)).default_value)


def test_one_number_is_a_square() -> None:
    options = FormatOptions.from_mapping({"patchDimensions": 128, "kernelSize": 64})
    assert options.patch_width_height == (128, 128)
    assert options.kernel_width_height == (64, 64)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"patchSize": 3}, r"formatOptions\.patchSize: .*use patchDimensions"),
        ({"kernelSizes": 3}, r"formatOptions\.kernelSizes: .*did you mean 'kernelSize'"),
        ({"patch_dimensions": 3}, r"did you mean 'patchDimensions'"),
        ({"kernelSize": 3, "marginDimensions": 3}, r"kernelSize and marginDimensions are two spellings"),
        ({"patchDimensions": [256, 0]}, r"formatOptions\.patchDimensions\[1\]: 0 "),
        ({"tileDimensions": [2.5, 3]}, r"formatOptions\.tileDimensions\[0\]: 2.5 "),
        ({"patchDimensions": True}, r"patchDimensions: [Tt]rue is not"),
        ({"patchDimensions": [1, 2, 3]}, r"patchDimensions: \[1, 2, 3\] is not"),
        ({"kernelSize": "3"}, r"kernelSize: .3. is not"),
        ({"compressed": 1}, r"compressed: 1 is not true or false"),
        ({"maxFileSize": 0}, r"maxFileSize: 0 is not a whole number of bytes"),
        ({"maxSizeBytes": 1e9}, r"maxSizeBytes: .* is not a whole number of bytes"),
        ({"defaultValue": "none"}, r"defaultValue: .none. is not a finite number or NaN"),
        ({"defaultValue": math.inf}, r"defaultValue: .*is not a finite number"),
        ({"defaultValue": True}, r"defaultValue: [Tt]rue is not"),
        ({"maskedThreshold": -0.1}, r"maskedThreshold: -0.1 is not a share"),
        ({"maskedThreshold": math.nan}, r"maskedThreshold: .* is not a share"),
        ({"tensorDepths": [3]}, r"tensorDepths: \[3\] is not a map"),
        ({"tensorDepths": {"ndvi": 1.5}}, r"tensorDepths\.ndvi: 1.5 is not a whole number"),
        ({"sequenceData": True, "marginDimensions": [1, 3]}, r"marginDimensions: \[1, 3\] cannot go with"),
    ],
)
def test_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        FormatOptions.from_mapping(given)


def test_a_kernel_without_a_margin_goes_with_sequences() -> None:
    assert FormatOptions.from_mapping({"sequenceData": True, "kernelSize": [1, 1]}).sequence_data
