"""Without pyogrio or pyarrow, tables are refused with what to install, and nothing is done before."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from shared import ROOT

ADVICE = "tables need pyogrio and pyarrow: pip install 'patchbeam[vector]'"


PROGRAM = """
import sys
sys.modules[sys.argv[1]] = None
from pipelines.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("library", ["pyogrio", "pyarrow"])
@pytest.mark.parametrize("command", ["export-table", "import-table"])
def test_what_to_install(command: str, library: str, tmp_path: Path) -> None:
    (tmp_path / "points.geojson").write_text('{"type": "FeatureCollection", "features": []}')
    (tmp_path / "table.tfrecord").write_bytes(b"")
    given = "features: points.geojson\noutput: t" if command == "export-table" else ""
    given = given or "records: table.tfrecord\noutput: t.geojson"
    (tmp_path / "job.yaml").write_text(f"job: {command}\n{given}\n")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, library, command, str(tmp_path / "job.yaml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert ADVICE in run.stderr and "Traceback" not in run.stderr
    assert not list(tmp_path.glob("t*.g*"))


def test_the_documented_install_has_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"pyogrio", "pyarrow"} <= {text.partition(">")[0] for text in project["dependencies"]}
