"""How the cost of an export grows: area, bands, kernel, layout and compression of the source.

    python benchmarks/growth.py [--size 2048] [--rounds 3] [--threads 2] [--only area,bands,kernel,source]

Every case is an export of a sample scene in patches of 256 × 256, a process of its own, in turn with the
others. Rates are of float32 payload without start-up; ``per patch`` is relative to the first case of its
group: 1.00 in every row of *area* means a cost linear in it, and equal peaks mean memory that does not grow.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

# group → case → (side as a multiple of --size, scene options, options of benchmarks/export.py)
GROUPS: dict[str, dict[str, tuple[int, dict[str, object], list[str]]]] = {
    "area": {"x1": (1, {}, []), "x4": (2, {}, []), "x16": (4, {}, [])},
    "bands": {
        "4 bands": (1, {"bands": 4}, []),
        "1 band": (1, {"bands": 1}, []),
        "13 bands": (1, {"bands": 13}, []),
    },
    "kernel": {
        "no margin": (1, {}, []),
        "kernel 64": (1, {}, ["--kernel", "64"]),
        "kernel 128": (1, {}, ["--kernel", "128"]),
    },
    "source": {
        "tiled deflate": (1, {}, []),
        "tiled zstd": (1, {"compress": "zstd"}, []),
        "tiled none": (1, {"compress": "none"}, []),
        "striped deflate": (1, {"layout": "striped"}, []),
        "tiled 512": (1, {"block_size": 512}, []),
    },
}


def main() -> int:
    from common import interleave

    from patchbeam.scene import write_scene

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default=",".join(GROUPS))
    parser.add_argument("--plain", action="store_true", help="no compression of the shards")
    args = parser.parse_args()
    print(f"{'group':<8}{'case':<18}{'MB/s':>8}{'per patch':>12}{'peak MiB':>10}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DATA")) as folder:
        for group in args.only.split(","):
            cases: dict[str, list[str]] = {}
            for number, (name, (times, scene, options)) in enumerate(GROUPS[group].items()):
                path = f"{folder}/{group}{number}.tif"
                side = args.size * times
                write_scene(path, width=side, height=side, class_map=False, **scene)  # type: ignore[arg-type]
                cases[name] = [
                    sys.executable,
                    str(ROOT / "benchmarks" / "export.py"),
                    *("--case", "ours", "--scene", path, "--out", f"{folder}/{group}{number}-out"),
                    *("--threads", str(args.threads)),
                    *options,
                    *(["--plain"] if args.plain else []),
                ]
            runs = interleave(cases, args.rounds)
            first: float | None = None
            for name, own in runs.items():
                cost = statistics.median(run["seconds"] / run["payload"] for run in own)
                first = first or cost
                peak = statistics.median(run["peak_mib"] for run in own)
                print(f"{group:<8}{name:<18}{1e-6 / cost:>8.0f}{cost / first:>12.2f}{peak:>10.0f}")
            for path in Path(folder).iterdir():
                path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
