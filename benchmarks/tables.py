"""Features to records beside the loop everyone writes; and the memory of a large table.

    python benchmarks/tables.py [--features 1000000] [--loop 20000] [--rounds 5] [--formats parquet,gpkg]
    python benchmarks/tables.py --features 10000000 --formats parquet --rounds 1

The loop reads the same table with pyogrio or pyarrow, builds one ``tf.train.Example`` a feature and writes
it with ``tf.io.TFRecordWriter`` and GZIP, on the first ``--loop`` features. The two take turns, each a
process of its own, where its peak memory is measured; ours is the whole job through Beam, start-up aside.
Ratios are taken within a round. The first records of both are compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

PROPERTIES = 10
COMPARED = 50


def write_table(path: Path, features: int) -> None:
    """Ten float properties and a point a feature."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pyogrio

    random = np.random.default_rng(0)
    table = pa.table({f"property_{i}": random.random(features) for i in range(PROPERTIES)})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=1 << 17)
        return
    points = np.zeros(features, [("order", "u1"), ("type", "<u4"), ("x", "<f8"), ("y", "<f8")])
    points["order"] = points["type"] = 1
    points["x"], points["y"] = random.uniform(-180, 180, features), random.uniform(-80, 80, features)
    data = pa.py_buffer(points.tobytes())
    wkb = pa.Array.from_buffers(pa.binary(21), features, [None, data]).cast(pa.binary())
    pyogrio.write_arrow(
        table.append_column("geometry", wkb),
        path,
        layer="points",
        driver="GPKG",
        geometry_name="geometry",
        geometry_type="Point",
        crs="EPSG:4326",
    )


def ours(table: Path, output: Path) -> float:
    """Returns the seconds of the whole job, start-up aside."""
    from pipelines.export_table import run_export_table
    from pipelines.jobfile.table_models import ExportTableJob
    from pipelines.resolve_table import resolve_export_table

    names = [f"property_{i}" for i in range(PROPERTIES)]
    job = {"job": "export-table", "features": str(table), "selectors": names, "output": str(output)}
    plan = resolve_export_table(ExportTableJob.model_validate(job), "/")
    started = time.perf_counter()
    run_export_table(plan, overwrite=True)
    return time.perf_counter() - started


def loop(table: Path, output: Path, features: int) -> float:
    """Returns the seconds of the loop, imports aside."""
    import pyarrow.parquet as pq
    import pyogrio
    import tensorflow as tf

    started = time.perf_counter()
    if table.suffix == ".parquet":
        frame = pq.ParquetFile(table).read_row_group(0).slice(0, features).to_pandas()
    else:
        frame = pyogrio.read_arrow(table, read_geometry=False, max_features=features)[1].to_pandas()
    options = tf.io.TFRecordOptions(compression_type="GZIP")
    with tf.io.TFRecordWriter(f"{output}.tfrecord.gz", options) as writer:
        for row in frame.to_dict("records"):
            feature = {
                name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                for name, value in row.items()
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
    return time.perf_counter() - started


def first_records(folder: Path, case: str) -> list[dict[str, list[float]]]:
    """Returns what the first records of a case hold."""
    from itertools import islice

    from patchbeam.records.example import parse_example
    from patchbeam.records.tfrecord import read_records

    found = sorted(folder.glob(f"{case}*.tfrecord.gz"))[0]
    return [
        {name: values.tolist() for name, values in sorted(parse_example(record).items())}  # type: ignore[union-attr]
        for record in islice(read_records(str(found)), COMPARED)
    ]


def summary(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Returns features a second of both, their ratios, CPU seconds and peak memory of the processes."""
    rates = {case: [run["payload"] / run["seconds"] for run in own] for case, own in runs.items()}
    ratios = [a / b for a, b in zip(rates["ours"], rates["loop"], strict=True)]
    lines = []
    for case, own in rates.items():
        cpu = statistics.median(run["cpu"] for run in runs[case])
        peak = statistics.median(run["peak_mib"] for run in runs[case])
        lines.append(
            f"  {case:<5}{statistics.median(own):>10,.0f} features/s ({min(own):,.0f}–{max(own):,.0f})"
            f"{cpu:>8.1f} CPU s{peak:>8.0f} MiB at the most"
        )
    spread = f"({min(ratios):.1f}–{max(ratios):.1f})"
    return "\n".join([*lines, f"  ratio {statistics.median(ratios):.1f} {spread}"])


def main() -> None:
    """Prints both rates, their ratio and the peak memory, for each format."""
    from common import interleave, report

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--loop", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--formats", default="parquet,gpkg")
    parser.add_argument("--case", choices=["ours", "loop"], help=argparse.SUPPRESS)
    parser.add_argument("--table", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        output = given.table.parent / given.case
        if given.case == "ours":
            report(ours(given.table, output), given.features)
        else:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            report(loop(given.table, output, given.loop), min(given.loop, given.features))
        return
    for suffix in given.formats.split(","):
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as name:
            folder = Path(name)
            table = folder / f"table.{suffix}"
            write_table(table, given.features)
            numbers = ["--features", str(given.features), "--loop", str(given.loop)]
            command = [sys.executable, __file__, "--table", str(table), *numbers]
            runs = interleave({case: [*command, "--case", case] for case in ("ours", "loop")}, given.rounds)
            if first_records(folder, "ours") != first_records(folder, "loop"):
                raise SystemExit(f"{suffix}: the records of both differ")
            print(f"{suffix}: {given.features:,} features of {PROPERTIES} properties; records are equal")
            print(summary(runs), flush=True)


if __name__ == "__main__":
    main()
