"""Image export beside what people use today and beside the limit of the machine.

    python benchmarks/export.py [--size 4096] [--bands 4] [--rounds 5] [--threads 2] [--plain]
                                [--cases ours,loop,beam,limit] [--layout tiled|striped]
                                [--compress deflate|zstd|none] [--kernel 64]

The same sample scene is exported in patches of 256 × 256 by each case in turn, each a process of its own:

- ``ours``: ``patchbeam export-image`` on all cores;
- ``loop``: the loop everyone writes: rasterio window → ``tf.train.Example`` → ``tf.io.TFRecordWriter``;
- ``beam``: the same in Beam, with its own ``WriteToTFRecord``;
- ``limit``: the stages of ours without Beam, pieces or sidecars, straight into one file.

Rates are of float32 payload and leave start-up (imports, planning) out; whole-process figures stand beside
them.
Ratios are taken within a round; minimum and maximum over the rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

PATCH = 256


def job_of(args: argparse.Namespace) -> Any:
    """Returns the plan of the export that all cases do."""
    import yaml

    from pipelines.resolve import load_plan

    path = Path(args.out).with_suffix(".yaml")
    options = {"patchDimensions": PATCH, "kernelSize": args.kernel, "compressed": not args.plain}
    path.write_text(
        yaml.safe_dump(
            {
                "job": "export-image",
                "sources": {"scene": args.scene},
                "formatOptions": options,
                "gzip": args.gzip,
                "output": args.out,
            }
        )
    )
    return load_plan(str(path))


def ours(args: argparse.Namespace) -> int:
    from pipelines.export_image import run_export

    plan = job_of(args)
    started = time.perf_counter()
    run_export(plan, workers=args.threads, overwrite=True)
    return finish(started, plan)


def limit(args: argparse.Namespace) -> int:
    """Read, encode and compress block by block; what the pipeline adds is not in it."""
    from patchbeam.export import BlockReader, block_encoder
    from patchbeam.pool import Pool
    from patchbeam.records.gzip import compress_members

    plan = job_of(args)
    started = time.perf_counter()
    with Pool(args.threads) as pool, open(args.out + ".limit", "wb") as target:
        reader = BlockReader(plan, threads=args.threads)
        encoder = block_encoder(plan, pool)
        for block in range(plan.blocks.count):
            for run in encoder.runs(reader.read(block)):
                if args.plain:
                    target.write(run.data)
                else:
                    for member in compress_members(run.data, [run.record_size] * run.records, pool=pool):
                        target.write(member)
        reader.close()
    return finish(started, plan)


def finish(started: float, plan: Any) -> int:
    from common import report

    seconds = time.perf_counter() - started
    width, height = plan.patches.stored_width_height
    report(seconds, plan.patches.count * width * height * 4 * len(plan.bands))
    return 0


def windows(scene: str, kernel: int) -> list[Any]:
    import rasterio
    from rasterio.windows import Window

    with rasterio.open(scene) as dataset:
        margin = kernel // 2
        return [
            Window(col - margin, row - margin, PATCH + 2 * margin, PATCH + 2 * margin)
            for row in range(0, dataset.height - PATCH + 1, PATCH)
            for col in range(0, dataset.width - PATCH + 1, PATCH)
        ]


def example_of(dataset: Any, window: Any) -> bytes:
    """One patch as a serialized ``tf.train.Example``, as most scripts build it."""
    import numpy as np
    import tensorflow as tf

    pixels = dataset.read(window=window, boundless=True, fill_value=0).astype(np.float32)
    features = {
        name: tf.train.Feature(float_list=tf.train.FloatList(value=band.flatten()))
        for name, band in zip(dataset.descriptions, pixels, strict=True)
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def loop(args: argparse.Namespace) -> int:
    import rasterio
    import tensorflow as tf
    from common import report

    todo = windows(args.scene, args.kernel)
    started = time.perf_counter()
    with (
        rasterio.open(args.scene) as dataset,
        tf.io.TFRecordWriter(args.out + ".loop", None if args.plain else "GZIP") as writer,
    ):
        for window in todo:
            writer.write(example_of(dataset, window))
        bands = dataset.count
    report(time.perf_counter() - started, len(todo) * int(todo[0].width) ** 2 * 4 * bands)
    return 0


def beam(args: argparse.Namespace) -> int:
    import apache_beam
    import rasterio
    from apache_beam.io.tfrecordio import WriteToTFRecord
    from common import report

    from pipelines.beam_options import LOCAL_RUNNER

    todo = windows(args.scene, args.kernel)
    scene = args.scene

    class Encode(apache_beam.DoFn):
        def setup(self) -> None:
            self.dataset = rasterio.open(scene)

        def process(self, window: Any) -> Any:
            yield example_of(self.dataset, window)

    started = time.perf_counter()
    pipeline = apache_beam.Pipeline(LOCAL_RUNNER)
    suffix = ".tfrecord" if args.plain else ".tfrecord.gz"
    _ = (
        pipeline
        | apache_beam.Create(todo)
        | apache_beam.Reshuffle()
        | apache_beam.ParDo(Encode())
        | WriteToTFRecord(args.out + "-beam", file_name_suffix=suffix)
    )
    pipeline.run().wait_until_finish()
    with rasterio.open(scene) as dataset:
        bands = dataset.count
    report(time.perf_counter() - started, len(todo) * int(todo[0].width) ** 2 * 4 * bands)
    return 0


CASES = {"ours": ours, "limit": limit, "loop": loop, "beam": beam}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--bands", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cases", default="loop,ours,beam,limit")
    parser.add_argument("--plain", action="store_true", help="no compression")
    parser.add_argument("--gzip", default="indexed")
    parser.add_argument("--kernel", type=int, default=1)
    parser.add_argument("--layout", default="tiled")
    parser.add_argument("--compress", default="deflate")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--scene", default="", help="a raster of one's own; default: a sample scene")
    parser.add_argument("--out", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case:
        return CASES[args.case](args)
    from common import interleave, table

    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as folder:
        scene = args.scene
        if not scene:
            from patchbeam.scene import write_scene

            scene = f"{folder}/scene.tif"
            write_scene(
                scene,
                width=args.size,
                height=args.size,
                bands=args.bands,
                layout=args.layout,
                compress=args.compress,
                class_map=False,
            )
        names = args.cases.split(",")
        # the last one of an option counts
        command = [sys.executable, __file__, *sys.argv[1:], "--scene", scene]
        cases = {n: [*command, "--case", n, "--out", f"{folder}/{n}"] for n in names}
        print(table(interleave(cases, args.rounds), names[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
