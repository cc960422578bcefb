"""The benchmark of tables runs, and compares equal records."""

from __future__ import annotations

from pathlib import Path

import pytest
from yardsticks import rates, run


@pytest.mark.long
@pytest.mark.parametrize("form", ["parquet", "gpkg"])
def test_tables(form: str, tmp_path: Path) -> None:
    for library in ("pyarrow", "pyogrio", "pandas"):
        pytest.importorskip(library)
    small = ["--features", "2000", "--loop", "500", "--rounds", "1"]
    text = run("tables", *small, "--formats", form, data=tmp_path)
    found = rates(text, ["ours", "loop", "ratio"])
    assert found["ratio"] == pytest.approx(found["ours"] / found["loop"], abs=0.06)
    assert f"{form}: 2,000 features of 10 properties; records are equal" in text
