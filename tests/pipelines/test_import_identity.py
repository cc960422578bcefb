"""Export, then import: the map is the raster, pixel for pixel where patches are, mask and place with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from affine import Affine
from eager import export, plan_of, write_tif
from hypothesis import given, settings
from hypothesis import strategies as st
from maps import import_plan, run_plan

from patchbeam.errors import JobError

PLACES: dict[str, tuple[str, Affine]] = {
    "north-up": ("EPSG:32633", Affine(10, 0, 500_000, 0, -10, 5_300_000)),
    "south-up": ("EPSG:32633", Affine(10, 0, 500_000, 0, 10, 5_300_000)),
    "rotated": ("EPSG:32633", Affine(8, 3, 500_000, 2, -9, 5_300_000)),
    "degrees": ("EPSG:4326", Affine(1 / 7, 0, -20.1, 0, -1 / 9, 51.3)),
    "polar": ("EPSG:3413", Affine(30, 0, -1_200_000.5, 0, -30, -900_000.25)),
    "no code": ("+proj=laea +lat_0=12.5 +lon_0=30.25 +units=m", Affine(25, 0, -500, 0, -25, 700)),
}
TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float32", "float64")


def values_of(dtype: str, shape: tuple[int, ...], numbers: str, seed: int) -> np.ndarray:
    """Numbers that the records hold exactly: all of the type, or what float32 has."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.normal(size=shape).astype(np.float32).astype(dtype)
    limits = np.iinfo(dtype)
    low, high = int(limits.min), int(limits.max)
    if numbers == "float":
        low, high = max(low, -(2**24)), min(high, 2**24)
    return random.integers(low, high, shape, dtype, endpoint=True)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    patch = draw(st.tuples(st.integers(3, 40), st.integers(3, 40)))
    edge = draw(st.sampled_from(["drop", "pad"]))
    least = patch if edge == "drop" else (1, 1)
    return {
        "patch": patch,
        "edge": edge,
        "size": (draw(st.integers(least[0], 300)), draw(st.integers(least[1], 120))),
        "kernel": draw(st.tuples(st.integers(1, 9), st.integers(1, 9))),
        "types": draw(st.sampled_from(TYPES)),
        "bands": draw(st.integers(1, 3)),
        "numbers": draw(st.sampled_from(["float", "native"])),
        "place": draw(st.sampled_from(sorted(PLACES))),
        "gzip": draw(st.sampled_from(["indexed", "zlib6", None])),
        "limit": draw(st.integers(1, 12)),
        "collapse": draw(st.booleans()),
        "naming": draw(st.sampled_from(["drive", "gcs"])),
    }


