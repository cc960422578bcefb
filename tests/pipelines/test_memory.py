"""What a worker process takes at its peak does not depend on the size of the scene."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from exports import write_job
from shared import ROOT

from patchbeam.manifest import Manifest
from patchbeam.scene import write_scene

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in KiB on Linux"),
]

# The kernel counts what a process was before it became another program, so that a child of this large
# process would seem as large: one of a small process in between does not.
_MEASURE = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


def peak_mib(command: Sequence[str]) -> float:
    """Runs a command and returns the most memory that any of its processes held."""
    run = subprocess.run(
        [sys.executable, "-c", _MEASURE, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout.rpartition("peak ")[2]) / 1024


def exported_mib(folder: Path, size: int, beam: Sequence[str] = (), **more: Any) -> float:
    """Makes a scene of size × size pixels and 4 bands, exports it and returns the peak of the export."""
    scene, *_ = write_scene(folder / f"s{size}.tif", width=size, height=size, bands=4, class_map=False)
    prefix = folder / f"out{size}" / "scene"
    job = write_job(folder, {"sources": scene.name, "output": str(prefix), **more})
    peak = peak_mib([sys.executable, "-m", "pipelines", "export-image", str(job), "--", *beam])
    manifest = Manifest.from_text(Path(f"{prefix}-manifest.json").read_text())
    assert manifest.patches.written == (size // 256) ** 2
    shutil.rmtree(prefix.parent)
    scene.unlink()
    return peak


@pytest.mark.parametrize("form", ["indexed", "zlib6"])
def test_the_peak_is_flat_in_the_area(tmp_path: Path, form: str) -> None:
    """1, 4 and 16 times the area; read blocks are small enough for the least to have several."""
    peaks = [exported_mib(tmp_path, size, blockBytes=8 << 20, gzip=form) for size in (2048, 4096, 8192)]
    print("peaks in MiB:", [round(peak) for peak in peaks])
    assert max(peaks) <= 1.2 * peaks[0], peaks


@pytest.mark.parametrize("beam", [(), ("--direct_running_mode=multi_processing", "--direct_num_workers=2")])
def test_a_scene_of_twenty_thousand_pixels_a_side(tmp_path: Path, beam: Sequence[str]) -> None:
    if shutil.disk_usage(tmp_path).free < 14 << 30:
        pytest.skip("takes 14 GiB of disk")
    peak = exported_mib(tmp_path, 20_000, beam)
    print("peak in MiB:", round(peak))
    assert peak < 1536
