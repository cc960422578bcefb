"""Image export beside what people use today and beside the limit of the machine.

    python benchmarks/export.py [--size 4096] [--bands 4] [--rounds 5] [--threads 2] [--plain]
                                [--cases loop,ours,beam,limit] [--layout tiled|striped]
                                [--compress deflate|zstd|none] [--kernel 64] [--files 16] [--share 4]
    python benchmarks/export.py --cases reproject,ours --warp nearest|bilinear|cubic

The same sample scene is exported in patches of 256 × 256 by each case in turn, each a process of its own:

- ``ours``: ``patchbeam export-image`` on all cores;
- ``loop``: the loop everyone writes: rasterio window → ``tf.train.Example`` → ``tf.io.TFRecordWriter``;
- ``beam``: the same in Beam, with its own ``WriteToTFRecord``;
- ``limit``: what one process can do that does nothing else (``benchmarks/limit.py``);
- ``reproject``: with ``--warp``: one ``rasterio.warp.reproject`` of the whole scene onto the grid that
  ``ours`` exports, in memory; nothing is encoded or written.

Rates are of float32 payload and leave start-up (imports, planning, wiring the pipeline) out; whole-process
figures stand beside them. Ratios are taken within a round; minimum and maximum over the rounds.
``--share 4`` lets ``loop`` and ``beam`` do the first quarter of the patches: their rates do not depend on how
many there are, and they take minutes for a gigabyte.
``--files 16`` cuts the scene into a mosaic of 4 × 4 files, for ``ours`` and ``limit``.
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
WARPED_CRS = "EPSG:3035"


def scenes(args: argparse.Namespace) -> list[str]:
    """Returns the files of the scene."""
    path = Path(args.scene)
    return [str(file) for file in sorted(path.iterdir())] if path.is_dir() else [str(path)]


def cut(scene: str, folder: str, files: int) -> str:
    """Cuts a scene into a square of files; returns their folder."""
    import rasterio
    from rasterio.windows import Window, transform

    side = round(files**0.5)
    target = Path(folder) / "files"
    target.mkdir()
    with rasterio.open(scene) as dataset:
        width, height = dataset.width // side, dataset.height // side
        for number in range(side * side):
            row, column = divmod(number, side)
            window = Window(column * width, row * height, width, height)
            profile = dataset.profile | {"width": width, "height": height}
            profile["transform"] = transform(window, dataset.transform)
            with rasterio.open(target / f"{number:02d}.tif", "w", **profile) as part:
                for _, block in part.block_windows(1):
                    at = Window(
                        block.col_off + window.col_off,
                        block.row_off + window.row_off,
                        block.width,
                        block.height,
                    )
                    part.write(dataset.read(window=at), window=block)
                part.descriptions = dataset.descriptions
    return str(target)


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
                "sources": {
                    "scene": {"path": scenes(args), **({"resampling": args.warp} if args.warp else {})}
                },
                **({"grid": {"crs": WARPED_CRS, "scale": 10}} if args.warp else {}),
                "formatOptions": options,
                "gzip": args.gzip,
                "output": args.out,
            }
        )
    )
    return load_plan(str(path))


def ours(args: argparse.Namespace) -> int:
    from pipelines import export_image

    plan, run, begun = job_of(args), export_image.run_pipeline, 0.0

    def timed(*given: Any, **options: Any) -> Any:
        nonlocal begun
        begun = time.perf_counter()
        return run(*given, **options)

    export_image.run_pipeline = timed
    export_image.run_export(plan, workers=args.threads, overwrite=True)
    return finish(begun, plan)


def limit(args: argparse.Namespace) -> int:
    from common import report
    from limit import export

    started = time.perf_counter()
    paths = scenes(args)
    count = export(
        paths, args.out, patch=PATCH, kernel=args.kernel, gzip=not args.plain, threads=args.threads
    )
    report(time.perf_counter() - started, count * (PATCH + args.kernel // 2 * 2) ** 2 * 4 * args.bands)
    return 0


def reproject(args: argparse.Namespace) -> int:
    import numpy as np
    import rasterio
    from rasterio.enums import Resampling
    from rasterio.warp import reproject as warp

    plan = job_of(args)
    started = time.perf_counter()
    with rasterio.open(args.scene) as dataset:
        bands = [rasterio.band(dataset, i) for i in dataset.indexes]
        height, width = plan.grid.shape
        out = np.zeros((height, width), dataset.dtypes[0])
        for band in bands:
            warp(
                band,
                out,
                dst_transform=plan.grid.affine,
                dst_crs=str(plan.grid.crs),
                dst_nodata=dataset.nodata,
                resampling=Resampling[args.warp],
                num_threads=args.threads,
            )
    return finish(started, plan)


def finish(started: float, plan: Any) -> int:
    from common import report

    seconds = time.perf_counter() - started
    width, height = plan.patches.stored_width_height
    report(seconds, plan.patches.count * width * height * 4 * len(plan.bands))
    return 0


def windows(scene: str, kernel: int, share: int) -> list[Any]:
    """Returns the windows of the patches, or the first of so many equal parts of them."""
    import rasterio
    from rasterio.windows import Window

    with rasterio.open(scene) as dataset:
        margin = kernel // 2
        every = [
            Window(col - margin, row - margin, PATCH + 2 * margin, PATCH + 2 * margin)
            for row in range(0, dataset.height - PATCH + 1, PATCH)
            for col in range(0, dataset.width - PATCH + 1, PATCH)
        ]
    return every[: len(every) // share]


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

    todo = windows(args.scene, args.kernel, args.share)
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

    todo = windows(args.scene, args.kernel, args.share)
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


CASES = {"ours": ours, "limit": limit, "loop": loop, "beam": beam, "reproject": reproject}


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
    parser.add_argument("--warp", default="", help="resampling onto a grid of another CRS")
    parser.add_argument("--files", type=int, default=1, help="a square number: the scene as a mosaic")
    parser.add_argument("--share", type=int, default=1, help="loop and beam do one of so many parts")
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
        if args.files > 1:
            scene = cut(scene, folder, args.files)
        names = args.cases.split(",")
        # the last one of an option counts
        command = [sys.executable, __file__, *sys.argv[1:], "--scene", scene]
        cases = {n: [*command, "--case", n, "--out", f"{folder}/{n}"] for n in names}
        print(table(interleave(cases, args.rounds), names[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
