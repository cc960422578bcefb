"""How TensorFlow is told to parse the records: a plain description, and the same as Python text.

Nothing here imports TensorFlow. A feature of bytes holds raw uint8, which ``tf.io.decode_raw`` turns back
into numbers after parsing; the printed text does it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from patchbeam.manifest import Manifest, ManifestBand

Dtype = Literal["float32", "int64", "string"]
Parser = Literal["FixedLenFeature", "FixedLenSequenceFeature"]
Shape = tuple[int | None, ...]

DTYPES: dict[str, Dtype] = {"float": "float32", "int64": "int64", "bytes": "string"}
"""What each kind of feature list is to TensorFlow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpec:
    """How one feature is parsed.

    Attributes:
        name: its key.
        parser: the class of ``tf.io``.
        parsed_shape: what the parser is given: the whole shape of an Example's or a context's feature, of
            a feature list that of one step.
        dtype: what the parser is given; ``string`` for raw bytes.
        shape: of the numbers in the end: ``(row, col)``, ``(channel, row, col)``, ``()``, ``(step,)`` or
            ``(step, channel)``; ``None`` where it differs from record to record.
        channels: names of the bands, one a channel; of one band alone its name.
    """

    name: str
    parser: Parser
    parsed_shape: tuple[int, ...]
    dtype: Dtype
    shape: Shape
    channels: tuple[str, ...]

    @property
    def raw(self) -> bool:
        """Whether the numbers are the raw bytes of a text."""
        return self.dtype == "string"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSpec:
    """How one record is parsed.

    Attributes:
        sequence: whether it is a SequenceExample.
        context: the features of an Example, or of the context of a SequenceExample.
        lists: the feature lists of a SequenceExample.
    """

    sequence: bool
    context: tuple[FeatureSpec, ...]
    lists: tuple[FeatureSpec, ...] = ()

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """All of them, the context first."""
        return (*self.context, *self.lists)

    def to_json(self) -> dict[str, Any]:
        """Returns the spec as plain values."""

        def entry(feature: FeatureSpec) -> dict[str, Any]:
            return {
                "name": feature.name,
                "parser": feature.parser,
                "parsedShape": list(feature.parsed_shape),
                "dtype": feature.dtype,
                "shape": list(feature.shape),
                "channels": list(feature.channels),
            }

        return {
            "record": "SequenceExample" if self.sequence else "Example",
            "context" if self.sequence else "features": [entry(feature) for feature in self.context],
            **({"featureLists": [entry(feature) for feature in self.lists]} if self.sequence else {}),
        }

    def to_python(self) -> str:
        """Returns Python text: the parsing dict, and a function that parses one serialized record."""
        lines = ["import tensorflow as tf", ""]
        if self.sequence:
            lines += [*_dict("context_features", self.context), "", *_dict("sequence_features", self.lists)]
            body = [
                "    context, lists = tf.io.parse_single_sequence_example(",
                "        record, context_features, sequence_features",
                "    )",
                "    values = {**context, **lists}",
            ]
        else:
            lines += _dict("features", self.context)
            body = ["    values = tf.io.parse_single_example(record, features)"]
        body += [line for feature in self.features for line in _decoding(feature)]
        return "\n".join([*lines, "", "", "def parse(record):", *body, "    return values", ""])


def feature_spec(manifest: Manifest) -> RecordSpec:
    """Returns how the records of an export are parsed.

    Args:
        manifest: of the export.
    """
    options = manifest.format_options
    bands = manifest.bands
    if options.collapse_bands:
        first = bands[0]
        dtype = DTYPES[first.wire_type]
        channels = tuple(name for band in bands for name in _channels(band, options.sequence_data))
        if options.sequence_data:
            depths = [band.shape[0] for band in bands if band.shape]
            known = [depth for depth in depths if depth is not None]
            steps = None if len(known) < len(depths) else max(known, default=1)
            spec = _list(first.name, dtype, steps, channels)
            return RecordSpec(sequence=True, context=(), lists=(spec,))
        shape = (len(channels), *first.shape[-2:])
        return RecordSpec(sequence=False, context=(_fixed(first.name, dtype, shape, channels),))
    context = []
    lists = []
    for band in bands:
        dtype = DTYPES[band.wire_type]
        if options.sequence_data and band.shape:
            lists.append(_list(band.name, dtype, band.shape[0], (band.name,)))
        else:
            context.append(_fixed(band.name, dtype, band.shape, _channels(band, options.sequence_data)))
    return RecordSpec(sequence=options.sequence_data, context=tuple(context), lists=tuple(lists))


def _channels(band: ManifestBand, sequence: bool) -> Iterator[str]:
    """Yields a name for each channel that a band fills."""
    if sequence or len(band.shape) < 3:
        yield band.name
    else:
        yield from (f"{band.name}[{step}]" for step in range(band.shape[0] or 0))


def _fixed(name: str, dtype: Dtype, shape: Shape, channels: Iterable[str]) -> FeatureSpec:
    sizes = tuple(size for size in shape if size is not None)
    return FeatureSpec(
        name=name,
        parser="FixedLenFeature",
        parsed_shape=() if dtype == "string" else sizes,
        dtype=dtype,
        shape=shape,
        channels=tuple(channels),
    )


def _list(name: str, dtype: Dtype, steps: int | None, channels: tuple[str, ...]) -> FeatureSpec:
    numbers = (len(channels),) if len(channels) > 1 else ()
    return FeatureSpec(
        name=name,
        parser="FixedLenSequenceFeature",
        parsed_shape=() if dtype == "string" else numbers,
        dtype=dtype,
        shape=(steps, *numbers),
        channels=channels,
    )


def _dict(name: str, features: Iterable[FeatureSpec]) -> list[str]:
    lines = []
    for feature in features:
        # a list without steps is there all the same; TensorFlow asks to be told that it may be
        missing = ", allow_missing=True" if feature.parser == "FixedLenSequenceFeature" else ""
        call = f"tf.io.{feature.parser}({list(feature.parsed_shape)}, tf.{feature.dtype}{missing})"
        lines.append(f"    {_text(feature.name)}: {call},")
    return [f"{name} = {{", *lines, "}"] if lines else [f"{name} = {{}}"]


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)  # JSON's texts are Python's too


def _decoding(feature: FeatureSpec) -> Iterator[str]:
    value = f"values[{_text(feature.name)}]"
    target = [-1 if size is None else size for size in feature.shape]
    if feature.raw:
        yield f"    {value} = tf.reshape(tf.io.decode_raw({value}, tf.uint8), {target})"
    elif feature.parser == "FixedLenSequenceFeature" and -1 not in target:
        yield f"    {value} = tf.ensure_shape({value}, {target})"
