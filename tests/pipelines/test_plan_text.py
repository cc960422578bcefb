"""What a plan says of its sources, its grid and its space."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from affine import Affine
from eager import plan_of, write_tif

from patchbeam import storage
from patchbeam.checks import check_destination
from patchbeam.crs import describe, parse_crs
from patchbeam.errors import GridError, OutputExists, OutputUnusable
from patchbeam.plan import ExportPlan
from patchbeam.scene import write_scene
from pipelines.cli import main
from pipelines.plan_text import plan_text
from pipelines.source_text import source_warnings

DEGREES = Affine(1e-4, 0, 15, 0, -1e-4, 48)


def rows(plan: ExportPlan) -> dict[str, str]:
    return {
        name.strip(): text for name, text in (line.split("  ", 1) for line in plan_text(plan).splitlines())
    }


def plan(folder: Path, **job: Any) -> ExportPlan:
    given = {"sources": "in.tif", "formatOptions": {"patchDimensions": [16, 16]}, "output": "out/scene"}
    return plan_of({**given, **job}, folder)


def test_how_a_source_off_the_grid_is_read(tmp_path: Path) -> None:
    values = np.ones((1, 64, 64), np.uint8)
    write_tif(tmp_path / "in.tif", values, crs="EPSG:4326", transform=DEGREES)
    said = rows(plan(tmp_path, grid={"crs": "EPSG:32633", "scale": 10}))
    (text,) = [text for name, text in said.items() if name.startswith("source")]
    assert text.strip().endswith("in.tif: off the grid (EPSG:4326): resampled, nearest")


@pytest.mark.parametrize("scale", [0.0001, 0.25])
def test_a_scale_in_degrees(tmp_path: Path, scale: float, caplog: pytest.LogCaptureFixture) -> None:
    write_tif(tmp_path / "in.tif", np.ones((1, 64, 64), np.uint8), crs="EPSG:4326", transform=DEGREES)
    said = "is in metres, also for EPSG:4326; for pixels of .* degrees use crsTransform"
    if scale < 0.01:
        with pytest.raises(GridError, match=said):
            plan(tmp_path, grid={"crs": "EPSG:4326", "scale": scale})
        return
    with caplog.at_level(logging.WARNING):
        plan(tmp_path, grid={"crs": "EPSG:4326", "scale": scale})
    assert "is in metres, also for EPSG:4326" in caplog.text


def test_more_space_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tif(tmp_path / "in.tif", np.ones((1, 64, 64), np.uint8))
    monkeypatch.setattr(storage, "free_bytes", lambda path: 2048)
    assert rows(plan(tmp_path))["space"].endswith("while it runs; WARNING: only 2.0 KiB free")


def test_space_where_nothing_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are laid where they belong take their own size; pieces and shards take it twice."""
    write_tif(tmp_path / "in.tif", np.ones((1, 64, 64), np.uint8))
    options = {"patchDimensions": [16, 16], "compressed": False}
    laid = plan(tmp_path, formatOptions=options)
    size = laid.bounds.total_bytes[0]
    assert laid.can_lay and laid.space_bytes == (size, 2 * size)
    monkeypatch.setattr(storage, "free_bytes", lambda path: size)
    check_destination(laid, overwrite=False)
    monkeypatch.setattr(storage, "free_bytes", lambda path: size - 1)
    with pytest.raises(OutputUnusable, match=r"needs at least [^(]*; free some space"):
        check_destination(laid, overwrite=False)
    dropping = plan(tmp_path, formatOptions={**options, "maskedThreshold": 0.5})
    assert not dropping.can_lay
    assert not plan(tmp_path).can_lay and not plan(tmp_path, formatOptions=options, output="gs://b/s").can_lay
    monkeypatch.setattr(storage, "free_bytes", lambda path: 0)
    with pytest.raises(OutputUnusable, match="pieces and shards exist together"):
        check_destination(plan(tmp_path), overwrite=False)


def test_bands_in_files_of_their_own_are_no_mosaic(tmp_path: Path) -> None:
    values = np.ones((1, 64, 64), np.uint8)
    for name in ("B2", "B3", "B4"):
        write_tif(tmp_path / f"{name}.tif", values)
    said = rows(plan(tmp_path, sources="*.tif"))
    assert "3 files over the same area: only the first with a value is seen" in said["note"]
    assert "note" not in rows(plan(tmp_path, sources={"s": {"path": "*.tif", "compose": "max"}}))
    west, north = 500_000, 5_300_000
    write_tif(tmp_path / "t1.tif", values, transform=Affine(10, 0, west, 0, -10, north))
    write_tif(tmp_path / "t2.tif", values, transform=Affine(10, 0, west + 600, 0, -10, north))
    assert "note" not in rows(plan(tmp_path, sources="t*.tif"))


def test_one_column_is_no_columns(tmp_path: Path) -> None:
    write_tif(tmp_path / "in.tif", np.ones((1, 64, 65), np.uint8))
    assert "1 column at the right and 0 rows at the bottom" in rows(plan(tmp_path))["edge"]


