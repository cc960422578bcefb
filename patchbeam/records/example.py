"""``tf.train.Example`` to and from NumPy arrays: one name for the writer and the reader.

The writer is :mod:`patchbeam.records.layout`, the reader :mod:`patchbeam.records.parse`.
"""

from patchbeam.records.layout import FRAME_BYTES, ExampleLayout, Feature, Kind
from patchbeam.records.parse import ExampleDecoder, Values, feature_kinds, parse_example

__all__ = [
    "FRAME_BYTES",
    "ExampleDecoder",
    "ExampleLayout",
    "Feature",
    "Kind",
    "Values",
    "feature_kinds",
    "parse_example",
]
