"""A large table streams: its memory does not grow with its features."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shared import ROOT


@pytest.mark.long
def test_a_million_features_take_less_than_a_gibibyte(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from tables import write_table

    peaks = []
    for features in (250_000, 1_000_000):
        table = tmp_path / f"t{features}.gpkg"
        write_table(table, features)
        command = [
            sys.executable,
            str(ROOT / "benchmarks/tables.py"),
            "--side",
            "ours",
            "--table",
            str(table),
        ]
        run = subprocess.run(
            [*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        peaks.append(json.loads(run.stdout.splitlines()[-1])["peak_mib"])
    assert peaks[1] < 1024 and peaks[1] < 1.3 * peaks[0]
