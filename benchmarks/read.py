"""Readers of image patches: patches a second in batches of 32, NCHW float32, CRC compared.

    python benchmarks/read.py [--patches 128,256] [--megabytes 96] [--forms None,indexed,zlib6] [--rounds 5]
        [--data FOLDER]

The same files are read by ``patchbeam.data`` with one and two threads, by tf.data (parallel reads,
``parse_example``, batch) and by the ``tfrecord`` package, where they are installed. Each case is a process of
its own; cases take turns, and the medians of all rounds are compared. What every reader returns is summed
and must agree. One-stream gzip (``zlib6``) is timed twice: *first* is a pass with nothing in the cache, in
which the files are inflated; *later* reads what that pass has kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

BANDS = ("B01", "B02", "B03", "B04")
BATCH = 32
SHARDS = 4
FORMS = (None, "indexed", "zlib6")
LEAST_SECONDS = 0.5


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
    for form in FORMS:
        target = folder / f"{patch}-{form}"
        target.mkdir(parents=True)
        prefix = str(target / "scene")
        for shard in range(SHARDS):
            part = datas[shard * count // SHARDS : (shard + 1) * count // SHARDS]
            write_records(shard_name(prefix, shard, SHARDS, compressed=form is not None), part, form)
        mixer = Mixer(
            crs="EPSG:32633",
            affine=(10.0, 0.0, 0.0, 0.0, -10.0, 0.0),
            patch_width_height=(patch, patch),
            patches_per_row=1,
            total_patches=count,
        )
        Path(mixer_name(prefix, SHARDS)).write_text(mixer.to_text())


def ours(files: list[str], patch: int, threads: int) -> Iterator[np.ndarray]:
    from patchbeam.data import DataProvider, Loader, PatchDatabase

    provider = DataProvider(PatchDatabase(str(Path(files[0]).parent / "scene")), BATCH)
    for (batch,) in Loader(provider, threads=threads):
        yield batch


def tf_data(files: list[str], patch: int, threads: int) -> Iterator[np.ndarray]:
    import tensorflow as tf

    spec = {band: tf.io.FixedLenFeature([patch, patch], tf.float32) for band in BANDS}
    compression = "GZIP" if files[0].endswith(".gz") else None
    dataset = tf.data.TFRecordDataset(
        files, compression_type=compression, num_parallel_reads=tf.data.AUTOTUNE
    )
    dataset = dataset.batch(BATCH).map(
        lambda records: tf.stack([tf.io.parse_example(records, spec)[band] for band in BANDS], 1),
        num_parallel_calls=tf.data.AUTOTUNE,
    )
    for batch in dataset.prefetch(tf.data.AUTOTUNE):
        yield batch.numpy()


def tfrecord_package(files: list[str], patch: int, threads: int) -> Iterator[np.ndarray]:
    from tfrecord.reader import tfrecord_loader

    compression = "gzip" if files[0].endswith(".gz") else None
    rows: list[np.ndarray] = []
    for file in files:
        for row in tfrecord_loader(file, None, dict.fromkeys(BANDS, "float"), compression_type=compression):
            rows.append(np.stack([row[band].reshape(patch, patch) for band in BANDS]))
            if len(rows) == BATCH:
                yield np.stack(rows)
                rows = []
    if rows:
        yield np.stack(rows)


READERS: dict[str, tuple[Callable[[list[str], int, int], Iterator[np.ndarray]], int, str]] = {
    "tf.data": (tf_data, 0, "tensorflow"),
    "tfrecord package": (tfrecord_package, 0, "tfrecord"),
    "patchbeam, 1 thread": (ours, 1, "patchbeam"),
    "patchbeam, 2 threads": (ours, 2, "patchbeam"),
}


def run_case(name: str, folder: Path, patch: int, first: bool) -> dict[str, float]:
    """Reads passes, in this process; one when it is the first that counts, else at least half a second."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    reader, threads, _ = READERS[name]
    files = sorted(str(path) for path in folder.glob("*.tfrecord*"))
    seconds, patches = 0.0, 0
    for number in range(1000):
        start = time.perf_counter()
        count, total = 0, 0.0
        for batch in reader(files, patch, threads):
            count += len(batch)
            total += float(batch[:, :, 0, 0].sum(dtype="f8"))
        if first or number:  # the first pass warms up
            seconds += time.perf_counter() - start
            patches += count
        if first or seconds > LEAST_SECONDS:
            break
    return {"rate": patches / seconds, "check": total, "count": count}


def measure(folder: Path, patch: int, rounds: int, *, first: bool) -> dict[str, float]:
    """Returns the median rate of each reader, taking turns."""
    names = [name for name, (_, _, module) in READERS.items() if importlib.util.find_spec(module)]
    rates: dict[str, list[float]] = {name: [] for name in names}
    checks = set()
    cache = Path(tempfile.mkdtemp(dir=folder.parent))
    for _ in range(rounds):
        for name in names:
            if first:
                shutil.rmtree(cache, ignore_errors=True)
            command = [
                sys.executable,
                __file__,
                "--case",
                name,
                "--data",
                str(folder),
                "--patches",
                str(patch),
            ]
            command += ["--first"] if first else []
            environment = {**os.environ, "PATCHBEAM_CACHE": str(cache)}
            run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
            if run.returncode:
                raise SystemExit(f"{name}:\n{run.stderr[-2000:]}")
            found = json.loads(run.stdout.splitlines()[-1])
            rates[name].append(found["rate"])
            checks.add((found["count"], round(found["check"], 3)))
    shutil.rmtree(cache, ignore_errors=True)
    if len(checks) != 1:
        raise SystemExit(f"readers disagree about {folder}: {checks}")
    return {name: statistics.median(found) for name, found in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--patches", default="128,256")
    parser.add_argument("--megabytes", type=int, default=96)
    parser.add_argument("--forms", default="None,indexed,zlib6", help="which files to read")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case, options.data, int(options.patches), options.first)))
        return
    folder = options.data or Path(tempfile.mkdtemp(prefix="patchbeam-read-"))
    print(
        "| patch | files | reader | patches/s | MB/s | × tf.data | × tfrecord "
        "|\n|---|---|---|---|---|---|---|"
    )
    for patch in map(int, options.patches.split(",")):
        if not (folder / f"{patch}-None").exists():
            write_sets(folder, patch, options.megabytes)
        for form in (form for form in FORMS if str(form) in options.forms.split(",")):
            for first in (True, False) if form == "zlib6" else (False,):
                label = {None: "plain", "indexed": "our gzip", "zlib6": "one-stream gzip"}[form]
                if form == "zlib6":
                    label += ", first" if first else ", later"
                rates = measure(folder / f"{patch}-{form}", patch, options.rounds, first=first)
                for name, rate in rates.items():
                    ratios = [
                        f"{rate / rates[peer]:.2f}" if peer in rates else ""
                        for peer in ("tf.data", "tfrecord package")
                    ]
                    size = rate * patch * patch * len(BANDS) * 4 / 1e6
                    print(
                        f"| {patch} | {label} | {name} | {rate:.0f} | {size:.0f} | {' | '.join(ratios)} |",
                        flush=True,
                    )
    if options.data is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
