"""``mask: sources``: what the export masked is rebuilt from the manifest, whatever masked it, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from eager import export, plan_of, write_tif
from maps import import_plan, run_plan

from patchbeam.errors import JobError
from patchbeam.verify import verify

SIDE = 48


def write_inputs(folder: Path) -> None:
    random = np.random.default_rng(5)
    values = random.integers(1, 200, (3, SIDE, SIDE)).astype(np.uint8)
    write_tif(folder / "in.tif", values)
    values[:, 5:9, 7:30] = 0
    values[0, 20:30, 20:30] = 0  # the run of bands is masked only where every step is
    write_tif(folder / "steps.tif", values, nodata=0)
    with rasterio.open(folder / "in.tif") as file:
        profile, size = file.profile, file.transform.a
        left, top = file.transform.c, file.transform.f
    values[0, :16] = 255
    values[0, 4:8] = 0
    with rasterio.open(folder / "bare.tif", "w", **{**profile, "crs": None, "nodata": 0}) as file:
        file.write(values)
    box = shapely.box(left + 3 * size, top - 30 * size, left + 25 * size, top - 8 * size)
    pyogrio.raw.write(
        folder / "fields.gpkg",
        shapely.to_wkb([box]),
        [np.array([7])],
        ["crop"],
        geometry_type="Polygon",
        crs="EPSG:32633",
    )


CASES: dict[str, dict[str, Any]] = {
    "quality": {"sources": {"a": {"path": "in.tif", "mask": {"band": 1, "drop": list(range(1, 60))}}}},
    "bits": {"sources": {"a": {"path": "in.tif", "mask": {"band": 2, "bits": [3]}}}},
    "vector": {
        "sources": {
            "a": "in.tif",
            "v": {"vector": "fields.gpkg", "attribute": "crop", "background": "masked"},
        }
    },
    "crs": {"sources": {"a": {"path": "bare.tif", "crs": "EPSG:32633"}}},
    "another crs": {"sources": {"g": "in.tif", "a": {"path": "steps.tif", "crs": "EPSG:25833"}}},
    "run of bands": {
        "sources": {"a": "steps.tif"},
        "bands": [{"source": "a", "band": [1, 2, 3], "name": "x"}],
    },
}


def job_of(case: str) -> dict[str, Any]:
    options = {"patchDimensions": 16, "kernelSize": 3, "defaultValue": 99, "maskedThreshold": 1}
    if case == "run of bands":
        options["tensorDepths"] = {"x": 3}
    return {**CASES[case], "formatOptions": options, "maskBand": "valid", "output": "e/s"}


@pytest.mark.parametrize("case", sorted(CASES))
def test_what_was_masked_is_rebuilt(tmp_path: Path, case: str) -> None:
    write_inputs(tmp_path)
    manifest = export(plan_of(job_of(case), tmp_path))
    bands = [band.name for band in manifest.bands if band.name != "valid"]
    masks = []
    for mask in ("valid", "sources"):
        job = {"records": "e/s", "bands": bands, "mask": mask, "nodata": 255, "output": f"m/{mask}"}
        run_plan(import_plan(job, tmp_path))
        with rasterio.open(tmp_path / "m" / f"{mask}.tif") as made:
            masks.append(made.read(masked=True).mask)
    assert masks[0].any() and not masks[0].all()
    np.testing.assert_array_equal(masks[0], masks[1])
    report = verify(str(tmp_path / "e" / "s"), threads=1, sources=9)
    assert report.ok, report.findings
    assert manifest.sources[-1].crs_wkt is None or "crs" in case


def test_a_quality_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    export(plan_of(job_of("quality"), tmp_path))
    write_inputs(tmp_path)
    job = {"records": "e/s", "mask": "sources", "output": "m/m"}
    with pytest.raises(JobError, match="is not the file that was exported"):
        import_plan(job, tmp_path)
