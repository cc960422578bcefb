"""Jobs of two bands that are split, drawn and counted, and what they have to give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import eager
import exports
import numpy as np
import pytest
import rasterio

from patchbeam.exported import kept_patches
from patchbeam.manifest import Manifest
from patchbeam.patches import Window
from patchbeam.records.parse import parse_example
from patchbeam.tally import PERCENTILES, RELATIVE_ERROR

SIZE, PATCH, KERNEL = 150, 10, 4
SPLIT = {"train": 0.7, "validation": 0.15, "test": 0.15, "block": [4, 3], "seed": 5}


def sources(folder: Path) -> Path:
    """Writes the rasters of the jobs: numbers with a hole, and rare and common classes."""
    generator = np.random.default_rng(3)
    red = generator.integers(1, 60_000, (SIZE, SIZE)).astype(np.uint16)
    red[40:70, 20:55] = 0
    eager.write_tif(folder / "red.tif", red, names=["red"], nodata=0)
    labels = generator.choice([1, 2, 3, 4, 9], (SIZE, SIZE), p=[0.6, 0.3, 0.09, 0.009, 0.001])
    labels[:30] = 1
    eager.write_tif(folder / "labels.tif", labels.astype(np.uint8), names=["landcover"], nodata=9)
    return folder


def job(**more: Any) -> dict[str, Any]:
    options = {"patchDimensions": PATCH, "kernelSize": KERNEL, **more.pop("formatOptions", {})}
    return {
        "sources": {"a": "red.tif", "b": "labels.tif"},
        "bands": [{"source": "a", "name": "red"}, {"source": "b", "name": "landcover"}],
        "formatOptions": options,
        **more,
    }


def records(plan: Any, manifest: Manifest) -> list[bytes]:
    return list(eager.records_of(plan, manifest))


def window(index: int, margin: int = 0) -> Window:
    row, col = divmod(index, SIZE // PATCH)
    return Window(col * PATCH - margin, row * PATCH - margin, PATCH + 2 * margin, PATCH + 2 * margin)


def pixels(path: Path, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and validity of patches without margins, ``(patch, row, col)``."""
    with rasterio.open(path) as file:
        values, valid = file.read(1), file.read_masks(1) > 0
    at = [(slice(w.row_off, w.row_stop), slice(w.col_off, w.col_stop)) for w in map(window, indices.tolist())]
    return np.stack([values[i] for i in at]), np.stack([valid[i] for i in at])


def compare_records(done: exports.Exported, folder: Path) -> None:
    """Every record holds the pixels of the patch that the manifest says, margin included."""
    indices = kept_patches(done.manifest)
    found = records(done.plan, done.manifest)
    assert len(found) == len(indices)
    place = done.plan.options.kernel_width_height[0] // 2
    for index, record in zip(indices.tolist(), found, strict=True):
        values = parse_example(record)
        w = window(index, place)
        where = rasterio.windows.Window(w.col_off, w.row_off, w.width, w.height)
        for name, path in (("red", "red.tif"), ("landcover", "labels.tif")):
            due = exports.by_rasterio(folder / path, 1, where, 0)
            assert np.array_equal(np.asarray(values[name]).reshape(due.shape), due), (index, name)


def compare_statistics(found: Any, values: np.ndarray, valid: np.ndarray, *, classes: bool) -> None:
    flat = values[valid].astype(np.float64)
    assert found.valid_count == flat.size
    assert (found.min, found.max) == (flat.min(), flat.max())
    assert found.mean == pytest.approx(flat.mean(), rel=1e-9)
    assert found.standard_deviation == pytest.approx(flat.std(), rel=1e-9)
    due = np.percentile(flat, PERCENTILES, method="inverted_cdf")
    error = 0 if classes else RELATIVE_ERROR
    assert found.percentile_error == error
    assert list(found.percentiles) == [str(p) for p in PERCENTILES]
    assert (np.abs(np.array(list(found.percentiles.values())) - due) <= error * due).all()
    if not classes:
        assert found.class_histogram is None and found.class_weights is None
        return
    keys, counts = np.unique(values[valid], return_counts=True)
    assert found.class_histogram == tuple(zip(keys.tolist(), counts.tolist(), strict=True))
    weights = flat.size / (len(keys) * counts)
    assert [w for _, w in found.class_weights] == pytest.approx(weights.tolist())
