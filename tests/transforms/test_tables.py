"""The transforms of tables on their own, outside the jobs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_jobs import collected

from patchbeam.records.files import RecordFiles
from patchbeam.records.parse import parse_example
from patchbeam.records.tfrecord import record_offsets, write_records
from patchbeam.tables.encode import record_run
from patchbeam.tables.plan import TablePlan, select
from patchbeam.tables.readers import open_table
from transforms.import_table import InferColumns
from transforms.sampling import DrawPoints
from transforms.tables import EncodeFeatures, ReadFeatures, WriteTable, features_of


@pytest.fixture()
def plan(tmp_path: Path) -> TablePlan:
    pq.write_table(pa.table({"v": np.arange(10.0), "t": [str(i) for i in range(10)]}), tmp_path / "t.parquet")
    source = open_table(str(tmp_path / "t.parquet"))
    return TablePlan(source=source, selectors=select(source, ["t", "v"]), output=str(tmp_path / "out" / "t"))


def test_features_in_batches(plan: TablePlan) -> None:
    found = collected(lambda p: p | ReadFeatures(plan.source, ["v"], ids=True, batch_rows=4))
    assert [batch.first for batch in found] == [0, 4, 8]
    assert [v for batch in found for v in batch.values.column("v").to_pylist()] == list(range(10))
    assert found[2].ids.to_pylist() == ["8", "9"]


def test_records_without_files(plan: TablePlan) -> None:
    (record,) = collected(lambda p: p | features_of(plan) | EncodeFeatures(plan))
    offsets = record_offsets(record.data).tolist()
    assert record.records == 10
    datas = [record.data[a + 12 : b - 4].tobytes() for a, b in pairwise(offsets)]
    assert [(parse_example(d)["t"], parse_example(d)["v"].tolist()) for d in datas] == [
        ([str(i).encode()], [float(i)]) for i in range(10)
    ]


def test_lost_and_repeated_runs_are_found(plan: TablePlan) -> None:
    from patchbeam.tables.encode import FeatureEncoder
    from patchbeam.tables.readers import read_batches

    encoder = FeatureEncoder(plan)
    runs = [encoder.run(b) for b in read_batches(plan.source, ["t", "v"], batch_rows=5)]
    for wrong in (runs[:1], [*runs, runs[0]]):
        with pytest.raises(Exception, match="the runner lost or repeated work"):
            collected(lambda p, wrong=wrong: p | beam.Create(wrong) | WriteTable(plan))
    assert not Path(f"{plan.output}.tfrecord.gz").exists()
    assert record_run(0, 5, runs[0].data, np.diff(record_offsets(runs[0].data)), (0,)).records == 5


def test_what_records_hold(tmp_path: Path) -> None:
    from patchbeam.records.example import ExampleLayout, Feature

    layout = ExampleLayout([Feature("a", "float", 2)])
    name = str(tmp_path / "r.tfrecord")
    write_records(name, [layout.encode([np.array([i, 0.5])])[12:-4] for i in range(100)])
    with RecordFiles.open([name], spool_folder=str(tmp_path), threads=1) as files:
        (found,) = collected(lambda p: p | InferColumns(files))
    assert found.records == 100 and found.columns["a"].longest == 2 and not found.columns["a"].whole


def test_drawn_points(tmp_path: Path) -> None:
    import rasterio
    from rasterio.transform import from_origin

    from pipelines.jobfile.table_models import ExportTableJob
    from pipelines.resolve_table import resolve_export_table

    path = tmp_path / "c.tif"
    profile = {"driver": "GTiff", "width": 8, "height": 4, "count": 1, "dtype": "uint8", "crs": "EPSG:32633"}
    with rasterio.open(path, "w", transform=from_origin(0, 40, 10, 10), **profile) as file:
        file.write(np.arange(32, dtype=np.uint8).reshape(1, 4, 8) % 2 + 1)
    sample = {"sources": str(path), "stratify": "B1", "perClass": 16, "seed": 0}
    job = ExportTableJob.model_validate(
        {"job": "export-table", "output": str(tmp_path / "o"), "sample": sample}
    )
    plan = resolve_export_table(job, str(tmp_path)).sample
    assert plan is not None
    (name,) = collected(lambda p: p | DrawPoints(plan, str(tmp_path / "draw")))
    table = pq.read_table(name)
    # as many as there are: every pixel's centre, row-major
    assert table.column("x").to_pylist() == [5.0 + 10 * i for i in range(8)] * 4
    assert table.column("y").to_pylist() == [y for y in (35.0, 25.0, 15.0, 5.0) for _ in range(8)]
