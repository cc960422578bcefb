"""Table jobs as a user runs them, and records as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from patchbeam.records.parse import parse_example
from patchbeam.records.tfrecord import read_records
from patchbeam.tables.importing.plan import ImportTableReport
from patchbeam.tables.publish import TableReport
from pipelines.beam_options import beam_options, new_pipeline
from pipelines.export_table import run_export_table
from pipelines.import_table import resolve_import_table, run_import_table
from pipelines.jobfile.table_models import ExportTableJob, ImportTableJob
from pipelines.resolve_table import resolve_export_table


def export_table(
    folder: Path, *, beam: Sequence[str] = (), overwrite: bool = False, **job: Any
) -> TableReport:
    """Runs an export; its output is ``folder/out/table`` unless the job names one."""
    model = ExportTableJob.model_validate({"job": "export-table", "output": "out/table", **job})
    return run_export_table(resolve_export_table(model, str(folder)), beam, workers=2, overwrite=overwrite)


def import_table(folder: Path, *, overwrite: bool = False, **job: Any) -> ImportTableReport:
    model = ImportTableJob.model_validate({"job": "import-table", **job})
    return run_import_table(resolve_import_table(model, str(folder)), workers=2, overwrite=overwrite)


def records_of(report: TableReport) -> list[dict[str, Any]]:
    """Every record: floats as a list, texts as a list of ``str``."""
    return [plain(parse_example(data)) for name in report.files for data in read_records(name)]


def plain(example: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [text.decode() for text in values] if isinstance(values, list) else values.tolist()
        for name, values in example.items()
    }


def points(x: Sequence[float], y: Sequence[float]) -> pa.Array:
    """WKB points; NaN makes a null."""
    import shapely

    made = [None if np.isnan(a) else shapely.to_wkb(shapely.Point(a, b)) for a, b in zip(x, y, strict=True)]
    return pa.array(made, pa.binary())


def write_vector(
    path: Path,
    table: pa.Table,
    wkb: pa.Array | None,
    driver: str,
    *,
    crs: str = "EPSG:4326",
    kind: str = "Point",
    **more: Any,
) -> Path:
    import pyogrio

    if wkb is not None:
        table = table.append_column("geometry", wkb)
    pyogrio.write_arrow(
        table,
        path,
        driver=driver,
        geometry_name=None if wkb is None else "geometry",
        geometry_type=None if wkb is None else kind,
        crs=None if wkb is None else crs,
        **more,
    )
    return path


def f32(values: Any) -> list[float]:
    return np.asarray(values, np.float64).astype(np.float32).astype(np.float64).tolist()


_KEPT: list[Any] = []


def _keep(value: Any) -> None:
    _KEPT.append(value)


def collected(build: Callable[[beam.Pipeline], beam.PCollection]) -> list[Any]:
    """What a pipeline's last collection holds."""
    _KEPT.clear()
    pipeline = new_pipeline(beam_options([], 1)[0])
    build(pipeline) | "Keep" >> beam.Map(_keep)
    pipeline.run().wait_until_finish()
    return list(_KEPT)
