"""Prism, the runner that Beam takes for local runs where it can have it: its binary, named or built."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import apache_beam
import pytest
from shared import ROOT

VERSION = apache_beam.__version__
MODULE = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{VERSION}"
BUILT = ROOT / "out" / "prism" / VERSION / "prism"
BUILD_S = 900


def prism_arguments(*, build: bool) -> tuple[str, ...]:
    """What makes a pipeline run on Prism; skips the test where there is none.

    Args:
        build: whether it is built with go where it is missing, which takes minutes the first time.
    """
    # else Beam's first Prism of this process is used again, one that an earlier test failed to start included
    alone = "--experiments=disable_prism_server_singleton"
    return ("--runner=PrismRunner", f"--prism_location={_binary(build)}", alone)


def _binary(build: bool) -> Path:
    named = os.environ.get("PATCHBEAM_PRISM")
    if named:
        if not Path(named).is_file():
            pytest.fail(f"PATCHBEAM_PRISM={named}: there is no such file")
        return Path(named)
    if BUILT.exists():
        return BUILT
    if not build:
        pytest.skip("Prism is not built: a long test builds it with go, or PATCHBEAM_PRISM names its binary")
    if shutil.which("go") is None:
        pytest.skip("Prism needs go to be built, or PATCHBEAM_PRISM to name its binary")
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT.parent) as folder:
        built = subprocess.run(
            ["go", "install", MODULE],
            env={**os.environ, "GOBIN": folder},
            capture_output=True,
            text=True,
            timeout=BUILD_S,
        )
        if built.returncode:
            said = built.stderr.strip().splitlines() or ["no reason given"]
            pytest.skip(f"go install {MODULE} failed: {said[-1]}")
        os.replace(Path(folder) / "prism", BUILT)
    return BUILT
