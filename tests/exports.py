"""Exports as a user makes them, from a job file, and their shards as TensorFlow sees them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import eager
import numpy as np
import rasterio
import yaml
from affine import Affine
from rasterio.windows import Window

from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from pipelines.export_image import run_export
from pipelines.resolve import load_plan

_numbers = itertools.count()


@dataclass(frozen=True)
class Exported:
    """A finished export and its files."""

    plan: ExportPlan
    manifest: Manifest

    @property
    def prefix(self) -> Path:
        return Path(self.plan.output)

    @property
    def shards(self) -> list[Path]:
        return [self.prefix.parent / shard.name for shard in self.manifest.shards]

    @property
    def mixer(self) -> dict[str, Any]:
        return json.loads(Path(f"{self.prefix}-mixer.json").read_text())

    @property
    def affine(self) -> Affine:
        """From pixels of the grid to the map, as the mixer tells it."""
        return Affine(*self.mixer["projection"]["affine"]["doubleMatrix"])

    def places(self) -> list[Window]:
        """The stored pixels of each patch, in pixels of the grid, by the mixer and the kernel alone."""
        mixer = self.mixer
        (width, height), across = mixer["patchDimensions"], mixer["patchesPerRow"]
        x, y = (k // 2 for k in self.plan.options.kernel_width_height)
        return [
            Window(col * width - x, row * height - y, width + 2 * x, height + 2 * y)
            for row, col in (divmod(i, across) for i in range(mixer["totalPatches"]))
        ]


def write_job(folder: Path, job: Mapping[str, Any]) -> Path:
    """Writes a job file; its output is in a folder of its own unless the job names one."""
    number = next(_numbers)
    path = folder / f"job{number}.yaml"
    path.write_text(
        yaml.safe_dump({"job": "export-image", "output": f"out{number}/scene", **job}, sort_keys=False)
    )
    return path


def run_eagerly(folder: Path, job: Mapping[str, Any]) -> Exported:
    """Writes the job file, plans it and runs the stages without Beam, which takes a tenth of the time."""
    plan = load_plan(str(write_job(folder, job)))
    return Exported(plan, eager.export(plan, threads=2))


def run_job(
    folder: Path,
    job: Mapping[str, Any],
    *,
    beam: Sequence[str] = (),
    workers: int = 2,
    overwrite: bool = False,
) -> Exported:
    """Writes the job file, plans it and runs it."""
    plan = load_plan(str(write_job(folder, job)))
    return Exported(plan, run_export(plan, beam, workers=workers, overwrite=overwrite))


def parsed(export: Exported, spec: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Every record of every shard by TensorFlow: ``(record, …)`` of each feature."""
    import tensorflow as tf

    kind = "GZIP" if export.plan.options.compressed else ""
    records = tf.data.TFRecordDataset([str(path) for path in export.shards], compression_type=kind)
    rows = list(
        records.map(lambda record: tf.io.parse_single_example(record, dict(spec))).as_numpy_iterator()
    )
    # as objects, because NumPy's own byte texts lose zeros at their end
    return {name: np.stack([_whole(row[name]) for row in rows]) for name in spec}


def _whole(value: Any) -> np.ndarray:
    return np.array(value, object) if isinstance(value, bytes) else np.asarray(value)


def floats(shape: Sequence[int], *names: str) -> dict[str, Any]:
    """What a user types to read float bands of this shape, ``(row, col)``."""
    import tensorflow as tf

    return {name: tf.io.FixedLenFeature(list(shape), tf.float32) for name in names}


def by_rasterio(path: Path, band: int | Sequence[int], window: Window, default: float) -> np.ndarray:
    """rasterio's own read of a window that may reach out of the file; masked pixels hold ``default``."""
    with rasterio.open(path) as file:
        col, row, width, height = (int(n) for n in window.flatten())
        left, top = max(col, 0), max(row, 0)
        right, bottom = min(col + width, file.width), min(row + height, file.height)
        lead = () if isinstance(band, int) else (len(band),)
        whole = np.full((*lead, height, width), default, np.float64)
        if right > left and bottom > top:
            there = file.read(band, window=Window(left, top, right - left, bottom - top), masked=True)
            at = (..., slice(top - row, bottom - row), slice(left - col, right - col))
            whole[at] = there.astype(np.float64).filled(default)
        return whole


def moved(place: Window, affine: Affine, path: Path, turn: float = 0.0) -> Window:
    """The same place in pixels of a file that lies on the grid's lattice, ``turn`` further east."""
    with rasterio.open(path) as file:
        a, b, c, d, e, f = affine[:6]
        x, y = a * place.col_off + b * place.row_off + c, d * place.col_off + e * place.row_off + f
        a, b, c, d, e, f = (~file.transform)[:6]
        col, row = a * (x + turn) + b * y + c, d * (x + turn) + e * y + f
    assert abs(col - round(col)) < 1e-3 and abs(row - round(row)) < 1e-3
    return Window(round(col), round(row), place.width, place.height)
