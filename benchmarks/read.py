"""Readers of image patches side by side: MB/s of pixels in batches of 32, NCHW float32, CRC compared.

    python benchmarks/read.py [--patches 128,256] [--forms plain,indexed,zlib6] [--rounds 5] [--megabytes 269]
        [--peer-python PYTHON]

The same files are read by ``patchbeam.data`` with one and two threads, by tf.data (parallel reads,
``parse_example``, batch) and by the ``tfrecord`` package under torch's DataLoader, where they are installed;
``--peer-python`` names the Python of an environment that has ``tfrecord`` and ``torch``. Each reader is a
process of its own that stays open, warm, and idle while it is another's turn; they take turns on every set
of files. Ratios are those of the medians of all rounds, in brackets those of the best rounds, and those of
the MB a CPU second, which other work on the machine disturbs least. What is read is summed and must agree.

One-stream gzip (``zlib6``) is read anew each time, with nothing in the cache; *later* is a pass over files
that have been read before. A run takes about ten minutes on a quiet machine of two cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from readers import BANDS, READERS, ROOT, TFDATA

sys.path.insert(0, str(ROOT))

SHARDS = 4
FORMS = {"plain": None, "indexed": "indexed", "zlib6": "zlib6"}
LABELS = {"plain": "not compressed", "indexed": "our gzip", "zlib6": "one-stream gzip"}
# What ``patchbeam.data`` is to reach: form, threads, times tf.data.
TARGETS = {("plain", 1): 5.0, ("plain", 2): 5.0, ("indexed", 2): 3.5, ("zlib6", 1): 2.0, ("zlib6", 2): 3.0}
TFRECORD_TARGET = 8.0
Found = dict[str, list[dict[str, float]]]


def landscape(patch: int, count: int, seed: int) -> Iterator[np.ndarray]:
    """Yields patches that compress like imagery: smooth fields, edges, sensor noise, whole numbers."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        field = np.zeros((patch, patch), np.float32)
        for step, amplitude in ((128, 900.0), (32, 450.0), (8, 220.0)):
            nodes = rng.standard_normal((patch // step + 2, patch // step + 2)).astype(np.float32)
            place = np.arange(patch, dtype=np.float32) / step
            low = place.astype(int)
            part = (place - low).astype(np.float32)
            rows = nodes[low] * (1 - part)[:, None] + nodes[low + 1] * part[:, None]
            field += amplitude * (rows[:, low] * (1 - part) + rows[:, low + 1] * part)
        gains = 0.35 + 0.9 * rng.random((len(BANDS), 1, 1), np.float32)
        noise = rng.standard_normal((len(BANDS), patch, patch), np.float32) * 18
        yield np.clip(np.rint(gains * field + 1800 + noise), 1, 16000).astype(np.float32)


def write_sets(folder: Path, patch: int, megabytes: int) -> None:
    """Writes the same patches as plain, indexed and one-stream shards, each with a mixer."""
    from patchbeam.mixer import Mixer
    from patchbeam.records.layout import ExampleLayout, Feature
    from patchbeam.records.names import mixer_name, shard_name
    from patchbeam.records.tfrecord import write_records

    count = max(SHARDS * 8, megabytes * 1_000_000 // (patch * patch * len(BANDS) * 4) // SHARDS * SHARDS)
    layout = ExampleLayout([Feature(band, "float", patch * patch) for band in BANDS])
    datas = [
        bytes(layout.encode(list(p.reshape(len(BANDS), -1))))[12:-4] for p in landscape(patch, count, patch)
    ]
    for form, profile in FORMS.items():
        target = folder / f"{patch}-{form}"
        target.mkdir(parents=True)
        prefix = str(target / "scene")
        for shard in range(SHARDS):
            part = datas[shard * count // SHARDS : (shard + 1) * count // SHARDS]
            write_records(shard_name(prefix, shard, SHARDS, compressed=profile is not None), part, profile)
        mixer = Mixer(
            crs="EPSG:32633",
            affine=(10.0, 0.0, 0.0, 0.0, -10.0, 0.0),
            patch_width_height=(patch, patch),
            patches_per_row=1,
            total_patches=count,
        )
        Path(mixer_name(prefix, SHARDS)).write_text(mixer.to_text())


class Worker:
    """A reader in a process of its own."""

    def __init__(self, name: str, python: str) -> None:
        program = [python, str(Path(__file__).parent / "readers.py"), name]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            program, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
        )
        self.name = name
        self.missing = self._answer()

    def measure(self, folder: Path, patch: int) -> dict[str, float]:
        assert self.process.stdin is not None
        print(json.dumps([str(folder), patch]), file=self.process.stdin, flush=True)
        found: dict[str, float] = self._answer()
        return found

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: it has ended; run benchmarks/readers.py with its name to see why")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(workers: list[Worker], folder: Path, patch: int, form: str, rounds: int) -> Found:
    """Measures every reader ``rounds`` times, in turn; the slow ones every other time."""
    found: Found = {}
    for number in range(rounds):
        for worker in workers:
            if ("later" in worker.name and form != "zlib6") or (
                worker.name.startswith("tfrecord") and number % 2
            ):
                continue
            found.setdefault(worker.name, []).append(worker.measure(folder, patch))
    sums = {(one["count"], one["total"]) for runs in found.values() for one in runs}
    if len(sums) != 1:
        raise SystemExit(f"readers disagree about {folder}: {sums}")
    return found


def times(own: list[dict[str, float]], peer: list[dict[str, float]]) -> list[float]:
    """The ratio of medians, of the best, and of MB a CPU second."""
    pick = [("rate", statistics.median), ("rate", max), ("cpu", statistics.median)]
    return [f([run[key] for run in own]) / f([run[key] for run in peer]) for key, f in pick]


def row(name: str, patch: int, form: str, found: Found) -> str:
    rates = [run["rate"] for run in found[name]]
    cells = [str(patch), LABELS[form], name, f"{statistics.median(rates):.0f} ({max(rates):.0f})"]
    threads = 2 if "2 threads" in name else 1
    later = "later" in name
    goals = {
        TFDATA: None if later else TARGETS.get((form, threads)),
        "tfrecord, 2 workers" if threads == 2 else "tfrecord": TFRECORD_TARGET,
    }
    for peer, goal in goals.items():
        if peer not in found or not name.startswith("patchbeam"):
            cells += ["", ""]
            continue
        middle, best, cpu = times(found[name], found[peer])
        cells.append(f"{middle:.2f} ({best:.2f}; {cpu:.2f})")
        cells.append("" if goal is None else f"{goal:g} {'reached' if middle >= goal else 'MISSED'}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--patches", default="128,256")
    parser.add_argument("--forms", default=",".join(FORMS), help="which files to read")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=269)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--data", type=Path, help="where the files are, or are written and stay")
    options = parser.parse_args()
    folder = options.data or Path(tempfile.mkdtemp(prefix="patchbeam-read-"))
    workers = []
    for name in READERS:
        python = options.peer_python if name.startswith("tfrecord") else sys.executable
        worker = Worker(name, python)
        if worker.missing:
            print(f"not compared: {name} (no {', '.join(worker.missing)})", file=sys.stderr)
            worker.close()
        else:
            workers.append(worker)
    print("| patch | files | reader | MB/s: median (best) | × tf.data: median (best; CPU) | target ", end="")
    print("| × tfrecord | target |\n|---|---|---|---|---|---|---|---|")
    try:
        for patch in map(int, options.patches.split(",")):
            if not (folder / f"{patch}-plain").exists():
                write_sets(folder, patch, options.megabytes)
            for form in options.forms.split(","):
                found = compare(workers, folder / f"{patch}-{form}", patch, form, options.rounds)
                print("\n".join(row(name, patch, form, found) for name in found), flush=True)
    finally:
        for worker in workers:
            worker.close()
        for cache in folder.glob("cache-*"):
            shutil.rmtree(cache)
        if options.data is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
