"""The memory of an import is that of a tile, whatever the size of the map."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from maps import mixer, write_patches
from shared import ROOT

PROGRAM = """
import sys
from pipelines.import_image import run_import
from pipelines.resolve_import import load_import
run_import(load_import(sys.argv[1], ["tileSize=1024"], sys.argv[1] + "-map"), workers=2)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak_bytes(folder: Path, side: int) -> int:
    patches = side // 256
    folder.mkdir()
    values = np.random.default_rng(0).normal(size=(256, 256)).astype(np.float32)
    write_patches(folder, patches**2, lambda i: {"p": values + i}, files=2, stem="s")
    (folder / "s-mixer.json").write_text(mixer(patches, patches, (256, 256)).to_text())
    command = [sys.executable, "-c", PROGRAM, str(folder / "s")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_map_of_sixteen_times_the_area_takes_no_more_memory(tmp_path: Path) -> None:
    small, large = peak_bytes(tmp_path / "small", 2048), peak_bytes(tmp_path / "large", 8192)
    assert large < small + (48 << 20), (small, large)
