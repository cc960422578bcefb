"""A small export in every form of record file, and copies of it to damage."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from eager import export, plan_of, write_tif

from patchbeam.verify import Finding, Report, verify

SIZE = 48
PATCH = 16
RECORDS = 9  # three shards of three


def make(folder: Path, **job: Any) -> Path:
    """An export of nine patches of noise in two bands; its prefix."""
    generator = np.random.default_rng(1)
    values = generator.integers(1, 60_000, (2, SIZE, SIZE)).astype(np.uint16)
    values[:, :5, :5] = 0
    write_tif(folder / "scene.tif", values, names=["red", "nir"], nodata=0)
    options = {"patchDimensions": [PATCH, PATCH], "kernelSize": [8, 8], **job.pop("formatOptions", {})}
    plan = plan_of(
        {
            "sources": "scene.tif",
            "formatOptions": options,
            "maskBand": "valid",
            "output": "out/scene",
            **job,
        },
        folder,
    )
    limit = 3 * plan.record_size[1]
    if "maxFileSize" not in options:
        plan = plan_of(
            {
                "sources": "scene.tif",
                "formatOptions": {**options, "maxFileSize": limit},
                "maskBand": "valid",
                "output": "out/scene",
                **job,
            },
            folder,
        )
    export(plan)
    return folder / "out" / "scene"


FORMS: dict[str, dict[str, Any]] = {
    "plain": {"formatOptions": {"compressed": False}},
    "indexed": {},
    "zlib6": {"gzip": "zlib6"},
}


@cache
def _original(form: str) -> Path:
    folder = tempfile.TemporaryDirectory(prefix="patchbeam-test-")
    atexit.register(folder.cleanup)
    return make(Path(folder.name), **FORMS[form])


def copy_of(form: str, folder: Path) -> Path:
    """A copy of the export in one of the forms, to be damaged; its prefix."""
    shutil.copytree(_original(form).parent, folder / "out")
    return folder / "out" / "scene"


def shard(prefix: Path, number: int) -> Path:
    return next(prefix.parent.glob(f"scene-{number:05d}.tfrecord*"))


def flip(path: Path, byte: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= bit
    path.write_bytes(data)


def found(report: Report, **where: Any) -> list[Finding]:
    return [f for f in report.findings if all(getattr(f, key) == value for key, value in where.items())]


def run(prefix: Path, **options: Any) -> Report:
    report = verify(str(prefix), threads=2, **options)
    json.dumps(report.to_json(), allow_nan=False)
    return report