def test_a_crs_without_code_or_name() -> None:
    assert describe(parse_crs("EPSG:32633")) == "EPSG:32633"
    unnamed = parse_crs("+proj=laea +lat_0=12.5 +lon_0=30.25 +units=m")
    assert describe(unnamed).startswith("a CRS without a code (Lambert Azimuthal Equal Area")


def test_a_scene_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.tif"
    write_scene(path, width=64, height=64)
    with pytest.raises(OutputExists, match="overwrite=True"):
        write_scene(path, width=64, height=64)
    assert main(["scene", str(path), "--width", "64", "--height", "64"]) == 2
    assert "give --overwrite" in capsys.readouterr().err


def test_a_source_that_lies_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Warned of before the work, and told after it: the band is masked in every patch."""
    values = np.ones((1, 64, 64), np.uint8)
    place = Affine(10, 0, 400_000, 0, -10, 5_300_000)
    write_tif(tmp_path / "in.tif", values, transform=place)
    write_tif(tmp_path / "far.tif", values, transform=place @ Affine.translation(30_000, 0))
    write_tif(tmp_path / "far2.tif", values, transform=place @ Affine.translation(40_000, 0))
    write_tif(tmp_path / "wrong.tif", values, transform=place, crs="EPSG:4326")
    write_tif(tmp_path / "empty.tif", 0 * values, transform=place, nodata=0)

    def run(command: str, **sources: Any) -> tuple[str, str]:
        job = {"job": "export-image", "sources": {"a": "in.tif", **sources}, "output": f"out/{len(sources)}"}
        text = json.dumps({**job, "formatOptions": {"patchDimensions": 16}})
        (tmp_path / "job.json").write_text(text)
        more = ["--overwrite"] if command == "export-image" else []
        assert main([command, str(tmp_path / "job.json"), *more]) == 0
        out, err = capsys.readouterr()
        return out, err

    for command in ("plan", "export-image"):
        said = run(command, b="far.tif")[1]
        assert "warning: sources.b: its file covers nothing of the grid, so that its bands are masked" in said
        assert "begins at [700000, 5299360, 700640, 5300000] in EPSG:32633, and the grid is [400000, " in said
        said = run(command, b=["far.tif", "far2.tif"])[1]
        assert "sources.b: none of its 2 files covers any of the grid" in said
        said = run(command, c="wrong.tif", b="empty.tif")[1]
        assert (
            "wrong.tif: [400000, 5299360, 400640, 5300000] are no longitudes and latitudes of EPSG:4326"
            in said
        )
        assert "sources.b" not in said
    out, said = run("export-image", b="far.tif", c="empty.tif")
    assert "every pixel of b_B1, c_B1 is masked; check nodata, and where the sources lie" in out
    out, said = run("export-image", b="in.tif")
    assert "is masked" not in out and said == ""


def test_rasters_of_the_whole_globe_are_none_that_lie_elsewhere(tmp_path: Path) -> None:
    values = np.ones((1, 181, 360), np.uint8)
    for name, west in (("a", -180.0), ("b", 0.0), ("c", -180.5), ("d", -540.0)):
        write_tif(
            tmp_path / f"{name}.tif", values, crs="EPSG:4326", transform=Affine(1, 0, west, 0, -1, 90.5)
        )
    made = plan(tmp_path, sources={name: f"{name}.tif" for name in "abcd"}, grid={"region": [10, 10, 60, 60]})
    assert list(source_warnings(made)) == []


@pytest.mark.parametrize(("east", "background"), [(0.0, 0), (0.0, 7), (5.0, 0), (5.0, 7), (5.0, "masked")])
def test_a_vector_layer_that_lies_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], east: float, background: Any
) -> None:
    write_tif(tmp_path / "in.tif", np.ones((1, 64, 64), np.uint8), crs="EPSG:4326", transform=DEGREES)
    ring = [[15 + east, 48], [15.003 + east, 48], [15.003 + east, 47.997], [15 + east, 48]]
    shape = {"type": "Polygon", "coordinates": [ring]}
    layer = {
        "type": "FeatureCollection",
        "features": [{"type": "Feature", "properties": {}, "geometry": shape}],
    }
    (tmp_path / "v.geojson").write_text(json.dumps(layer))
    fields = {"vector": "v.geojson", "value": 3, "background": background}
    job = {"job": "export-image", "sources": {"a": "in.tif", "fields": fields}, "output": "out/s"}
    (tmp_path / "job.json").write_text(json.dumps({**job, "formatOptions": {"patchDimensions": 16}}))
    assert main(["export-image", str(tmp_path / "job.json")]) == 0
    out = capsys.readouterr().out
    said = f"fields is {background} everywhere: no feature of {tmp_path / 'v.geojson'} is burnt in a patch"
    assert (said in out) == (east > 0 and background != "masked")
    assert ("every pixel of fields is masked" in out) == (background == "masked")
