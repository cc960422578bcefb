"""Importing an export by its prefix: settings by ``--set``, the mask band, and what the report says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from eager import export, plan_of, write_tif

from pipelines.cli import main


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    values = np.random.default_rng(0).integers(1, 4, (2, 32, 48)).astype(np.uint16)
    values[:, :5, :7] = 0
    write_tif(tmp_path / "in.tif", values, nodata=0)
    job = {
        "sources": "in.tif",
        "formatOptions": {"patchDimensions": [16, 16]},
        "maskBand": "valid",
        "output": "out/scene",
    }
    export(plan_of(job, tmp_path))
    return tmp_path / "out" / "scene"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("nodata=abc", 'nodata: "abc" is not a number'),
        ("argmax=foo", 'argmax: "foo" is not true or false or a list'),
        ("overlap=x", 'overlap: "x" is not discard or a map of keys to values'),
        ("overlap.blend=q", 'overlap.blend: "q" is not mean or hann'),
    ],
)
def test_a_wrong_setting(prefix: Path, setting: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import-image", str(prefix), "--set", setting]) == 2
    said = capsys.readouterr().err
    assert text in said and len(said.splitlines()) == 1, said


def test_the_mask_band_is_no_band_and_takes_no_nodata_away(prefix: Path) -> None:
    assert main(["import-image", str(prefix)]) == 0
    with rasterio.open(f"{prefix}-map.tif") as made, rasterio.open(prefix.parents[1] / "in.tif") as source:
        assert made.descriptions == ("B1", "B2") and made.nodata == 0 and made.dtypes == source.dtypes
        np.testing.assert_array_equal(made.read(), source.read())
    assert main(["import-image", str(prefix), "--set", "bands=[B1, valid]", "--overwrite"]) == 0
    with rasterio.open(f"{prefix}-map.tif") as made:
        assert made.descriptions == ("B1", "valid") and made.nodata == 0
    assert main(["import-image", str(prefix), "--set", "bands=[valid]", "--overwrite"]) == 0
    with rasterio.open(f"{prefix}-map.tif") as made:
        assert made.nodata is None


@pytest.mark.parametrize(("setting", "said"), [("false", False), ("true", True), ("[B2, B1]", ["B2", "B1"])])
def test_the_report_says_argmax_as_a_job_file_does(prefix: Path, setting: str, said: object) -> None:
    assert main(["import-image", str(prefix), "--set", f"argmax={setting}"]) == 0
    assert json.loads(Path(f"{prefix}-map-import.json").read_text())["options"]["argmax"] == said
