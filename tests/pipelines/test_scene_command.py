"""Command scene: what it writes, with points and several dates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rasterio

from pipelines.cli import main

SIZE = ["--width", "64", "--height", "48"]


@pytest.mark.parametrize("dates", [1, 3])
def test_points_lie_on_the_scene(tmp_path: Path, dates: int, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "year.tif"
    command = ["scene", str(out), *SIZE, "--dates", str(dates), "--points", "9", "--crs", "EPSG:4326"]
    assert main(command) == 0
    written = capsys.readouterr().out.split()
    assert written[-1] == str(tmp_path / "year-points.geojson") and len(written) == dates + 2
    with rasterio.open(written[0]) as file:
        left, bottom, right, top = file.bounds
    features = json.loads(Path(written[-1]).read_text(encoding="utf-8"))["features"]
    assert len(features) == 9
    for feature in features:
        x, y = feature["geometry"]["coordinates"]
        assert left - 1e-6 <= x <= right + 1e-6 and bottom - 1e-6 <= y <= top + 1e-6


def test_points_that_are_there_stop_the_scene_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "scene.tif"
    (tmp_path / "scene-points.geojson").write_text("mine")
    assert main(["scene", str(out), *SIZE, "--points", "2"]) == 2
    assert "scene-points.geojson is there already" in capsys.readouterr().err
    assert not out.exists()
    assert main(["scene", str(out), *SIZE, "--points", "2", "--overwrite"]) == 0
