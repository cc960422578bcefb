"""How fast pixels become SequenceExample records, beside protobuf objects, in one run on one core.

A record has 4 scalar bands in its context and one array band of depth 8: encoded, framed, with CRCs, not
compressed. ``patchbeam`` is the encoder that an export uses, its block already read: masks, statistics of
every band and the choice of patches are in its time. ``protobuf`` builds one message a pixel, serializes and
frames it. The fastest of several rounds counts, and the rounds of the two take turns.

    python benchmarks/sequence.py [--pixels 262144] [--numbers float|native] [--own-lengths]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from patchbeam.blocks import BlockGrid
from patchbeam.elements import BandPixels, PixelBlock
from patchbeam.encode_sequence import SequenceEncoder
from patchbeam.features import image_features, record_bands
from patchbeam.options import FormatOptions
from patchbeam.patches import PatchGrid
from patchbeam.pixels import stored_block
from patchbeam.pool import Pool
from patchbeam.records.parse_sequence import parse_sequence_example
from patchbeam.records.tfrecord import frame

SCALARS, DEPTH, SIDE = 4, 8, 256


def encoder_and_block(rows: int, numbers: str, own: bool) -> tuple[SequenceEncoder, PixelBlock]:
    """One row of patches of 256 × 256 pixels, cut to ``rows`` pixels of height."""
    random = np.random.default_rng(0)
    names = [(f"B{i + 2}", "uint16", False) for i in range(SCALARS)] + [("ndvi", "float32", True)]
    options = FormatOptions(
        patch_width_height=(SIDE, rows), sequence_data=True, tensor_depths=None if own else {"ndvi": DEPTH}
    )
    patches = PatchGrid(width=SIDE, height=rows, patch_width_height=(SIDE, rows))
    blocks = BlockGrid(patches=patches, columns_rows=(1, 1), run_patches=1)
    bands = record_bands(names, options, None)
    shape = (rows, SIDE)
    read = [BandPixels(values=random.integers(0, 10_000, shape).astype("u2")) for _ in range(SCALARS)]
    series = random.normal(size=(DEPTH, *shape)).astype("f4")
    read.append(BandPixels(values=series, valid=random.random(series.shape) < 0.7 if own else None))
    compact = [True] * len(bands)
    encoder = SequenceEncoder(
        blocks,
        bands,
        image_features(bands, options, numbers, patches.stored_width_height),  # type: ignore[arg-type]
        compact=compact,
        defaults=[0.0] * len(bands),
        masked_threshold=1.0,
        strict=False,
        pool=Pool(1),
    )
    return encoder, stored_block(0, read, bands, default=0.0, compact=compact)


def by_protobuf(block: PixelBlock, native: bool, most: int) -> list[bytes]:
    """The same records from protobuf objects."""
    from tensorflow.core.example.example_pb2 import SequenceExample

    scalars = [band.values.reshape(-1).tolist() for band in block.bands[:SCALARS]]
    series = block.bands[SCALARS].values.reshape(DEPTH, -1).T.tolist()
    valid = block.bands[SCALARS].valid
    lengths = [DEPTH] * len(series) if valid is None else valid.sum(axis=0).reshape(-1).tolist()
    records = []
    for pixel in range(most):
        message = SequenceExample()
        context = message.context.feature
        for i, values in enumerate(scalars):
            feature = context[f"B{i + 2}"]
            (feature.int64_list if native else feature.float_list).value.append(values[pixel])
        steps = message.feature_lists.feature_list["ndvi"].feature
        for number in series[pixel][: lengths[pixel]]:
            steps.add().float_list.value.append(number)
        records.append(frame(message.SerializeToString()))
    return records


def timed(work: Callable[[], object]) -> float:
    """Seconds of this thread's processor: another process on the machine does not count."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def main() -> None:
    """Prints both rates and their ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pixels", type=int, default=SIDE * 1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--numbers", choices=["float", "native"], default="float")
    parser.add_argument("--own-lengths", action="store_true", help="arrays of 0 to 8 values, 30 %% masked")
    given = parser.parse_args()
    rows = max(1, given.pixels // SIDE)
    native = given.numbers == "native"
    encoder, block = encoder_and_block(rows, given.numbers, given.own_lengths)
    pixels = rows * SIDE
    most = min(pixels, 20_000)
    ours, theirs = [], []
    for _ in range(given.rounds):
        ours.append(pixels / timed(lambda: list(encoder.runs(block))))
        theirs.append(most / timed(lambda: by_protobuf(block, native, most)))
    (run,) = encoder.runs(block)
    size = len(run.data) / pixels
    # protobuf keeps context features in an order of its own: the same bytes, put differently
    (first,) = by_protobuf(block, native, 1)
    assert (
        parse_sequence_example(first[12:-4])[1]
        == parse_sequence_example(bytes(run.data[12 : len(first) - 4]))[1]
    )
    print(f"{pixels} records of {SCALARS} scalars and an array of depth {DEPTH}, {size:.0f} bytes each")
    print(f"patchbeam  {max(ours):>10,.0f} records/s a core  ({max(ours) * size / 1e6:,.0f} MB/s)")
    print(f"protobuf   {max(theirs):>10,.0f} records/s a core")
    print(f"ratio      {max(ours) / max(theirs):>10.1f}")


if __name__ == "__main__":
    main()
