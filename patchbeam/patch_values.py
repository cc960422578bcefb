"""Records back to pixels: a patch's bands as arrays, by the manifest or, without one, by their length."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam.elements import Array
from patchbeam.errors import CorruptRecord, JobError
from patchbeam.manifest import Manifest
from patchbeam.records.crc import Buffer
from patchbeam.records.parse import ExampleDecoder, Values, feature_kinds
from patchbeam.records.parse_sequence import parse_sequence_example
from patchbeam.spec import feature_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class _Feature:
    """A feature and the names of the bands in it: one, or one a channel; ``[step]`` after those of arrays."""

    name: str
    channels: tuple[str, ...]
    flat: bool


class PatchValues:
    """How the record, or the records, of a patch become arrays.

    Attributes:
        patch_width_height: pixels of a patch without its margin.
        margin_width_height: pixels of margin left and right, above and below.
        bands: names, in the order of the records; of arrays one a step.
        sequence: whether a record holds one pixel.
    """

    def __init__(
        self,
        features: Sequence[_Feature],
        patch_width_height: tuple[int, int],
        margin_width_height: tuple[int, int],
        *,
        sequence: bool = False,
    ) -> None:
        self._features = tuple(features)
        self.patch_width_height = patch_width_height
        self.margin_width_height = margin_width_height
        self.sequence = sequence
        self.bands = tuple(name for feature in features for name in feature.channels)

    @property
    def stored_width_height(self) -> tuple[int, int]:
        """Pixels of a patch with its margin."""
        (width, height), (across, down) = self.patch_width_height, self.margin_width_height
        return width + 2 * across, height + 2 * down

    @property
    def records_per_patch(self) -> int:
        """Records that a patch has."""
        return math.prod(self.patch_width_height) if self.sequence else 1

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> PatchValues:
        """Returns what an export's manifest says."""
        spec = feature_spec(manifest)
        features = [
            _Feature(name=f.name, channels=f.channels, flat=not spec.sequence and len(f.shape) == 2)
            for f in spec.context
        ]
        for f in spec.lists:
            steps = range(f.shape[0] or 1)
            channels = tuple(f"{name}[{step}]" for step in steps for name in f.channels)
            features.append(_Feature(name=f.name, channels=channels, flat=False))
        options = manifest.format_options
        across, down = (size // 2 for size in options.kernel_width_height)
        return cls(features, options.patch_width_height, (across, down), sequence=spec.sequence)

    @classmethod
    def from_record(
        cls,
        record: Buffer,
        patch_width_height: tuple[int, int],
        kernel_width_height: tuple[int, int] | None = None,
        *,
        records_per_patch: int = 1,
    ) -> PatchValues:
        """Works out from one record and the size of a patch how wide margins are.

        Args:
            record: the data of any record.
            patch_width_height: from the mixer.
            kernel_width_height: where it is known; else the same margin is taken on all sides.
            records_per_patch: as the number of records says.

        Raises:
            CorruptRecord: it is no Example.
            JobError: features have no length that fits.
        """
        if records_per_patch > 1:
            context, lists = parse_sequence_example(record)
            features = [_Feature(name=name, channels=(name,), flat=False) for name in context]
            features += [_Feature(name=name, channels=(f"{name}[0]",), flat=False) for name in lists]
            return cls(features, patch_width_height, (0, 0), sequence=True)
        kinds = [kind for kind in feature_kinds(record) if kind.length]
        margin = _margin([kind.length for kind in kinds], patch_width_height, kernel_width_height)
        stored = math.prod(n + 2 * m for n, m in zip(patch_width_height, margin, strict=True))
        features = []
        for kind in kinds:
            depth = kind.length // stored
            names = tuple(f"{kind.name}[{step}]" for step in range(depth)) if depth > 1 else (kind.name,)
            features.append(_Feature(name=kind.name, channels=names, flat=depth == 1))
        return cls(features, patch_width_height, margin)

    def decoder(self, bands: Sequence[str] | None = None) -> PatchDecoder:
        """Returns a decoder of some bands, in their order; it belongs to one thread."""
        return PatchDecoder(self, bands if bands is not None else self.bands)

    def places(self, bands: Sequence[str]) -> list[tuple[str, int]]:
        """Returns feature and channel of each band."""
        known = {name: (f.name, i) for f in self._features for i, name in enumerate(f.channels)}
        return [known[name] for name in bands]

    def channels(self, feature: str) -> int:
        """Returns how many bands a feature holds."""
        return next(len(f.channels) for f in self._features if f.name == feature)


class PatchDecoder:
    """Decodes some bands of patches."""

    def __init__(self, values: PatchValues, bands: Sequence[str]) -> None:
        self.values = values
        self.bands = tuple(bands)
        self._places = values.places(bands)
        self._names = list(dict.fromkeys(name for name, _ in self._places))
        self._decoder = ExampleDecoder(self._names)

    def decode(self, records: Iterator[Buffer], step: int = 1) -> list[Array]:
        """Returns ``(row, col)`` of each band, margin included.

        Args:
            records: of the patch, one or one a pixel.
            step: where a record holds one pixel, every how many pixels one is looked at.

        Raises:
            CorruptRecord: a feature is missing or has another length.
        """
        if self.values.sequence:
            return self._pixels(records, step)
        found = self._decoder.decode(next(records))
        width, height = self.values.stored_width_height
        arrays = {}
        for name in self._names:
            values = _numbers(found.get(name))
            channels = self.values.channels(name)
            if values is None or values.size != channels * width * height:
                have = "missing" if values is None else f"{values.size} numbers long"
                raise CorruptRecord(
                    f"feature {name!r} is {have}; {channels} × {height} × {width} numbers are due"
                )
            arrays[name] = values.reshape(channels, height, width)
        return [arrays[name][channel] for name, channel in self._places]

    def _pixels(self, records: Iterator[Buffer], step: int) -> list[Array]:
        width, height = self.values.patch_width_height
        out = [np.full((-(-height // step), -(-width // step)), np.nan, np.float32) for _ in self._places]
        for number, record in enumerate(records):
            row, col = divmod(number, width)
            if row % step or col % step:
                continue
            context, lists = parse_sequence_example(record)
            for target, (name, channel) in zip(out, self._places, strict=True):
                listed = [_numbers(values) for values in lists.get(name, ())]
                flat = (
                    np.concatenate([v for v in listed if v is not None])
                    if listed
                    else _numbers(context.get(name))
                )
                if flat is not None and channel < flat.size:
                    target[row // step, col // step] = flat[channel]
        return list(out)


def _numbers(values: Values) -> Array | None:
    if isinstance(values, list):
        return np.frombuffer(b"".join(values), np.uint8)
    return values


def _margin(
    lengths: Sequence[int], patch: tuple[int, int], kernel: tuple[int, int] | None
) -> tuple[int, int]:
    pixels = math.prod(patch)
    if kernel is not None:
        margin = (kernel[0] // 2, kernel[1] // 2)
        stored = math.prod(n + 2 * m for n, m in zip(patch, margin, strict=True))
        if any(length % stored for length in lengths):
            raise JobError(
                f"kernelSize {list(kernel)} with patches of {patch[0]} × {patch[1]} makes {stored} numbers a "
                f"band; features have {', '.join(map(str, sorted(set(lengths))))}"
            )
        return margin
    least = min(lengths, default=0)
    square = _square_margin(least, patch)
    # one feature of 4 · pixels is more likely four collapsed bands than a margin as wide as half the patch
    if len(lengths) == 1 and least and least % pixels == 0:
        square = 0
    if square is not None and all(
        length % math.prod(n + 2 * square for n in patch) == 0 for length in lengths
    ):
        return square, square
    if least and all(length % pixels == 0 for length in lengths):
        return 0, 0
    raise JobError(
        f"features have {', '.join(map(str, sorted(set(lengths))))} numbers, and patches of "
        f"{patch[0]} × {patch[1]} pixels have {pixels}: no margin that is equal on all sides fits; "
        "give the kernel's size"
    )


def _square_margin(length: int, patch: tuple[int, int]) -> int | None:
    """The margin m with (width + 2 m) · (height + 2 m) = length, if there is one."""
    width, height = patch
    root = (width - height) ** 2 + 4 * length
    twice = math.isqrt(root) - width - height
    if twice < 0 or twice % 4 or math.isqrt(root) ** 2 != root:
        return None
    return twice // 4
