"""The commands of docs/speed.md are commands of benchmarks that are there, with options that they take.

What they print is looked at by the other tests of benchmarks, on small inputs.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest
from shared import ROOT

PAGE = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"^python (benchmarks/[^#\n]+)", PAGE, re.M)))


def test_every_benchmark_has_a_command() -> None:
    named = {shlex.split(command)[0] for command in COMMANDS}
    programs = {
        f"benchmarks/{path.name}"
        for path in (ROOT / "benchmarks").glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    }
    assert named == programs - {"benchmarks/readers.py"}  # which read.py starts


@pytest.mark.parametrize("script", sorted({shlex.split(command)[0] for command in COMMANDS}))
def test_options_are_options(script: str) -> None:
    command = [sys.executable, str(ROOT / script), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    taken = set(re.findall(r"--[a-z][a-z-]*", done.stdout.partition("options:")[2]))
    given = {
        word
        for line in COMMANDS
        for word in shlex.split(line)
        if line.startswith(script) and word[:2] == "--"
    }
    assert given <= taken