def check_identity(folder: Path, case: dict[str, Any]) -> None:
    width, height = case["size"]
    values = values_of(case["types"], (case["bands"], height, width), case["numbers"], width + height)
    crs, affine = PLACES[case["place"]]
    write_tif(folder / "in.tif", values, crs=crs, transform=affine)
    stored = [p + 2 * (k // 2) for p, k in zip(case["patch"], case["kernel"], strict=True)]
    record = stored[0] * stored[1] * case["bands"] * 10 + 400
    exported = plan_of(
        {
            "sources": "in.tif",
            "formatOptions": {
                "patchDimensions": list(case["patch"]),
                "kernelSize": list(case["kernel"]),
                "compressed": case["gzip"] is not None,
                "maxFileSize": record * case["limit"],
                "collapseBands": case["collapse"],
            },
            "edge": case["edge"],
            "numbers": case["numbers"],
            "gzip": case["gzip"] or "indexed",
            "naming": case["naming"],
            "output": "export/scene",
        },
        folder,
    )
    export(exported)
    run_plan(import_plan({"records": "export/scene", "tileSize": 256, "output": "map/m"}, folder))
    covered = width, height
    if case["edge"] == "drop":
        covered = tuple(n // p * p for n, p in zip((width, height), case["patch"], strict=True))
    with rasterio.open(folder / "in.tif") as source, rasterio.open(folder / "map" / "m.vrt") as made:
        assert (made.width, made.height) == covered
        assert made.transform == source.transform
        assert made.crs == source.crs
        assert made.dtypes == source.dtypes
        np.testing.assert_array_equal(made.read(), source.read()[:, : covered[1], : covered[0]])
    assert not [path for path in folder.rglob("*") if path.name.endswith(".tmp")]


@given(case=cases())
@settings(max_examples=12)
def test_export_then_import_is_the_identity(
    tmp_path_factory: pytest.TempPathFactory, case: dict[str, Any]
) -> None:
    check_identity(tmp_path_factory.mktemp("identity"), case)


@pytest.mark.long
@given(case=cases())
@settings(max_examples=200)
def test_export_then_import_is_the_identity_at_length(
    tmp_path_factory: pytest.TempPathFactory, case: dict[str, Any]
) -> None:
    check_identity(tmp_path_factory.mktemp("identity"), case)


@pytest.mark.parametrize("by", ["sources", "valid"])
@pytest.mark.parametrize("edge", ["drop", "pad"])
@pytest.mark.parametrize("threshold", [1, 0.3])
def test_what_was_masked_is_masked_again(tmp_path: Path, by: str, edge: str, threshold: float) -> None:
    random = np.random.default_rng(2)
    values = random.integers(1, 2**16, (2, 90, 130)).astype(np.uint16)
    values[random.random(values.shape) < 0.1] = 0
    values[:, 16:32, 40:80] = 0
    write_tif(tmp_path / "in.tif", values, nodata=0)
    plan = plan_of(
        {
            "sources": "in.tif",
            "formatOptions": {
                "patchDimensions": [20, 16],
                "kernelSize": [5, 3],
                "defaultValue": 77,
                "maskedThreshold": threshold,
            },
            "edge": edge,
            "maskBand": "valid",
            "output": "export/scene",
        },
        tmp_path,
    )
    manifest = export(plan)
    job = {"records": "export/scene", "bands": ["B1", "B2"], "mask": by, "tileSize": 256, "output": "map/m"}
    run_plan(import_plan(job, tmp_path))
    with rasterio.open(tmp_path / "map" / "m.tif") as made:
        assert made.nodata == 0
        got = made.read(masked=True)
    height, width = got.shape[1:]
    assert (width, height) == ((120, 80) if edge == "drop" else (130, 90))
    want = values[:, :height, :width].copy()
    masked = (want == 0).any(axis=0)
    if threshold < 1:
        assert manifest.patches.dropped > 0
        kept = np.zeros(plan.patches.count, bool)
        for first, count in manifest.kept_patches or ():
            kept[first : first + count] = True
        blocks = np.kron(kept.reshape(plan.patches.rows, plan.patches.columns), np.ones((16, 20), bool))
        masked |= ~blocks[:height, :width]
    np.testing.assert_array_equal(got.mask, np.broadcast_to(masked, got.shape))
    np.testing.assert_array_equal(got.data[:, ~masked], want[:, ~masked])


def test_what_was_clipped_is_not_in_the_sources(tmp_path: Path) -> None:
    write_tif(tmp_path / "in.tif", np.full((1, 40, 50), 7, np.uint8))
    with rasterio.open(tmp_path / "in.tif") as dataset:
        corners = [dataset.xy(row, col) for row, col in ((0, 0), (0, 49), (39, 0), (0, 0))]
        inside = {"type": "Polygon", "coordinates": [[list(map(float, corner)) for corner in corners]]}
        crs = dataset.crs.to_string()
    job = {
        "sources": "in.tif",
        "grid": {"region": inside, "regionCrs": crs, "clip": True},
        "formatOptions": {"patchDimensions": [10, 10]},
        "edge": "pad",
        "maskBand": "valid",
        "output": "export/scene",
    }
    export(plan_of(job, tmp_path))
    back = {"records": "export/scene", "bands": ["B1"], "nodata": 0, "output": "map/m"}
    with pytest.raises(JobError, match="outside its region"):
        import_plan({**back, "mask": "sources"}, tmp_path)
    run_plan(import_plan({**back, "mask": "valid"}, tmp_path))
    with rasterio.open(tmp_path / "map" / "m.tif") as made:
        assert 0 < np.count_nonzero(made.read(1)) < made.width * made.height


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and nothing more", None])
def test_a_damaged_index_is_done_without(tmp_path: Path, damage: bytes | None) -> None:
    values = values_of("uint8", (1, 40, 60), "float", 4)
    write_tif(tmp_path / "in.tif", values)
    options = {"patchDimensions": [20, 20], "maxFileSize": 4000}
    plan = plan_of({"sources": "in.tif", "formatOptions": options, "output": "export/scene"}, tmp_path)
    assert len(export(plan).shards) > 1
    index = tmp_path / "export" / "scene-index.npz"
    stored = index.read_bytes()
    index.write_bytes(stored[: len(stored) // 2] + bytes(len(stored) // 2) if damage is None else damage)
    run_plan(import_plan({"records": "export/scene", "output": "map/m"}, tmp_path))
    with rasterio.open(tmp_path / "map" / "m.tif") as made:
        np.testing.assert_array_equal(made.read(), values)


def test_one_record_a_pixel_makes_the_same_map(tmp_path: Path) -> None:
    values = values_of("int16", (2, 40, 50), "native", 3)
    write_tif(tmp_path / "in.tif", values)
    for numbers, collapse in (("float", False), ("native", False), ("float", True)):
        plan = plan_of(
            {
                "sources": "in.tif",
                "formatOptions": {
                    "patchDimensions": [20, 16],
                    "sequenceData": True,
                    "collapseBands": collapse,
                },
                "numbers": numbers,
                "output": f"{numbers}{collapse}/scene",
            },
            tmp_path,
        )
        export(plan)
        run_plan(
            import_plan(
                {"records": f"{numbers}{collapse}/scene", "output": f"{numbers}{collapse}-map"}, tmp_path
            )
        )
        with rasterio.open(tmp_path / f"{numbers}{collapse}-map.tif") as made:
            np.testing.assert_array_equal(made.read(), values[:, :32, :40])


def test_a_mixer_alone_makes_the_map_of_all_patches(tmp_path: Path) -> None:
    values = values_of("float32", (1, 50, 70), "float", 4)
    write_tif(tmp_path / "in.tif", values)
    options = {"patchDimensions": [20, 16], "kernelSize": [8, 8]}
    export(plan_of({"sources": "in.tif", "formatOptions": options, "edge": "pad", "output": "e/s"}, tmp_path))
    job = {"records": "e/s-*.tfrecord.gz", "mixer": "e/s-mixer.json", "kernelSize": 8, "output": "m"}
    run_plan(import_plan(job, tmp_path))
    with rasterio.open(tmp_path / "m.tif") as made:
        assert (made.width, made.height) == (80, 64)  # a mixer does not know where the grid ends
        np.testing.assert_array_equal(made.read()[:, :50, :70], values)
