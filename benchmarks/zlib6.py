"""``gzip: zlib6`` beside zlib itself: the rate of the compression stage on one core and on more.

    python benchmarks/zlib6.py [--size 1024] [--shards 8] [--threads 2] [--rounds 5]

A sample scene is exported with ``gzip: zlib6`` into shards that ``maxFileSize`` makes; the cases take turns,
each a process of its own:

- ``zlib``: ``zlib.compressobj(6)`` over the bytes of the same shards, in memory, on one core;
- ``1 thread``, ``2 threads``: the export; its clock runs from the first shard that is begun to the last that
  is finished: pieces are read, checked, deflated and written.

Rates are of uncompressed records. The members of the export are compared with what zlib makes of the same
records.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

PATCH = 256


def export(args: argparse.Namespace, threads: int, output: str, *, compressed: bool) -> tuple[float, int]:
    """Exports; returns seconds of the stage that makes shards, and the bytes of the records."""
    import yaml

    from pipelines.export_image import run_export
    from pipelines.resolve import load_plan
    from transforms import write

    patches = (args.size // PATCH) ** 2
    record = 4 * args.bands * PATCH**2 + 1024  # and a little for names and framing
    job = {
        "job": "export-image",
        "sources": {"scene": f"{args.folder}/scene.tif"},
        "formatOptions": {
            "patchDimensions": PATCH,
            "compressed": compressed,
            "maxFileSize": record * max(1, patches // args.shards),
        },
        "gzip": "zlib6" if compressed else "indexed",
        "output": output,
    }
    path = Path(f"{output}.yaml")
    path.write_text(yaml.safe_dump(job))
    lock, spans = threading.Lock(), []
    assemble = write.assemble

    def timed(*given: Any, **named: Any) -> Any:
        started = time.perf_counter()
        done = assemble(*given, **named)
        with lock:
            spans.append((started, time.perf_counter(), done.size_bytes))
        return done

    write.assemble = timed
    run_export(load_plan(str(path)), workers=threads, overwrite=True)
    seconds = max(end for _, end, _ in spans) - min(start for start, _, _ in spans)
    return seconds, sum(size for _, _, size in spans)


def by_zlib(args: argparse.Namespace) -> tuple[float, int]:
    shards = [path.read_bytes() for path in sorted(args.folder.glob("plain-*.tfrecord"))]
    started = time.perf_counter()
    for data in shards:
        deflate_of(data)
    return time.perf_counter() - started, sum(map(len, shards))


def deflate_of(data: bytes) -> bytes:
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return deflate.compress(data) + deflate.flush()


def compare(args: argparse.Namespace, outputs: list[str]) -> int:
    """Compares every shard with zlib's own bytes; returns how many shards an export has."""
    plain = sorted(args.folder.glob("plain-*.tfrecord"))
    for output in outputs:
        found = sorted(args.folder.glob(f"{output}-*.tfrecord.gz"))
        if len(found) != len(plain):
            raise SystemExit(f"{output}: {len(found)} shards, and {len(plain)} that are not compressed")
        for path, same in zip(found, plain, strict=True):
            stored, data = path.read_bytes(), same.read_bytes()
            if stored[10:-8] != deflate_of(data) or gzip.decompress(stored) != data:
                raise SystemExit(f"{path.name} is not what zlib makes of {same.name}")
    return len(plain)


def main() -> None:
    """Prints the table of all cases."""
    from common import interleave, report, table

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=1024, help="pixels a side")
    parser.add_argument("--bands", type=int, default=4)
    parser.add_argument("--shards", type=int, default=8, help="at the least")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.case == "zlib":
        report(*by_zlib(args))
        return
    if args.case:
        report(*export(args, int(args.case), f"{args.folder}/out{args.case}", compressed=True))
        return
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as name:
        from patchbeam.scene import write_scene

        args.folder = Path(name)
        write_scene(f"{name}/scene.tif", width=args.size, height=args.size, bands=args.bands)
        export(args, args.threads, f"{name}/plain", compressed=False)
        counts = sorted({1, args.threads})
        cases = {"zlib": "zlib"} | {f"{n} thread{'s' * (n > 1)}": str(n) for n in counts}
        given = ["--size", args.size, "--bands", args.bands, "--shards", args.shards, "--folder", name]
        commands = {
            label: [sys.executable, __file__, "--case", case, *map(str, given)]
            for label, case in cases.items()
        }
        runs = interleave(commands, args.rounds)
        shards = compare(args, [f"out{n}" for n in counts])
        print(f"{runs['zlib'][0]['payload'] / 1e6:.0f} MB of records in {shards} shards")
        print(table(runs, "zlib"))
        print("every shard is byte for byte what zlib makes of its records")


if __name__ == "__main__":
    main()
