"""What the yardsticks share: cases as processes of their own, in turn, and their medians side by side."""

from __future__ import annotations

import json
import math
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def report(seconds: float, payload_bytes: int, **facts: Any) -> None:
    """Prints what a case has measured of itself, as the driver reads it."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    facts |= {
        "seconds": seconds,
        "payload": payload_bytes,
        "cpu": sum(u.ru_utime + u.ru_stime for u in usage),
        "peak_mib": max(peak_bytes(), usage[1].ru_maxrss * 1024) / 2**20,
    }
    print(json.dumps(facts), flush=True)


def peak_bytes() -> int:
    """Returns the most memory that this process has had; getrusage counts that of its parent before exec."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_case(command: Sequence[str]) -> dict[str, Any]:
    """Runs one case and adds the seconds of the whole process."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    whole = time.perf_counter() - started
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    facts: dict[str, Any] = json.loads(lines[-1])
    return facts | {"whole": whole}


def interleave(cases: dict[str, Sequence[str]], rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Runs every case once a round, in turn, so that a drift of the machine meets all alike."""
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    for number in range(rounds):
        for name, command in cases.items():
            runs[name].append(run_case(command))
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return runs


def spread(values: Sequence[float]) -> str:
    """Returns the median with minimum and maximum, each to three digits."""
    return "{} ({}–{})".format(*map(_short, (statistics.median(values), min(values), max(values))))


def _short(value: float) -> str:
    decimals = max(0, 2 - math.floor(math.log10(value))) if value > 0 else 0
    return f"{value:.{decimals}f}"


def table(runs: dict[str, list[dict[str, Any]]], base: str) -> str:
    """Returns medians with minimum and maximum, and ratios of rates to ``base`` taken round by round."""
    rows = [
        (
            "case",
            "MB/s (min–max)",
            f"rate / {base} (min–max)",
            "whole process s",
            f"whole / {base}",
            "CPU s",
            "peak MiB",
        )
    ]
    for name, own in runs.items():
        rates = [run["payload"] / run["seconds"] / 1e6 for run in own]
        ratios = [
            (a["payload"] / a["seconds"]) / (b["payload"] / b["seconds"])
            for a, b in zip(own, runs[base], strict=True)
        ]
        wholes = [run["whole"] for run in own]
        whole_ratios = [b["whole"] / a["whole"] for a, b in zip(own, runs[base], strict=True)]
        rows.append(
            (
                name,
                spread(rates),
                spread(ratios),
                f"{statistics.median(wholes):.2f}",
                f"{statistics.median(whole_ratios):.2f}",
                f"{statistics.median(run['cpu'] for run in own):.2f}",
                f"{statistics.median(run['peak_mib'] for run in own):.0f}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)) for row in rows)
