"""How fast numbers are packed to their bits and unpacked, in million values a second on one core.

Every type below 8 bits densely, those of 1 to 4 bits in slots too, and 8 to 64 bits for comparison. Values
are in their NumPy container, in memory; the fastest of several rounds counts. The last line is the slowest
of the types below 8 bits and whether it reaches the aim.

    python benchmarks/packing.py [--values 16777216] [--rounds 5]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from patchbeam.data.dtypes import DTYPES, DType
from patchbeam.data.packing import pack, unpack

AIM = 50e6


def fastest(rounds: int, work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def values_of(dtype: DType, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if dtype.kind == "float":
        return rng.random(count).astype(dtype.container)
    return rng.integers(dtype.low, dtype.high, count, dtype.container, endpoint=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--values", type=int, default=1 << 24)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    slowest = (float("inf"), "")
    print(f"{'type':8} {'packing':7} {'pack M/s':>9} {'unpack M/s':>10}")
    for dtype in DTYPES.values():
        values = values_of(dtype, arguments.values)
        for packing in ("dense", "slots") if dtype.bits <= 4 else ("dense",):
            packed = pack(values, dtype, packing)  # type: ignore[arg-type]
            rates = [
                arguments.values / fastest(arguments.rounds, work)
                for work in (
                    lambda v=values, d=dtype, p=packing: pack(v, d, p),
                    lambda b=packed, d=dtype, p=packing: unpack(b, d, arguments.values, p),
                )
            ]
            print(f"{dtype.name:8} {packing:7} {rates[0] / 1e6:9.0f} {rates[1] / 1e6:10.0f}")
            if dtype.bits < 8:
                slowest = min(slowest, (min(rates), f"{dtype.name} {packing}"))
    verdict = "reached" if slowest[0] >= AIM else "missed"
    print(
        f"slowest below 8 bits: {slowest[1]}, {slowest[0] / 1e6:.0f} M/s; the aim of {AIM / 1e6:.0f} is "
        f"{verdict}"
    )


if __name__ == "__main__":
    main()
