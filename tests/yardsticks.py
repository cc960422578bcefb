"""Benchmarks run as a user runs them, as small as they go, and the tables that they print."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from shared import ROOT


def run(name: str, *arguments: str, data: Path) -> str:
    """Runs a benchmark and returns what it prints; ``data`` is where it puts its files."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), *arguments]
    environment = {**os.environ, "BENCH_DATA": str(data)}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=900, env=environment, cwd=data
    )
    assert done.returncode == 0, done.stdout + done.stderr
    left = [path.name for path in data.iterdir()]
    assert not left, f"{name} left {left}"
    return done.stdout


def rates(text: str, cases: list[str]) -> dict[str, float]:
    """Returns the rate of each case of the one table in a text: the first number after its name."""
    found = {}
    for line in text.splitlines():
        for case in cases:
            if line.strip().startswith(f"{case} "):
                found[case] = float(line.strip()[len(case) :].split()[0].replace(",", ""))
    return found
