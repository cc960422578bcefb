"""A map of one float band from records, against rasterio writing the same tiles from arrays in memory.

    python benchmarks/import_map.py --side 8192
    python benchmarks/import_map.py --side 30000 --gzip none

Prints seconds of both, their ratio, and the peak memory of the import in its own process. Both write
cloud-optimised GeoTIFFs with the same compression, predictor, block size, overviews and threads. Records
are made first and lie in the page cache as far as it reaches.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PATCH, TILE = 256, 4096


def pixels(top: int, left: int, height: int, width: int) -> np.ndarray:
    """A smooth surface with texture: what a prediction of a continuous quantity looks like."""
    y = np.arange(top, top + height, dtype=np.float32)[:, None]
    x = np.arange(left, left + width, dtype=np.float32)[None, :]
    texture = ((np.arange(height * width, dtype=np.uint32) * np.uint32(2654435761)) >> np.uint32(18)).reshape(
        height, width
    )
    return np.sin(x / 211) * np.cos(y / 307) + texture.astype(np.float32) * np.float32(1e-6)


def write_records(folder: Path, side: int, gzip: str) -> None:
    from patchbeam.mixer import Mixer
    from patchbeam.records.example import ExampleLayout, Feature
    from patchbeam.records.gzip import compress_members

    across = side // PATCH
    layout = ExampleLayout([Feature("p", "float", PATCH * PATCH)])
    buffer = np.empty(across * layout.record_size, np.uint8)
    layout.prepare(buffer)
    per_file = 16  # patch rows
    suffix = "" if gzip == "none" else ".gz"
    for number, start in enumerate(range(0, across, per_file)):
        with open(folder / f"p-{number:05d}.tfrecord{suffix}", "wb") as file:
            for row in range(start, min(start + per_file, across)):
                strip = pixels(row * PATCH, 0, PATCH, across * PATCH)
                for col in range(across):
                    target = layout.slot_views(buffer, col)[0].reshape(PATCH, PATCH)
                    target[...] = strip[:, col * PATCH : (col + 1) * PATCH]
                    layout.seal(buffer, col)
                if gzip == "none":
                    file.write(buffer)
                else:
                    sizes = np.full(across, layout.record_size, np.int64)
                    file.writelines(compress_members(buffer, sizes))
    mixer = Mixer(
        crs="EPSG:32633",
        affine=(10.0, 0.0, 300000.0, 0.0, -10.0, 9000000.0),
        patch_width_height=(PATCH, PATCH),
        patches_per_row=across,
        total_patches=across * across,
    )
    (folder / "p-mixer.json").write_text(mixer.to_text())


def run_import(folder: Path, threads: int) -> None:
    """In a process of its own: prints seconds and peak memory."""
    from pipelines.import_image import run_import
    from pipelines.resolve_import import load_import

    plan = load_import(str(folder / "p"), output=str(folder / "map" / "m"))
    start = time.perf_counter()
    run_import(plan, workers=threads)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "peak_bytes": peak}))


def run_rasterio(folder: Path, side: int, threads: int) -> float:
    """Seconds that rasterio takes to write the same tiles; making the arrays is not counted."""
    import rasterio
    from affine import Affine

    covered = side // PATCH * PATCH
    (folder / "peer").mkdir()
    total = 0.0
    for top in range(0, covered, TILE):
        for left in range(0, covered, TILE):
            array = pixels(top, left, min(TILE, covered - top), min(TILE, covered - left))
            path = folder / "peer" / f"{top:06d}-{left:06d}.tif"
            start = time.perf_counter()
            with rasterio.open(
                path,
                "w",
                driver="COG",
                width=array.shape[1],
                height=array.shape[0],
                count=1,
                dtype="float32",
                nodata=float("nan"),
                crs="EPSG:32633",
                transform=Affine(10, 0, 300000 + 10 * left, 0, -10, 9000000 - 10 * top),
                compress="deflate",
                level=1,
                predictor="yes",
                blocksize=512,
                overview_resampling="average",
                num_threads=threads,
            ) as dataset:
                dataset.write(array, 1)
            total += time.perf_counter() - start
            path.unlink()  # room for the next ones
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--side", type=int, default=8192, help="pixels a side")
    parser.add_argument("--gzip", choices=("indexed", "none"), default="indexed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", help="for records and maps; default: a temporary one")
    parser.add_argument("--import-only", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.import_only:
        run_import(Path(given.import_only), given.threads)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        write_records(folder, given.side, given.gzip)
        peer = run_rasterio(folder, given.side, given.threads)
        command = [sys.executable, __file__, "--import-only", str(folder), "--threads", str(given.threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        own = json.loads(done.stdout.splitlines()[-1])
        side = given.side // PATCH * PATCH
        print(f"map of {side} x {side} float32, records {given.gzip}, {given.threads} threads")
        print(f"rasterio, arrays in memory  {peer:8.1f} s")
        print(f"import-image                {own['seconds']:8.1f} s   ratio {own['seconds'] / peer:.2f}")
        print(f"peak memory of the import   {own['peak_bytes'] / 2**30:8.2f} GiB")


if __name__ == "__main__":
    main()
