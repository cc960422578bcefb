"""One export, stage by stage, each beside its own limit: seconds of one thread on the same bytes.

    python benchmarks/stages.py [--size 2048] [--bands 4] [--kernel 1] [--rounds 5]

Limits: reading: the same windows by rasterio into one array; encoding: copying the same pixels into float32
slots that exist; statistics have none, they are ours; CRC: crc32c over the records; compression: isal
level 3 over the records; writing: the same bytes into a new file.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]


def main() -> int:
    import rasterio
    from crc32c import crc32c as crc_of
    from export import job_of
    from isal import isal_zlib
    from rasterio.windows import Window

    from patchbeam import storage
    from patchbeam.export import BlockReader, block_encoder, piece_writer, temporary_folder
    from patchbeam.pool import Pool
    from patchbeam.scene import write_scene

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--bands", type=int, default=4)
    parser.add_argument("--kernel", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    spent: dict[str, list[float]] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        spent.setdefault(name, []).append(time.perf_counter() - started)
        return result

    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as folder:
        args.scene, args.out = f"{folder}/scene.tif", f"{folder}/out"
        args.plain, args.gzip, args.warp = False, "indexed", ""
        write_scene(args.scene, width=args.size, height=args.size, bands=args.bands, class_map=False)
        plan = job_of(args)
        pool = Pool(1)
        payload = 0
        for _ in range(args.rounds):
            reader, encoder = BlockReader(plan, threads=1), block_encoder(plan, pool)
            writer = piece_writer(plan, pool)
            payload = 0
            for block in range(plan.blocks.count):
                window = plan.blocks.window(block)
                with rasterio.open(args.scene) as dataset:
                    inside = Window(window.col_off, window.row_off, window.width, window.height)
                    inside = inside.intersection(Window(0, 0, dataset.width, dataset.height))
                    raw = np.empty((dataset.count, int(inside.height), int(inside.width)), dataset.dtypes[0])
                    timed("read: limit", partial(dataset.read, window=inside, out=raw))
                pixels = timed("read", partial(reader.read, block))
                slots = np.empty((len(plan.bands), *raw.shape[1:]), np.float32)
                timed("encode: limit", partial(np.copyto, slots, raw, casting="unsafe"))
                runs = iter(encoder.runs(pixels))
                while True:
                    run = timed("encode, statistics, CRC", partial(next, runs, None))
                    if run is None:
                        break
                    payload += len(run.data)
                    timed("CRC: limit", partial(crc_of, run.data))
                    packed = timed("compress: limit", partial(isal_zlib.compress, run.data, 2, -15))
                    target = Path(folder) / "raw"
                    timed("write: limit", partial(target.write_bytes, packed))
                    timed("compress and write pieces", partial(list, writer.write(run)))
            storage.delete_tree(temporary_folder(plan))
    print(f"{payload / 1e6:.0f} MB of records; seconds a round (least–most of {args.rounds}) and MB/s")
    for name, each in sorted(spent.items()):
        per_round = [sum(part) for part in np.array_split(np.array(each), args.rounds)]
        middle = statistics.median(per_round)
        spread = f"{min(per_round):.3f}–{max(per_round):.3f}"
        print(f"{name:<28}{middle:>8.3f}  ({spread}){payload / middle / 1e6:>10.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
