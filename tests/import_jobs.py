"""A job import-image over records of one map, for tests of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from maps import cut, mixer, write_patches

from patchbeam.mosaic.layout import MapLayout

COLUMNS, ROWS = 6, 9
COUNT = COLUMNS * ROWS
LAYOUT = MapLayout.from_mixer(mixer(COLUMNS, ROWS))
IMAGE = np.random.default_rng(0).integers(0, 200, (16 * ROWS, 32 * COLUMNS)).astype(np.float32)


def one(i: int) -> dict[str, np.ndarray]:
    return {"p": cut(IMAGE, LAYOUT.patches, i, margin=False)}


def write_all(folder: Path) -> Path:
    """Writes records of predictions and their mixer; returns the folder."""
    write_patches(folder, COUNT, one, files=3, gzip="indexed")
    (folder / "scene-mixer.json").write_text(mixer(COLUMNS, ROWS).to_text())
    return folder


def job(folder: Path, **changes: Any) -> str:
    """Writes a job over them; returns its path."""
    given = {
        "job": "import-image",
        "records": "pred-*.tfrecord.gz",
        "mixer": "scene-mixer.json",
        "tileSize": 256,
        "type": "uint8",
        "output": "map/m",
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in (given | changes).items() if v is not None}))
    return str(path)
