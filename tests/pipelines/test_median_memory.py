"""A median of forty dates takes bounded memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rasterio
from affine import Affine
from shared import ROOT

READ = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from eager import plan_of
from patchbeam.export import BlockReader
folder, size = Path(sys.argv[3]), sys.argv[4]
job = {"sources": {"s": {"path": "*.tif", "compose": "median"}}, "output": "out/x",
       "formatOptions": {"patchDimensions": 512}}
plan = plan_of(job, folder)
reader = BlockReader(plan, threads=2)
total = 0.0
for block in range(plan.blocks.count):
    total += float(reader.read(block).bands[0].values.astype("float64").sum())
# ru_maxrss would begin with what the process that started this one had
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")), total)
"""


def peak(folder: Path, dates: int, size: int) -> tuple[float, float]:
    """Peak memory in MiB of a process that reads the median of all dates; and the sum of it."""
    step = np.arange(size, dtype="int16")
    for date in range(dates):
        # the median of each pixel is known: dates in a shuffled order add 0, 2, 4 …
        values = (step[:, None] % 7 + step[None, :] % 5 + 2 * (date * 7 % dates)).astype("int16")
        with rasterio.open(
            folder / f"{date:02d}.tif", "w", driver="GTiff", width=size, height=size, count=1, dtype="int16",
            crs="EPSG:32633", transform=Affine(10, 0, 500_000, 0, -10, 5_000_000), tiled=True,
            blockxsize=512, blockysize=512, compress="zstd",
        ) as file:  # fmt: skip
            file.write(values, 1)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(ROOT), str(ROOT / "tests"), str(folder), str(size)],
        capture_output=True, text=True, env={**os.environ, "GDAL_CACHEMAX": "64"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kibibytes, total = done.stdout.split()
    middle = dates - 1.0
    expected = size * float((step % 7).sum() + (step % 5).sum()) + size * size * middle
    assert float(total) == expected
    return int(kibibytes) / 1024, float(total)


def test_small(tmp_path: Path) -> None:
    assert peak(tmp_path, 9, 1024)[0] < 1024


@pytest.mark.long
def test_forty_dates_of_4096_squared(tmp_path: Path) -> None:
    used, _ = peak(tmp_path, 40, 4096)
    assert used < 2048
