"""Names, numbers and defaults of bands."""

from __future__ import annotations

import numpy as np
import pytest

from patchbeam.errors import JobError, SourceError
from patchbeam.rasters.bands import BandSpec, default_names, resolve_bands
from patchbeam.rasters.source import open_source


def names(dataset, *descriptions):
    for i, text in enumerate(descriptions, 1):
        if text:
            dataset.set_band_description(i, text)


@pytest.fixture
def two(write, noise):
    a = write("a.tif", noise(3, 4, 4), finish=lambda d: names(d, "red", None, "nir"))
    b = write("b.tif", noise(2, 4, 4, dtype="int16"), finish=lambda d: names(d, "red", "dem"))
    return [open_source("s2", [a]), open_source("other", [b], resampling="cubic")]


def test_defaults(two):
    assert [b.name for b in resolve_bands(two[:1])] == ["red", "B2", "nir"]
    bands = resolve_bands(two)
    assert [b.name for b in bands] == ["s2_red", "B2", "nir", "other_red", "dem"]
    assert [(b.source, b.index, b.type, b.resampling) for b in bands][2:4] == [
        ("s2", 3, "uint16", "nearest"),
        ("other", 1, "int16", "cubic"),
    ]


def test_asked_for(two):
    specs = [
        BandSpec(source="s2", band="nir", type="float32"),
        BandSpec(source="other", band=2, name="elevation", resampling="bilinear"),
        BandSpec(source="s2", band="B2"),
        BandSpec(source="s2", indexes=(1, 3), name="stack"),
    ]
    bands = resolve_bands(two, specs)
    assert [(b.name, b.index, b.type, b.resampling) for b in bands] == [
        ("nir", 3, "float32", "nearest"),
        ("elevation", 2, "int16", "bilinear"),
        ("B2", 2, "uint16", "nearest"),
        ("stack", 1, "uint16", "nearest"),
    ]
    assert bands[3].is_array and bands[3].indexes == (1, 3) and not bands[0].is_array


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            BandSpec(source="s3"),
            r"bands\[0\]\.source: 's3' is not a source \(did you mean 's2'\?\); there are s2, other",
        ),
        (
            BandSpec(source="s2", band="nri"),
            r"bands\[0\]\.band: 'nri' is not a band of .*\(did you mean 'nir'\?\)",
        ),
        (BandSpec(source="s2", band=4), r"bands\[0\]\.band: 4 asked for, and .* has bands 1 to 3"),
        (BandSpec(source="s2", band=0), r"bands\[0\]\.band: 0 asked for"),
        (
            BandSpec(source="s2", name="x"),
            r"bands\[0\]\.band: is missing, and source 's2' has 3 bands: red, B2, nir",
        ),
        (
            BandSpec(source="s2", band=1, type="unit16"),
            r"bands\[0\]\.type: 'unit16' .*\(did you mean 'uint16'\?\)",
        ),
        (BandSpec(source="s2", band=1, resampling="cubik"), r"bands\[0\]\.resampling: 'cubik' .*'cubic'"),
        (BandSpec(source="s2", indexes=()), r"bands\[0\]\.band: an empty list"),
        (BandSpec(source="s2", indexes=(1, 9)), r"bands\[0\]\.band: 9 asked for"),
    ],
)
def test_refused(two, spec, message):
    with pytest.raises(SourceError, match=message):
        resolve_bands(two, [spec])


def test_two_of_one_name(two):
    with pytest.raises(JobError, match="2 bands are named 'x'"):
        resolve_bands(
            two, [BandSpec(source="s2", band=1, name="x"), BandSpec(source="other", band=1, name="x")]
        )


def test_repeated_descriptions_become_numbers(write, noise):
    source = open_source("s", [write("a.tif", noise(3, 4, 4), finish=lambda d: names(d, "x", "x", "y"))])
    assert default_names(source) == ("B1", "B2", "y")
    with pytest.raises(SourceError, match=r"has 2 bands 'x'; use a number: \[1, 2\]"):
        resolve_bands([source], [BandSpec(source="s", band="x")])


def test_alpha_only_when_asked_for(write, noise):
    source = open_source("s", [write("a.tif", noise(2, 4, 4, dtype="uint8"), alpha="YES")])
    assert [b.index for b in resolve_bands([source])] == [1]
    assert [b.index for b in resolve_bands([source], [BandSpec(source="s", band=2)])] == [2]


def test_files_of_other_types_and_fewer_bands(write, noise):
    a, b = write("a.tif", noise(2, 4, 4, dtype="uint8")), write("b.tif", noise(1, 4, 4, dtype="int16"))
    source = open_source("s", [a, b])
    with pytest.raises(SourceError, match=r"2 asked for, and .*b\.tif has bands 1 to 1"):
        resolve_bands([source])
    assert resolve_bands([source], [BandSpec(source="s", band=1)])[0].type == "int16"


def test_unscaled_bands_are_floating_point(write):
    def finish(dataset):
        dataset.scales, dataset.offsets = (0.1, 1.0), (0.0, 0.0)

    path = write("a.tif", np.ones((2, 4, 4), np.uint16), finish=finish)
    assert [b.type for b in resolve_bands([open_source("s", [path], unscale=True)])] == ["float32", "uint16"]
    assert [b.type for b in resolve_bands([open_source("s", [path])])] == ["uint16", "uint16"]
