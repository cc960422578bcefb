"""The way to other frameworks. Each is imported when it is first asked for.

torch and grain need nothing: a database is a map-style dataset and a random-access source as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import numpy as np

from patchbeam.data.bandlayout import BandLayout
from patchbeam.data.database import Database
from patchbeam.data.epochs import Epochs, EpochsPrefix
from patchbeam.data.loader import Loader
from patchbeam.data.patches import PatchDatabase
from patchbeam.data.provider import Batches, DataProvider
from patchbeam.data.sequences import SequenceDatabase
from patchbeam.errors import JobError
from patchbeam.manifest import Manifest


def _tensorflow() -> Any:
    try:
        return import_module("tensorflow")
    except ImportError as error:
        raise JobError(
            f"TensorFlow is needed for this and cannot be imported ({error}); pip install tensorflow"
        ) from None


def feature_spec(source: PatchDatabase | SequenceDatabase | Manifest) -> Any:
    """Returns what ``tf.io`` parses the records of an export with.

    Args:
        source: a database of an export, or a manifest.

    Returns:
        For Examples a dict for ``tf.io.parse_example``; for SequenceExamples two, of the context and of the
        feature lists. A feature of raw uint8 is a string, for ``tf.io.decode_raw``.

    Raises:
        JobError: there is no TensorFlow, or the sequences of an export without manifest.
    """
    tf = _tensorflow()
    manifest = source if isinstance(source, Manifest) else source.manifest
    if manifest is not None:
        from patchbeam.spec import feature_spec as spec_of

        spec = spec_of(manifest)
        context = {
            f.name: getattr(tf.io, f.parser)(f.parsed_shape, getattr(tf, f.dtype)) for f in spec.context
        }
        if not spec.sequence:
            return context
        lists = {
            f.name: tf.io.FixedLenSequenceFeature(f.parsed_shape, getattr(tf, f.dtype), allow_missing=True)
            for f in spec.lists
        }
        return context, lists
    if not isinstance(source, PatchDatabase):
        raise JobError("feature_spec: sequences without a manifest say too little; give the manifest")
    return {band.feature: _feature_of(tf, band) for band in source.bands}


def _feature_of(tf: Any, band: BandLayout) -> Any:
    if band.kind == "bytes":
        return tf.io.FixedLenFeature((), tf.string)
    return tf.io.FixedLenFeature(band.shape, tf.float32 if band.kind == "float" else tf.int64)


def as_tf(source: Database | DataProvider | Batches | Epochs | EpochsPrefix | Loader) -> Any:
    """Returns a ``tf.data.Dataset`` of items (of a database) or of batches (of anything else).

    Its elements are tuples, a tensor a modality. Over :class:`~patchbeam.data.Epochs` it never ends. Where
    the shapes are not known from the database, the first item or batch is read to find them.

    Raises:
        JobError: there is no TensorFlow.
    """
    tf = _tensorflow()
    if isinstance(source, Database):
        return _dataset(tf, source, _signature(tf, source[0], free=0), len(source))
    free = 1 if _recipe(source).collate is None else None
    if isinstance(source, Epochs):
        signature = _signature(tf, source[0][0], free=free)
        return _dataset(tf, _Flat(source), signature, tf.data.INFINITE_CARDINALITY)
    if isinstance(source, EpochsPrefix):
        batches = len(source) * _recipe(source).batch_count
        return _dataset(tf, _Flat(source), _signature(tf, source[0][0], free=free), batches)
    if isinstance(source, Loader):
        return _dataset(tf, source, _signature(tf, source.peek(), free=free), None)
    return _dataset(tf, source, _signature(tf, source[0], free=free), len(source))


def _recipe(source: Any) -> Any:
    if isinstance(source, EpochsPrefix):
        return source.epochs.recipe
    return source.recipe


class _Flat:
    """The batches of epoch after epoch."""

    def __init__(self, epochs: Epochs | EpochsPrefix) -> None:
        self._epochs = epochs

    def __iter__(self) -> Iterator[Any]:
        return (batch for batches in self._epochs for batch in batches)


def _dataset(tf: Any, source: Iterable[Any], signature: Any, count: int | None) -> Any:
    dataset = tf.data.Dataset.from_generator(lambda: iter(source), output_signature=signature)
    # Keras asks how long a dataset is, and takes the end of one that cannot tell for a mistake.
    return dataset if count is None else dataset.apply(tf.data.experimental.assert_cardinality(count))


def _signature(tf: Any, sample: Any, *, free: int | None) -> Any:
    """Of a sample; its first ``free`` axes, or with ``None`` all, may have other sizes elsewhere."""
    if isinstance(sample, tuple | list) and not (sample and isinstance(sample[0], str | bytes)):
        return tuple(_signature(tf, part, free=free) for part in sample)
    array = np.asarray(sample)
    axes = array.ndim if free is None else min(free, array.ndim)
    shape = (*[None] * axes, *array.shape[axes:])
    return tf.TensorSpec(shape, tf.string if array.dtype.kind in "USO" else tf.as_dtype(array.dtype))
