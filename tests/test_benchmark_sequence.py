"""The benchmark of per-pixel records runs, and compares equal records."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from shared import ROOT


@pytest.mark.parametrize("arguments", [[], ["--numbers", "native", "--own-lengths"]], ids=["plain", "native"])
def test_it_prints_both_rates_and_their_ratio(arguments: list[str]) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "sequence.py"), "--pixels", "8192", "--rounds", "1"]
    run = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr
    rates = {
        name: float(n.replace(",", "")) for name, n in re.findall(r"^(\w+) +([\d,.]+)", run.stdout, re.M)
    }
    assert rates["patchbeam"] > rates["protobuf"] > 0
    assert rates["ratio"] == pytest.approx(rates["patchbeam"] / rates["protobuf"], abs=0.1)
