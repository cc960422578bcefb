"""The benchmarks of image exports run and print every case."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from yardsticks import rates, run


@pytest.mark.long
@pytest.mark.parametrize("more", [[], ["--plain"], ["--files", "4", "--kernel", "64"]], ids=" ".join)
def test_export(more: list[str], tmp_path: Path) -> None:
    cases = ["ours", "limit"] if "--files" in more else ["loop", "ours", "beam", "limit"]
    small = ["--size", "512", "--rounds", "1", "--cases", ",".join(cases)]
    text = run("export", *small, *more, data=tmp_path)
    assert list(rates(text, cases)) == cases


@pytest.mark.long
def test_export_beside_one_warp_of_the_scene(tmp_path: Path) -> None:
    small = ["--size", "512", "--rounds", "1", "--warp", "bilinear", "--cases", "reproject,ours"]
    text = run("export", *small, data=tmp_path)
    assert list(rates(text, ["reproject", "ours"])) == ["reproject", "ours"]


@pytest.mark.long
def test_growth(tmp_path: Path) -> None:
    text = run("growth", "--size", "256", "--rounds", "1", data=tmp_path)
    groups = re.findall(r"^(area|bands|kernel|source) ", text, re.M)
    assert groups == ["area"] * 3 + ["bands"] * 3 + ["kernel"] * 3 + ["source"] * 5


@pytest.mark.long
def test_stages(tmp_path: Path) -> None:
    text = run("stages", "--size", "512", "--rounds", "1", data=tmp_path)
    for stage in ("read", "encode", "CRC", "compress", "write"):
        assert re.search(rf"^{stage}: limit +[\d.]+ ", text, re.M), stage
    assert re.search(r"^encode, statistics, CRC +[\d.]+ ", text, re.M)
