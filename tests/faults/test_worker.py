"""SIGKILL of one worker process: the run ends with an error, or goes on; ``--resume`` makes the export."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from eager import write_tif
from processes import HAVE_PROC, below
from shared import ROOT

PATIENCE_S = 90.0


def export(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines", "export-image", str(folder / "job.yaml"), *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (folder / "out").rglob("*") if p.is_file()}


@pytest.mark.long
@pytest.mark.skipif(not HAVE_PROC, reason="looks for processes in /proc")
def test_a_worker_is_killed(tmp_path: Path) -> None:
    values = np.random.default_rng(4).integers(1, 9000, (2, 1024, 512)).astype("u2")
    write_tif(tmp_path / "a.tif", values, tiled=True, blockxsize=16, blockysize=16)
    options = {"patchDimensions": 16, "maxFileSize": 500_000}
    job = {"job": "export-image", "sources": "a.tif", "blockBytes": 65536, "output": "out/scene"}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**job, "formatOptions": options}))
    whole = export(tmp_path)
    assert whole.wait(PATIENCE_S) == 0
    expected = files_of(tmp_path)
    for seed in range(4):
        for path in (tmp_path / "out").iterdir():
            path.unlink()
        chance = random.Random(seed)
        run = export(tmp_path, "--", "--direct_running_mode=multi_processing", "--direct_num_workers=2")
        pieces, wanted = tmp_path / "out", chance.randint(1, 60)
        until = time.monotonic() + PATIENCE_S
        while run.poll() is None and time.monotonic() < until:
            if sum(1 for _ in pieces.glob(".scene-*.tmp/*.run")) >= wanted:
                break
            time.sleep(0.01)
        victims = below(run.pid, b"sdk_worker_main")
        if victims:
            os.kill(chance.choice(victims), signal.SIGKILL)
        try:
            run.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            # a runner that waits for a worker that is no more: the user ends it
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
        if run.returncode == 0:
            assert files_of(tmp_path) == expected, f"seed {seed}"
            continue
        assert "scene-manifest.json" not in files_of(tmp_path), f"seed {seed}"
        again = export(tmp_path, "--resume")
        said = again.communicate(timeout=PATIENCE_S)[1]
        assert again.returncode == 0, f"seed {seed}: {said}"
        assert files_of(tmp_path) == expected, f"seed {seed}"
