"""Maps from records, beside rasterio writing the same tiles from memory and beside a TensorFlow loop.

    python benchmarks/import_map.py --map float [--side 12288] [--rounds 5] [--threads 2]
    python benchmarks/import_map.py --map argmax [--gzip none|indexed] [--cases ours,rasterio,limit,tf,parse]
    python benchmarks/import_map.py --map float --compress none     # maps that are not compressed either

The records are made once; then each case runs in turn, each a process of its own:

- ``ours``: the whole job of ``patchbeam import-image`` through Beam, with its indexes, VRT and STAC files;
- ``rasterio``: the same tiles from arrays in memory, by the same driver with the same options and threads;
- ``limit``: as that, by the writer of ours, which makes overviews in memory instead of in a file;
- ``tf``: ``TFRecordDataset`` → ``tf.train.Example`` → array → window of one GeoTIFF that is not compressed;
- ``parse``: as that, with ``tf.io.parse_single_example`` of fixed shapes.

``--map float`` is one band of continuous numbers; ``--map argmax`` has three bands of probabilities, of which
the map holds the number of the largest; ``rasterio`` and ``limit`` are given that number. The TensorFlow
loops make no overviews or tiles and compress nothing. Rates are of the float32 payload of the records and
leave imports out; ratios are taken within a round. The pixels of all maps are compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

PATCH, TILE = 256, 4096
BANDS = {"float": ("p",), "argmax": ("p0", "p1", "p2")}
ROWS_A_FILE = 16
PIXELS = "pixels.npy"
TOP_LEFT, STEP = (300000.0, 9000000.0), 10.0


def surface(top: int, left: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    """A smooth surface with texture: what a prediction of a continuous quantity looks like."""
    y = np.arange(top, top + height, dtype=np.float32)[:, None]
    x = np.arange(left, left + width, dtype=np.float32)[None, :]
    cells = x.astype(np.uint32) * np.uint32(73856093) ^ y.astype(np.uint32) * np.uint32(19349663)
    texture = (cells * np.uint32(2654435761 + 2 * seed)) >> np.uint32(18)
    waves = np.sin(x / (211 + 40 * seed)) * np.cos(y / (307 - 50 * seed))
    return waves + texture.astype(np.float32) * np.float32(1e-6)


def numbers(kind: str, top: int, left: int, height: int, width: int) -> np.ndarray:
    """Returns ``(band, row, col)`` float32 of part of the map; of ``argmax``, they add up to 1."""
    found = np.stack([surface(top, left, height, width, seed) for seed in range(len(BANDS[kind]))])
    if kind == "argmax":
        found = np.exp(4 * found)
        found /= found.sum(axis=0)
    return found


def write_records(folder: Path, kind: str, side: int, gzip: str) -> None:
    """Writes the patches of the map, row by row, a mixer, and the pixels that the map is to have."""
    from patchbeam.mixer import Mixer
    from patchbeam.records.example import ExampleLayout, Feature
    from patchbeam.records.gzip import compress_members

    across = side // PATCH
    layout = ExampleLayout([Feature(name, "float", PATCH * PATCH) for name in BANDS[kind]])
    buffer = np.empty(across * layout.record_size, np.uint8)
    layout.prepare(buffer)
    suffix = "" if gzip == "none" else ".gz"
    dtype = np.float32 if kind == "float" else np.uint8
    pixels = np.lib.format.open_memmap(folder / PIXELS, "w+", dtype, (side, side))
    for number, start in enumerate(range(0, across, ROWS_A_FILE)):
        with open(folder / f"p-{number:05d}.tfrecord{suffix}", "wb") as file:
            for row in range(start, min(start + ROWS_A_FILE, across)):
                strip = numbers(kind, row * PATCH, 0, PATCH, across * PATCH)
                pixels[row * PATCH : (row + 1) * PATCH] = (
                    strip[0] if kind == "float" else strip.argmax(axis=0)
                )
                for col in range(across):
                    for view, band in zip(layout.slot_views(buffer, col), strip, strict=True):
                        view.reshape(PATCH, PATCH)[...] = band[:, col * PATCH : (col + 1) * PATCH]
                    layout.seal(buffer, col)
                if gzip == "none":
                    file.write(buffer)
                else:
                    file.writelines(compress_members(buffer, [layout.record_size] * across))
    mixer = Mixer(
        crs="EPSG:32633",
        affine=(STEP, 0.0, TOP_LEFT[0], 0.0, -STEP, TOP_LEFT[1]),
        patch_width_height=(PATCH, PATCH),
        patches_per_row=across,
        total_patches=across * across,
    )
    (folder / "p-mixer.json").write_text(mixer.to_text())


def tiles(side: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields top, left, height and width of each tile."""
    for top in range(0, side, TILE):
        for left in range(0, side, TILE):
            yield top, left, min(TILE, side - top), min(TILE, side - left)


