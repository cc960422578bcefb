"""The benchmarks of maps and of one-stream gzip run; all cases make the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from yardsticks import rates, run

CASES = ["ours", "rasterio", "limit", "tf", "parse"]


@pytest.mark.long
@pytest.mark.parametrize("gzip", ["none", "indexed"])
@pytest.mark.parametrize("kind", ["float", "argmax"])
def test_maps(kind: str, gzip: str, tmp_path: Path) -> None:
    text = run("import_map", "--map", kind, "--gzip", gzip, "--side", "512", "--rounds", "1", data=tmp_path)
    assert list(rates(text, CASES)) == CASES
    assert "the pixels of all maps are equal" in text


@pytest.mark.long
def test_one_stream_gzip(tmp_path: Path) -> None:
    text = run(
        "zlib6",
        "--size",
        "512",
        "--bands",
        "1",
        "--shards",
        "4",
        "--threads",
        "2",
        "--rounds",
        "1",
        data=tmp_path,
    )
    assert list(rates(text, ["zlib", "1 thread", "2 threads"])) == ["zlib", "1 thread", "2 threads"]
    assert "in 4 shards" in text
    assert "every shard is byte for byte what zlib makes of its records" in text
