"""Golden files: what each format option writes, uncompressed, so that the format cannot change unnoticed.

``tests/interop/test_golden.py`` makes them anew and compares every byte. To change them deliberately, say so
in the change log and run

    python tests/golden/regenerate.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
for folder in (str(HERE.parent), str(HERE.parent.parent)):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from eager import export, plan_of, write_tif  # noqa: E402

WIDTH, HEIGHT = 9, 7

BASE: dict[str, Any] = {
    "sources": {
        "a": "a.tif",
        "b": "b.tif",
        "c": "c.tif",
        "s": {"path": "s_*.tif", "series": True, "time": "s_%Y%m%d"},
        "k": "k.tif",
    },
    "bands": [
        {"name": "a", "source": "a"},
        {"name": "b", "source": "b"},
        {"name": "s", "source": "s"},
        {"name": "c", "source": "c"},
        {"name": "k", "source": "k", "band": [3, 1]},
    ],
    "output": "out/x",
}
OPTIONS: dict[str, Any] = {"patchDimensions": [4, 3], "tensorDepths": {"s": 3, "k": 2}, "compressed": False}
FEW: dict[str, Any] = {"crs": "EPSG:32633", "dimensions": [4, 3]}
FEW["crsTransform"] = [10, 0, 500_000, 0, -10, 5_300_000]
REGION = [[500_000, 5_300_000], [500_090, 5_300_000], [500_000, 5_299_930], [500_000, 5_300_000]]

CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "patchDimensions": {"formatOptions": {"patchDimensions": [3, 2]}, "grid": {**FEW, "dimensions": [6, 4]}},
    "kernelSize": {"formatOptions": {"kernelSize": [3, 2]}},
    "maxFileSize": {"formatOptions": {"maxFileSize": 1500}},
    "defaultValue": {"formatOptions": {"defaultValue": -3.7}},
    "tensorDepths": {"formatOptions": {"tensorDepths": {"s": 2, "k": 4}}},
    "sequenceData": {"formatOptions": {"sequenceData": True}, "grid": FEW},
    "sequenceData-own-lengths": {"formatOptions": {"sequenceData": True, "tensorDepths": None}, "grid": FEW},
    "sequenceData-native": {"formatOptions": {"sequenceData": True}, "grid": FEW, "numbers": "native"},
    "collapseBands": {"formatOptions": {"collapseBands": True}},
    "collapseBands-sequenceData": {
        "formatOptions": {"collapseBands": True, "sequenceData": True, "tensorDepths": None},
        "grid": FEW,
    },
    "maskedThreshold": {"formatOptions": {"maskedThreshold": 0.5}},
    "numbers": {"numbers": "native"},
    "maskBand": {"maskBand": "valid", "numbers": "native"},
    "edge": {"edge": "pad"},
    "maskedObservations": {"sources": {"s": {**BASE["sources"]["s"], "maskedObservations": "fill"}}},
    "clip": {"grid": {"clip": True, "region": {"type": "Polygon", "coordinates": [REGION]}}},
}
CASES["clip"]["grid"]["regionCrs"] = "EPSG:32633"


def write_scene(folder: Path) -> None:
    """A scene by arithmetic alone, so that no library's random numbers matter."""
    place = np.arange(WIDTH * HEIGHT).reshape(HEIGHT, WIDTH)

    def numbers(factor: int, modulus: int, dtype: str, nodata: float, every: int) -> np.ndarray:
        values = (place * factor % modulus - modulus // 4 * (dtype[0] == "i")).astype(dtype)
        values[place % every == 2] = nodata
        return values

    write_tif(folder / "a.tif", numbers(37, 256, "u1", 0, 9), nodata=0)
    write_tif(folder / "b.tif", numbers(7919, 40_000, "i2", -1, 11), nodata=-1)
    write_tif(folder / "c.tif", numbers(31, 64, "f4", np.nan, 13) / 8, nodata=np.nan)
    for day in (1, 2, 3):
        write_tif(folder / f"s_2024010{day}.tif", numbers(101 * day, 300, "u2", 0, 2 + day), nodata=0)
    layers = [numbers(1_000_003 * n, 5_000_000, "i4", 9, 7) for n in (1, 2, 3)]
    write_tif(folder / "k.tif", np.stack(layers), nodata=9)


def job_of(name: str, **more: Any) -> dict[str, Any]:
    """The job of a case."""
    job: dict[str, Any] = {**BASE, "formatOptions": OPTIONS}
    for key, value in {**CASES[name], **more}.items():
        job[key] = {**job.get(key, {}), **value} if isinstance(value, dict) else value
    return job


def make(name: str, folder: Path, **more: Any) -> dict[str, bytes]:
    """Exports a case; returns the files that stand for it, by the names they have in the repository."""
    plan = plan_of(job_of(name, **more), folder)
    manifest = export(plan, overwrite=True)
    out = Path(plan.output).parent
    several = len(manifest.shards) > 1
    files = {
        f"{name}{f'-{number:05d}' if several else ''}.tfrecord": (out / shard.name).read_bytes()
        for number, shard in enumerate(manifest.shards)
    }
    if name == "defaults":
        files["defaults-mixer.json"] = (out / "x-mixer.json").read_bytes()
    return files


def main() -> None:
    """Writes every golden file; prints those that have changed."""
    wanted: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as scratch:
        write_scene(Path(scratch))
        for name in CASES:
            wanted |= make(name, Path(scratch))
    there = {path.name: path for pattern in ("*.tfrecord", "*.json") for path in HERE.glob(pattern)}
    for name in sorted(there.keys() - wanted.keys()):
        there[name].unlink()
        print("removed", name)
    for name, data in sorted(wanted.items()):
        if name not in there or there[name].read_bytes() != data:
            (HERE / name).write_bytes(data)
            print("written", name, len(data), "bytes")


if __name__ == "__main__":
    main()