def pixels_of(folder: Path, tile: tuple[int, int, int, int]) -> np.ndarray:
    """Returns what the map holds in a tile, ``(band, row, col)``."""
    top, left, height, width = tile
    pixels = np.load(folder / PIXELS, mmap_mode="r")
    return np.array(pixels[None, top : top + height, left : left + width])


def ours(args: argparse.Namespace) -> float:
    from pipelines.import_image import run_import
    from pipelines.resolve_import import load_import

    overrides = [f"compress={args.compress}", *(["argmax=true"] if args.map == "argmax" else [])]
    plan = load_import(str(args.folder / "p"), overrides, str(args.folder / "ours" / "m"))
    started = time.perf_counter()
    run_import(plan, workers=args.threads, overwrite=True)
    return time.perf_counter() - started


def by_rasterio(args: argparse.Namespace) -> float:
    """The clock runs while tiles are written, not while the arrays are made."""
    import rasterio
    from affine import Affine

    (args.folder / "rasterio").mkdir(exist_ok=True)
    seconds = 0.0
    for tile in tiles(args.side):
        array = pixels_of(args.folder, tile)
        path = args.folder / "rasterio" / f"m-{tile[0]:010d}-{tile[1]:010d}.tif"
        options = {
            "driver": "COG",
            "crs": "EPSG:32633",
            "transform": Affine(STEP, 0, TOP_LEFT[0], 0, -STEP, TOP_LEFT[1])
            * Affine.translation(tile[1], tile[0]),
            "compress": args.compress,
            **({"level": 1, "predictor": "yes"} if args.compress == "deflate" else {}),
            "blocksize": 512,
            "overview_resampling": "average" if args.map == "float" else "nearest",
            "num_threads": args.threads,
        }
        if args.map == "float":
            options["nodata"] = float("nan")
        started = time.perf_counter()
        options |= {"count": len(array), "height": tile[2], "width": tile[3], "dtype": array.dtype}
        with (
            rasterio.Env(GDAL_NUM_THREADS=str(args.threads)),
            rasterio.open(path, "w", **options) as dataset,
        ):
            dataset.write(array)
        seconds += time.perf_counter() - started
    return seconds


def limit(args: argparse.Namespace) -> float:
    """As rasterio's, by the function that writes the tiles of an import."""
    from affine import Affine
    from odc.geo.geobox import GeoBox

    from patchbeam.mosaic.geotiff import TileProfile, write_cog

    profile = TileProfile(
        nodata=float("nan") if args.map == "float" else None,
        names=("p",),
        compress=args.compress,
        categorical=args.map == "argmax",
    )
    (args.folder / "limit").mkdir(exist_ok=True)
    seconds = 0.0
    for tile in tiles(args.side):
        array = pixels_of(args.folder, tile)
        affine = Affine(STEP, 0, TOP_LEFT[0], 0, -STEP, TOP_LEFT[1]) * Affine.translation(tile[1], tile[0])
        path = str(args.folder / "limit" / f"m-{tile[0]:010d}-{tile[1]:010d}.tif")
        started = time.perf_counter()
        write_cog(path, array, GeoBox(tile[2:], affine, "EPSG:32633"), profile, threads=args.threads)
        seconds += time.perf_counter() - started
    return seconds


