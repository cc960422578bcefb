"""The benchmarks of readers and of packing run; readers agree about what they read."""

from __future__ import annotations

from pathlib import Path

import pytest
from yardsticks import run

from patchbeam.data.dtypes import DTYPES


@pytest.mark.long
def test_readers(tmp_path: Path) -> None:
    text = run("read", "--patches", "64", "--megabytes", "2", "--rounds", "1", data=tmp_path)
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    assert {row[0] for row in rows} == {"64"}
    files = list(dict.fromkeys(row[1] for row in rows))
    for name in files:
        readers = [row[2] for row in rows if row[1] == name]
        assert {"patchbeam, 1 thread", "patchbeam, 2 threads", "tf.data"} <= set(readers), name
    assert len(files) >= 3


@pytest.mark.long
def test_packing(tmp_path: Path) -> None:
    text = run("packing", "--values", "65536", "--rounds", "1", data=tmp_path)
    printed = {line.split()[0] for line in text.splitlines()[1:-1]}
    assert printed == set(DTYPES)
    assert text.splitlines()[-1].startswith("slowest below 8 bits: ")
