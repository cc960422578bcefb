"""Features to records against the loop everyone writes, in one run; and the memory of a large table.

Run: ``python benchmarks/tables.py [--features 1000000] [--loop 20000] [--folder DIR]``

The loop reads the same table with pyogrio or pyarrow, builds one ``tf.train.Example`` a feature and writes
it with ``tf.io.TFRecordWriter`` and GZIP, on the first ``--loop`` features. Each side runs in a process of
its own, where its peak memory is measured; ours is the whole job through Beam, start-up aside.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROPERTIES = 10


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


def ours(table: Path, output: Path) -> tuple[float, float]:
    """Seconds of the whole job by the clock and by the processor, start-up aside."""
    from pipelines.export_table import run_export_table
    from pipelines.jobfile.table_models import ExportTableJob
    from pipelines.resolve_table import resolve_export_table

    names = [f"property_{i}" for i in range(PROPERTIES)]
    job = {"job": "export-table", "features": str(table), "selectors": names, "output": str(output)}
    plan = resolve_export_table(ExportTableJob.model_validate(job), "/")
    start = time.perf_counter(), time.process_time()
    run_export_table(plan, overwrite=True)
    return time.perf_counter() - start[0], time.process_time() - start[1]


def loop(table: Path, output: Path, features: int) -> tuple[float, float]:
    """Seconds of the loop by the clock and by the processor, imports aside."""
    import pyarrow.parquet as pq
    import pyogrio
    import tensorflow as tf

    start = time.perf_counter(), time.process_time()
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
    return time.perf_counter() - start[0], time.process_time() - start[1]


def measured(*arguments: str) -> dict[str, float]:
    """Runs one side in a process of its own."""
    run = subprocess.run(
        [sys.executable, __file__, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SystemExit(run.stderr)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prints features a second of both, their ratio, and the peak memory of ours."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=1_000_000)
    parser.add_argument("--loop", type=int, default=20_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--side", choices=["ours", "loop"])
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.side:
        output = given.folder / given.side
        seconds = ours(given.table, output) if given.side == "ours" else loop(given.table, output, given.loop)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"seconds": seconds[0], "cpu": seconds[1], "peak_mib": peak / 1024}))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for suffix in (".parquet", ".gpkg"):
            table = Path(folder) / f"table{suffix}"
            write_table(table, given.features)
            common = ["--folder", folder, "--table", str(table), "--loop", str(given.loop)]
            # turn and turn about, and the best of each: a busy machine then hurts both alike
            runs = [(side, measured("--side", side, *common)) for side in ("loop", "ours") * given.repeat]
            best = {
                side: {key: min(run[key] for name, run in runs if name == side) for key in ("seconds", "cpu")}
                for side in ("loop", "ours")
            }
            peak = max(run["peak_mib"] for name, run in runs if name == "ours")
            print(
                f"{suffix[1:]}: {given.features} features of {PROPERTIES} properties, "
                f"peak memory {peak:.0f} MiB"
            )
            for key, what in (("seconds", "wall"), ("cpu", "processor")):
                rate = given.features / best["ours"][key], given.loop / best["loop"][key]
                print(
                    f"  by {what} time: {rate[0]:,.0f} features/s, the loop {rate[1]:,.0f}: "
                    f"{rate[0] / rate[1]:.1f} times"
                )


if __name__ == "__main__":
    main()
