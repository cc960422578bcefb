"""Every raster of the shared collection goes through an export, or is refused with advice.

The outcome of each stands in ``real_rasters.tsv``. Of those exported, patches at the corners and in the
middle are compared with rasterio's own reads and masks.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from eager import export, plan_of, records_of
from rasterio.windows import Window
from shared import shared_data

from patchbeam import errors
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.rasters.masks import nodata_mask, opaque
from patchbeam.records.parse import parse_example

FOLDER = (shared_data() or Path("/nowhere")) / "rasters"
TABLE = Path(__file__).with_name("real_rasters.tsv")
SMALL, LARGE, MANY = 64, 256, 1000

pytestmark = [
    pytest.mark.skipif(not (FOLDER / "MANIFEST.tsv").exists(), reason="the shared rasters are not here"),
    pytest.mark.filterwarnings("ignore"),
]


def table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def folder_of(name: str) -> str:
    return name.partition("/")[0]


def test_the_table_knows_every_file() -> None:
    assert {row["file"] for row in table(TABLE)} == {row["file"] for row in table(FOLDER / "MANIFEST.tsv")}


@pytest.mark.parametrize("folder", sorted({folder_of(row["file"]) for row in table(TABLE)}))
def test_rasters(folder: str, tmp_path: Path) -> None:
    wrong = []
    for row in table(TABLE):
        if folder_of(row["file"]) == folder:
            out = tmp_path / str(len(list(tmp_path.iterdir())))
            out.mkdir()
            wrong += [f"{row['file']}: {problem}" for problem in problems(row, out)]
    assert not wrong, "\n".join(wrong)


def problems(row: dict[str, str], out: Path) -> Iterator[str]:
    """Yields what differs from the table and, of an exported file, from rasterio."""
    path = FOLDER / row["file"]
    try:
        plan = plan_in_patches(path, out)
        manifest = export(plan)
    except errors.PatchbeamError as error:
        if row["outcome"] != "refused":
            yield f"is refused: {error}"
        elif type(error).__name__ != row["error"] or row["says"] not in str(error):
            yield f"is refused with another error: {type(error).__name__}: {error}"
        elif path.name not in str(error):
            yield f"is not named in its error: {error}"
        return
    says = f"{plan.patches.count} patches, {len(plan.bands)} bands"
    # another build of GDAL may know what this one does not
    if row["outcome"] != "exported" and row["says"] != "missing codec":
        yield f"is exported, and not refused with {row['says']!r}"
    elif row["outcome"] == "exported" and row["says"] != says:
        yield f"has {says}, not {row['says']}"
    yield from differences(path, plan, manifest)


def plan_in_patches(path: Path, out: Path) -> ExportPlan:
    job: dict[str, Any] = {
        "sources": str(path),
        "edge": "pad",
        "numbers": "native",
        "maskBand": "every band is valid",
        "output": str(out / "x"),
    }
    plan = plan_of({**job, "formatOptions": {"patchDimensions": SMALL}}, out)
    if plan.patches.count <= MANY:
        return plan
    return plan_of({**job, "formatOptions": {"patchDimensions": LARGE}}, out)


def differences(path: Path, plan: ExportPlan, manifest: Manifest) -> Iterator[str]:
    patches = plan.patches
    assert manifest.patches.written == patches.count
    wanted = {
        0,
        patches.columns - 1,
        patches.index(patches.rows // 2, patches.columns // 2),
        patches.count - patches.columns,
        patches.count - 1,
    }
    with rasterio.open(plan.sources[0].files[0].path) as dataset:
        for number, record in enumerate(records_of(plan, manifest)):
            if number in wanted:
                for name in unequal(dataset, plan, number, parse_example(record)):
                    yield f"patch {number}: {name} differs from rasterio"


def unequal(dataset: Any, plan: ExportPlan, number: int, record: dict[str, Any]) -> Iterator[str]:
    """Yields the names of the features that are not what rasterio reads there."""
    row, col = divmod(number, plan.patches.columns)
    width, height = plan.patches.patch_width_height
    there = Window(
        col * width,
        row * height,
        min(width, dataset.width - col * width),
        min(height, dataset.height - row * height),
    )
    every = np.zeros((height, width), bool)
    every[: there.height, : there.width] = True
    for band in plan.bands:
        values = dataset.read(band.index, window=there)
        valid = expected_mask(dataset, plan, band.index, there, values)
        every[: there.height, : there.width] &= valid
        patch = np.zeros((height, width), values.dtype)
        patch[: there.height, : there.width] = np.where(valid, values, 0)
        if not same(patch, record[band.name]):
            yield band.name
    if not same(every.astype(np.uint8), record["every band is valid"]):
        yield "the mask"


def same(expected: np.ndarray, feature: Any) -> bool:
    if expected.dtype == np.uint8:
        return b"".join(feature) == expected.tobytes()
    wire = np.float32 if expected.dtype.kind == "f" else np.int64
    return np.array_equal(np.asarray(feature).reshape(expected.shape), expected.astype(wire), equal_nan=True)


def expected_mask(
    dataset: Any, plan: ExportPlan, index: int, there: Window, values: np.ndarray
) -> np.ndarray:
    """GDAL's own mask of a band, with alpha taken beside nodata and nodata that rasterio leaves out."""
    header = plan.sources[0].files[0]
    mask = np.asarray(dataset.read_masks(index, window=there) == 255)
    own = nodata_mask(values, header.nodata[index - 1])
    if header.alpha is not None:
        # GDAL takes alpha for data where there is nodata, and knows one full value of wide alpha only
        mask = opaque(dataset.read(header.alpha, window=there))
    return mask if own is None else mask & own
