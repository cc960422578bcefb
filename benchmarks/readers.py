"""Readers of image patches that ``read.py`` compares; each worker process runs one of them.

``reader(files, patch)`` opens what can be opened once, and returns a function of one pass over the files,
which yields batches of 32 in NCHW as float32. The peers are written as their own documentation has it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BANDS = ("B01", "B02", "B03", "B04")
BATCH = 32
LEAST_SECONDS = 0.4

Pass = Callable[[], Iterator[Any]]


def patchbeam(files: list[str], patch: int, *, threads: int, later: bool = False) -> Pass:
    """Plain files and indexed gzip from an open database; one-stream gzip from a new one each time.

    ``later`` is a pass over one-stream gzip that has been read before, and has a plain copy in the cache.
    """
    sys.path.insert(0, str(ROOT))
    from patchbeam.data import DataProvider, Loader, PatchDatabase

    cache = tempfile.mkdtemp(dir=Path(files[0]).parent.parent, prefix="cache-")
    os.environ["PATCHBEAM_CACHE"] = cache
    prefix = str(Path(files[0]).parent / "scene")
    anew = "zlib6" in prefix and not later
    databases = [] if anew else [PatchDatabase(prefix, cache=cache)]
    if later:
        _ = databases[0][0]  # out of order: the files are copied into the cache

    def once() -> Iterator[Any]:
        database = databases[0] if databases else PatchDatabase(prefix, cache=cache)
        for (batch,) in Loader(DataProvider(database, BATCH), threads=threads):
            yield batch
        if anew and any(Path(cache).glob("inflated/*.tfrecord")):
            raise SystemExit("a first pass has left a copy in the cache")

    return once


def tf_data(files: list[str], patch: int) -> Pass:
    """Files and parsing in parallel as tf.data sees fit, whole batches parsed at once."""
    import tensorflow as tf

    auto = tf.data.AUTOTUNE
    spec = {band: tf.io.FixedLenFeature([patch, patch], tf.float32) for band in BANDS}

    def parse(records: Any) -> Any:
        bands = tf.io.parse_example(records, spec)
        return tf.stack([bands[band] for band in BANDS], axis=1)

    compression = "GZIP" if files[0].endswith(".gz") else None
    records = tf.data.TFRecordDataset(files, compression_type=compression, num_parallel_reads=auto)
    batches = records.batch(BATCH).map(parse, num_parallel_calls=auto).prefetch(auto)
    return lambda: (batch.numpy() for batch in batches)


def tfrecord_package(files: list[str], patch: int, *, workers: int) -> Pass:
    """The package's loader under torch's DataLoader; files are dealt to the workers."""
    from tfrecord.reader import tfrecord_loader
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info

    compression = "gzip" if files[0].endswith(".gz") else None

    class Records(IterableDataset):
        def __iter__(self) -> Iterator[np.ndarray]:
            worker = get_worker_info()
            for file in files if worker is None else files[worker.id :: worker.num_workers]:
                rows = tfrecord_loader(
                    file, None, dict.fromkeys(BANDS, "float"), compression_type=compression
                )
                for row in rows:
                    yield np.stack([row[band].reshape(patch, patch) for band in BANDS])

    return lambda: (batch.numpy() for batch in DataLoader(Records(), BATCH, num_workers=workers))


TFDATA = "tf.data"
READERS: dict[str, tuple[Callable[[list[str], int], Pass], tuple[str, ...]]] = {
    TFDATA: (tf_data, ("tensorflow",)),
    "tfrecord": (partial(tfrecord_package, workers=0), ("tfrecord", "torch")),
    "tfrecord, 2 workers": (partial(tfrecord_package, workers=2), ("tfrecord", "torch")),
    "patchbeam, 1 thread": (partial(patchbeam, threads=1), ()),
    "patchbeam, 2 threads": (partial(patchbeam, threads=2), ()),
    "patchbeam, 1 thread, later": (partial(patchbeam, threads=1, later=True), ()),
    "patchbeam, 2 threads, later": (partial(patchbeam, threads=2, later=True), ()),
}


def cpu_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def measure(once: Pass) -> dict[str, float]:
    """Reads passes for a while, and says how many MB a second and a CPU second."""
    seconds = cpu = size = total = count = 0.0
    while seconds < LEAST_SECONDS:
        start, used = time.perf_counter(), cpu_seconds()
        count = total = 0.0
        for batch in once():
            count += len(batch)
            size += batch.nbytes / 1e6
            total += float(batch[:, :, 0, 0].sum(dtype="f8"))
        seconds += time.perf_counter() - start
        cpu += cpu_seconds() - used
    return {"rate": size / seconds, "cpu": size / cpu, "count": count, "total": round(total, 3)}


def work(name: str) -> None:
    """Answers each line ``[folder, patch]`` on standard input with a measurement, as one reader."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    make, _ = READERS[name]
    opened: dict[str, Pass] = {}
    for line in sys.stdin:
        folder, patch = json.loads(line)
        if folder not in opened:
            opened[folder] = make(sorted(map(str, Path(folder).glob("*.tfrecord*"))), patch)
            if not name.startswith("tfrecord"):  # nothing there gets faster, and it takes long
                measure(opened[folder])
        print(json.dumps(measure(opened[folder])), flush=True)


def missing(name: str) -> list[str]:
    """The modules that a reader needs and this Python does not have."""
    from importlib.util import find_spec

    return [module for module in READERS[name][1] if find_spec(module) is None]


if __name__ == "__main__":
    lacking = missing(sys.argv[1])
    print(json.dumps(lacking), flush=True)
    if not lacking:
        work(sys.argv[1])
