"""From bands and options to features: names, kinds, shapes, promotion."""

from __future__ import annotations

import pytest

from patchbeam.errors import JobError
from patchbeam.features import RecordBand, image_features, record_bands, wire_kind
from patchbeam.options import FormatOptions

BANDS = [("a", "uint8", False), ("s", "int16", True), ("c", "float64", False)]


def features(bands: list[tuple[str, str, bool]], numbers: str = "float", **options: object) -> list[tuple]:
    given = FormatOptions.from_mapping(options)
    made = image_features(record_bands(bands, given, None), given, numbers, (5, 4))  # type: ignore[arg-type]
    return [(f.name, f.kind, f.shape, f.context) for f in made]


@pytest.mark.parametrize(
    ("type_", "native"),
    [("uint8", "bytes"), *((t, "int64") for t in ("int8", "uint16", "int16", "uint32", "int64", "uint64"))],
)
def test_kinds_of_integers(type_: str, native: str) -> None:
    assert wire_kind(type_, "native") == native
    assert wire_kind(type_, "float") == "float"


@pytest.mark.parametrize("type_", ["float32", "float64"])
def test_kinds_of_floats(type_: str) -> None:
    assert wire_kind(type_, "native") == wire_kind(type_, "float") == "float"


def test_one_feature_a_band() -> None:
    assert features(BANDS, "native", tensorDepths={"s": 3}) == [
        ("a", "bytes", (4, 5), False),
        ("s", "int64", (3, 4, 5), False),
        ("c", "float", (4, 5), False),
    ]


def test_sequences() -> None:
    assert features(BANDS, sequenceData=True) == [
        ("a", "float", (), True),
        ("s", "float", (-1,), False),
        ("c", "float", (), True),
    ]
    assert features(BANDS, sequenceData=True, tensorDepths={"s": 3})[1] == ("s", "float", (3,), False)


@pytest.mark.parametrize(
    ("types", "kind"),
    [
        (["uint8", "uint8"], "bytes"),
        (["uint8", "int8"], "int64"),
        (["uint64", "uint8"], "int64"),
        (["uint8", "float32"], "float"),
        (["float64", "int64"], "float"),
    ],
)
def test_collapsed_bands_are_promoted(types: list[str], kind: str) -> None:
    bands = [(f"b{i}", type_, False) for i, type_ in enumerate(types)]
    assert features(bands, "native", collapseBands=True) == [("b0", kind, (2, 4, 5), False)]
    assert features(bands, collapseBands=True)[0][1] == "float"


def test_collapsed_arrays_bring_their_depth() -> None:
    assert features(BANDS, collapseBands=True, tensorDepths={"s": 3}) == [("a", "float", (5, 4, 5), False)]
    collapsed = {"collapseBands": True, "sequenceData": True}
    assert features(BANDS, **collapsed) == [("a", "float", (-1, 3), False)]
    assert features(BANDS, tensorDepths={"s": 4}, **collapsed) == [("a", "float", (4, 3), False)]
    assert features(BANDS[:1], **collapsed) == [("a", "float", (1, 1), False)]


def test_the_mask_band_comes_last() -> None:
    bands = record_bands(BANDS, FormatOptions.from_mapping({"tensorDepths": {"s": 2}}), "ok")
    assert bands[-1] == RecordBand(name="ok", type="uint8")
    assert [band.depth for band in bands] == [1, 2, 1, 1]


@pytest.mark.parametrize(
    ("options", "mask", "message"),
    [
        ({}, None, "every array band needs a depth; missing: s"),
        ({"tensorDepths": {}}, None, "missing: s"),
        ({"tensorDepths": {}, "sequenceData": True}, None, "missing: s"),
        ({"tensorDepths": {"s": 2, "t": 3}}, None, "tensorDepths.t: no band has this name"),
        ({"tensorDepths": {"s": 2, "a": 3}}, None, "tensorDepths.a: .*one number a pixel"),
        ({"tensorDepths": {"s": 2}}, "c", "maskBand: 'c' is the name of a band"),
    ],
)
def test_refused(options: dict[str, object], mask: str | None, message: str) -> None:
    with pytest.raises(JobError, match=message):
        record_bands(BANDS, FormatOptions.from_mapping(options), mask)
