"""What tests of catalogues share: jobs over scenes that a catalogue or a list names, and their pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from eager import plan_of

from patchbeam.export import BlockReader

REGION = {"crs": "EPSG:32633", "scale": 10, "region": [500_000, 4_999_600, 501_700, 5_000_000]}


def job(path, **source):
    return {
        "sources": {"s2": {"path": path, **source}},
        "grid": REGION,
        "formatOptions": {"patchDimensions": 10},
        "output": "out/x",
    }


def pixels(plan):
    reader = BlockReader(plan, threads=2)
    read = [reader.read(block) for block in range(plan.blocks.count)]
    reader.close()
    return [np.concatenate([b.bands[i].values.ravel() for b in read]) for i in range(len(plan.bands))]


def paths(plan, n=0):
    return [Path(file.path).name for file in plan.sources[n].files]


def by_list(folder, key="B04", **source):
    return plan_of(job([f"data/{n}_{key}.tif" for n in range(5)], **source), folder)


def same(plan, folder, **source):
    (got,), (expected,) = pixels(plan), pixels(by_list(folder, **source))
    np.testing.assert_array_equal(got, expected)