def by_tensorflow(args: argparse.Namespace) -> float:
    import rasterio
    import tensorflow as tf
    from affine import Affine
    from rasterio.windows import Window

    names = BANDS[args.map]
    files = sorted(map(str, args.folder.glob("p-*.tfrecord*")))
    across = args.side // PATCH
    (args.folder / args.case).mkdir(exist_ok=True)
    shape: dict[str, Any] = {"count": 1, "height": args.side, "width": args.side}
    shape["dtype"] = "float32" if args.map == "float" else "uint8"
    block = {"tiled": True, "blockxsize": PATCH, "blockysize": PATCH}
    affine = Affine(STEP, 0, TOP_LEFT[0], 0, -STEP, TOP_LEFT[1])
    started = time.perf_counter()
    dataset = tf.data.TFRecordDataset(files, compression_type="" if args.gzip == "none" else "GZIP")
    if args.case == "parse":
        spec = {name: tf.io.FixedLenFeature([PATCH, PATCH], tf.float32) for name in names}
        dataset = dataset.map(lambda record: tf.io.parse_single_example(record, spec))
    with rasterio.open(
        args.folder / args.case / "m.tif", "w", crs="EPSG:32633", transform=affine, **shape, **block
    ) as target:
        for number, record in enumerate(dataset):
            if args.case == "parse":
                patch = np.stack([record[name].numpy() for name in names])
            else:
                feature = tf.train.Example.FromString(record.numpy()).features.feature
                patch = np.stack(
                    [
                        np.array(feature[name].float_list.value, np.float32).reshape(PATCH, PATCH)
                        for name in names
                    ]
                )
            if args.map == "argmax":
                patch = patch.argmax(axis=0).astype(np.uint8)[None]
            row, col = divmod(number, across)
            target.write(patch, window=Window(col * PATCH, row * PATCH, PATCH, PATCH))
    return time.perf_counter() - started


CASES = {"ours": ours, "rasterio": by_rasterio, "limit": limit, "tf": by_tensorflow, "parse": by_tensorflow}


def differs(folder: Path, case: str, side: int) -> bool:
    """Whether a map, in one file or in tiles, has other pixels than it should."""
    import rasterio
    from rasterio.windows import Window

    paths = sorted((folder / case).glob("*.tif"))
    whole = len(paths) == 1
    for number, tile in enumerate(tiles(side)):
        top, left, height, width = tile
        with rasterio.open(paths[0] if whole else paths[number]) as dataset:
            found = dataset.read(window=Window(left, top, width, height) if whole else None)
            if not np.array_equal(found, pixels_of(folder, tile)):
                return True
    return False


def run_case(args: argparse.Namespace) -> None:
    """Runs one case in this process and prints what it took."""
    from common import report

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    seconds = CASES[args.case](args)
    report(seconds, args.side**2 * 4 * len(BANDS[args.map]))


def main() -> None:
    """Prints the table of all cases."""
    from common import interleave, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--map", choices=tuple(BANDS), default="float")
    parser.add_argument("--side", type=int, default=12288, help="pixels a side")
    parser.add_argument("--gzip", choices=("none", "indexed"), default="none")
    parser.add_argument("--compress", choices=("deflate", "none"), default="deflate", help="of the maps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default="ours,rasterio,limit,tf,parse")
    parser.add_argument("--data", default=os.environ.get("BENCH_DATA"), help="folder for records and maps")
    parser.add_argument("--case", choices=tuple(CASES), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.side = max(PATCH, args.side // PATCH * PATCH)
    if args.case:
        run_case(args)
        return
    with tempfile.TemporaryDirectory(dir=args.data) as name:
        folder = Path(name)
        write_records(folder, args.map, args.side, args.gzip)
        given: list[Any] = ["--map", args.map, "--side", args.side, "--gzip", args.gzip]
        given += ["--compress", args.compress, "--threads", args.threads, "--folder", folder]
        cases = {
            case: [sys.executable, __file__, "--case", case, *map(str, given)]
            for case in args.cases.split(",")
        }
        runs = interleave(cases, args.rounds)
        print(
            f"{args.map}: map of {args.side} x {args.side}, {len(BANDS[args.map])} float32 bands in records "
            f"(gzip: {args.gzip}), tiles {args.compress}, {args.threads} threads"
        )
        print(table(runs, next(iter(cases))))
        if wrong := [case for case in cases if differs(folder, case, args.side)]:
            raise SystemExit(f"these maps have other pixels: {', '.join(wrong)}")
        print("the pixels of all maps are equal")


if __name__ == "__main__":
    main()
