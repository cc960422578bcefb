"""Whole patches encoded and decoded: every type, shape, depth and mask, by our parser and protobuf's."""

from __future__ import annotations

import io
import math
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tensorflow.core.example.example_pb2 import Example, SequenceExample

from patchbeam.blocks import BlockGrid
from patchbeam.elements import BandPixels, PixelBlock
from patchbeam.encode import BlockEncoder
from patchbeam.encode_example import ExampleEncoder
from patchbeam.encode_sequence import SequenceEncoder
from patchbeam.features import image_features, record_bands
from patchbeam.options import FormatOptions
from patchbeam.patches import PatchGrid
from patchbeam.pixels import stored_block
from patchbeam.pool import Pool
from patchbeam.records.parse import parse_example
from patchbeam.records.parse_sequence import parse_sequence_example
from patchbeam.records.tfrecord import read_records, record_offsets

TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
WIRE = {"bytes": np.uint8, "int64": np.int64, "float": np.float32}


def default_of(dtype: str, value: float) -> Any:
    if dtype.startswith("float"):
        return value
    limits = np.iinfo(dtype)
    return min(max(math.trunc(value), int(limits.min)), int(limits.max))


class Case:
    """One block of random pixels and the options that it is encoded with."""

    def __init__(self, draw: Any) -> None:
        self.random = random = np.random.default_rng(draw(st.integers(0, 2**32)))
        self.sequence = draw(st.booleans())
        self.collapse = draw(st.booleans())
        self.numbers = draw(st.sampled_from(["float", "native"]))
        self.own = self.sequence and draw(st.booleans())
        kernel = (1, 1) if self.sequence else (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
        size = (draw(st.integers(1, 5)), draw(st.integers(1, 5)))
        grid = (draw(st.integers(size[0], 14)), draw(st.integers(size[1], 11)))
        edge = draw(st.sampled_from(["drop", "pad"]))
        self.patches = PatchGrid(
            width=grid[0], height=grid[1], patch_width_height=size, kernel_width_height=kernel, edge=edge
        )
        columns_rows = (self.patches.columns, self.patches.rows)
        self.blocks = BlockGrid(
            patches=self.patches, columns_rows=columns_rows, run_patches=draw(st.integers(1, 4))
        )
        self.default = draw(st.sampled_from([0.0, -3.7, 300.5, 1e6]))
        count = draw(st.integers(1, 4))
        self.names = [f"band {i}" for i in range(count)]
        self.types = [draw(st.sampled_from(TYPES)) for _ in self.names]
        self.steps = [draw(st.sampled_from([None, None, 1, 2, 4])) for _ in self.names]
        self.compact = [draw(st.booleans()) for _ in self.names]
        depths = {
            n: draw(st.integers(1, 5)) for n, steps in zip(self.names, self.steps, strict=True) if steps
        }
        self.depths = {} if self.own else depths
        self.mask_band = draw(st.sampled_from([None, "ok"]))
        self.options = FormatOptions(
            patch_width_height=size,
            kernel_width_height=kernel,
            default_value=self.default,
            tensor_depths=None if self.own else depths,
            sequence_data=self.sequence,
            collapse_bands=self.collapse,
            masked_threshold=draw(st.sampled_from([1.0, 1.0, 0.5, 0.0])),
        )
        window = self.blocks.window(0)
        self.values, self.valid = [], []
        hidden = draw(st.sampled_from([0.0, 0.2, 0.8, 1.0]))
        for dtype, steps in zip(self.types, self.steps, strict=True):
            shape = (window.height, window.width) if steps is None else (steps, window.height, window.width)
            self.values.append(self.some_numbers(shape, dtype))
            self.valid.append(random.random(shape) >= hidden)

    def some_numbers(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        if dtype.startswith("float"):
            values = self.random.normal(size=shape) * 10.0 ** self.random.integers(-3, 4, shape)
            values[self.random.random(shape) < 0.1] = self.random.choice([np.nan, np.inf, -0.0])
            return values.astype(dtype)
        limits = np.iinfo(dtype)
        bits = self.random.integers(1, 63, shape)
        magnitude = self.random.integers(0, 2**62, shape) >> bits
        signs = self.random.choice([1, -1], shape) if limits.min < 0 else 1
        return np.clip(magnitude * signs, limits.min, min(limits.max, 2**63 - 1)).astype(dtype)

    def encoder(self) -> BlockEncoder:
        arrays = [steps is not None for steps in self.steps]
        bands = record_bands(
            list(zip(self.names, self.types, arrays, strict=True)), self.options, self.mask_band
        )
        self.bands = bands
        self.features = image_features(bands, self.options, self.numbers, self.patches.stored_width_height)
        common: dict[str, Any] = {
            "defaults": [self.default] * len(self.names) + ([0.0] if self.mask_band else []),
            "masked_threshold": self.options.masked_threshold,
            "strict": False,
            "pool": Pool(1),
        }
        if self.sequence:
            return SequenceEncoder(self.blocks, bands, self.features, compact=self.compact, **common)
        return ExampleEncoder(self.blocks, bands, self.features, **common)

    def block(self) -> PixelBlock:
        read = [
            BandPixels(values=v.copy(), valid=m.copy()) for v, m in zip(self.values, self.valid, strict=True)
        ]
        return stored_block(0, read, self.bands, default=self.default, compact=self.compact)

    def pixel(self, band: int, row: int, col: int, there: bool) -> tuple[Any, bool]:
        """Returns what is stored of a band at a pixel of the block, and whether it is masked."""
        default = default_of(self.types[band], self.default)
        values, valid = self.values[band][..., row, col], self.valid[band][..., row, col] & there
        if self.steps[band] is None:
            return (values.item() if valid else default), not valid
        if self.compact[band]:
            found = [v.item() for v, good in zip(values, valid, strict=True) if good]
        else:
            found = [v.item() if good else default for v, good in zip(values, valid, strict=True)]
        depth = self.depths.get(self.names[band])
        if depth is not None:
            found = (found + [default] * depth)[:depth]
        return found, not valid.any()

    def expected(self) -> list[tuple[int, dict[tuple[int, int], list[Any]]]]:
        """Of each kept patch its index and, by pixel, what is stored of each band."""
        kept = []
        (width, height), (x, y) = self.patches.patch_width_height, self.patches.margin_width_height
        for index in range(self.patches.count):
            top, left = index // self.patches.columns * height, index % self.patches.columns * width
            pixels, masked = {}, 0
            for r in range(height + 2 * y):
                for c in range(width + 2 * x):
                    proper = y <= r < y + height and x <= c < x + width
                    inside = top + r - y < self.patches.height and left + c - x < self.patches.width
                    both = [
                        self.pixel(b, top + r, left + c, inside or not proper) for b in range(len(self.names))
                    ]
                    empty = any(gone for _, gone in both)
                    masked += proper and empty
                    pixels[r, c] = [v for v, _ in both] + ([int(not empty)] if self.mask_band else [])
            if masked <= self.options.masked_threshold * width * height:
                kept.append((index, pixels))
        return kept


cases = st.composite(lambda draw: Case(draw))()


def features_of(case: Case, pixels: dict[tuple[int, int], list[Any]]) -> list[tuple[dict, dict]]:
    """Returns context and lists of each record of a patch; an Example has a context alone."""
    kinds = {b: feature.kind for feature in case.features for b in feature.bands}
    places = sorted(pixels)
    arrays = [steps is not None for steps in case.steps] + [False]
    if not case.sequence:
        flat = {}
        for b, band in enumerate(case.bands):
            columns = [pixels[place][b] for place in places]
            flat[band.name] = (
                [n for step in zip(*columns, strict=True) for n in step] if arrays[b] else columns
            )
        if case.collapse:
            flat = {case.bands[0].name: [n for numbers in flat.values() for n in numbers]}
        return [({name: np.array(n, WIRE[kinds[i]]) for i, (name, n) in enumerate(flat.items())}, {})]
    records = []
    for place in places:
        numbers = pixels[place]
        if case.collapse:
            lists = [n for b, n in enumerate(numbers) if arrays[b]]
            scalar = len(lists) < len(numbers)
            steps = [
                [
                    n if not arrays[b] else n[s] if s < len(n) else default_of(case.types[b], case.default)
                    for b, n in enumerate(numbers)
                ]
                for s in range(max([int(scalar), *map(len, lists)]))
            ]
            dtype = WIRE[kinds[0]]
            records.append(({}, {case.bands[0].name: [np.array(step, dtype) for step in steps]}))
            continue
        context = {
            band.name: np.array([numbers[b]], WIRE[kinds[b]])
            for b, band in enumerate(case.bands)
            if not arrays[b]
        }
        own = {
            band.name: [np.array([n], WIRE[kinds[b]]) for n in numbers[b]]
            for b, band in enumerate(case.bands)
            if arrays[b]
        }
        records.append((context, own))
    return records


def as_array(values: Any) -> np.ndarray:
    return np.frombuffer(b"".join(values), np.uint8) if isinstance(values, list) else values


def same(found: Any, expected: np.ndarray) -> None:
    values = as_array(found)
    np.testing.assert_array_equal(values, expected, strict=True)
    assert values.tobytes() == expected.tobytes() or np.isnan(expected).any()


def by_protobuf(feature: Any) -> np.ndarray:
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value
    if kind == "bytes_list":
        return np.frombuffer(b"".join(values), np.uint8)
    return np.array(values, np.float32 if kind == "float_list" else np.int64)


@given(cases)
def test_decoded_is_what_was_encoded(case: Case) -> None:
    encoder = case.encoder()
    with np.errstate(over="ignore"):
        runs = list(encoder.runs(case.block()))
        kept = case.expected()
        expected = [record for _, pixels in kept for record in features_of(case, pixels)]
    ranges = [
        index for run in runs for first, count in run.kept.tolist() for index in range(first, first + count)
    ]
    assert ranges == [index for index, _ in kept]
    assert sum(run.patches for run in runs) == case.patches.count
    datas = []
    for run in runs:
        offsets = record_offsets(run.data)
        assert run.records == len(offsets) - 1
        if run.sizes is not None:
            assert run.sizes.tolist() == np.diff(offsets).tolist()
        datas += [bytes(run.data[a + 12 : b - 4]) for a, b in pairwise(offsets)]
        assert_crcs(run.data)
    assert len(datas) == len(expected)
    for data, (context, lists) in zip(datas, expected, strict=True):
        if case.sequence:
            scalars, series = parse_sequence_example(data)
            message = SequenceExample.FromString(data)
            features = message.context.feature
        else:
            scalars, series = parse_example(data), {}
            message = Example.FromString(data)
            features = message.features.feature
        # minimal: protobuf writes no fewer bytes, and nothing is unknown to it
        assert len(message.SerializeToString()) == len(data)
        assert list(scalars) == list(context)
        assert list(series) == list(lists)
        for name, values in context.items():
            same(scalars[name], values)
            same(by_protobuf(features[name]), values)
        for name, steps in lists.items():
            assert len(series[name]) == len(steps) == len(message.feature_lists.feature_list[name].feature)
            for ours, theirs, values in zip(
                series[name], message.feature_lists.feature_list[name].feature, steps, strict=True
            ):
                same(ours, values)
                same(by_protobuf(theirs), values)


def assert_crcs(data: np.ndarray) -> None:
    for _ in read_records(io.BytesIO(data.tobytes())):
        pass


@given(cases)
def test_threads_change_nothing(case: Case) -> None:
    one = [run.data.tobytes() for run in case.encoder().runs(case.block())]
    encoder = case.encoder()
    with Pool(3) as pool:
        encoder.pool = pool
        assert [run.data.tobytes() for run in encoder.runs(case.block())] == one
