"""Beam counters and distributions of the transforms, all in the namespace ``patchbeam``."""

from __future__ import annotations

import apache_beam as beam
from apache_beam.metrics.metricbase import Counter, Distribution

from patchbeam import counts
from patchbeam.retry import take_count

NAMESPACE = "patchbeam"
UNITS, BYTES = "_done", "_done_bytes"
"""Ends of the names of the counters that say how far a stage is."""


def counter(name: str) -> Counter:
    """Returns a counter."""
    return beam.metrics.Metrics.counter(NAMESPACE, name)


def distribution(name: str) -> Distribution:
    """Returns a distribution: count, sum, least and greatest of what it is updated with."""
    return beam.metrics.Metrics.distribution(NAMESPACE, name)


class Reading:
    """Counts what the library has read since: ``reads``, ``warps``, ``retries``.

    They are counted by the process, in whichever thread; all that is taken here is counted once.
    """

    def __init__(self) -> None:
        self._reads, self._warps, self._retries = counter("reads"), counter("warps"), counter("retries")

    def take(self) -> None:
        """Adds what has come since the last time; from the thread that processes the element."""
        self._reads.inc(counts.take("reads"))
        self._warps.inc(counts.take("warps"))
        self._retries.inc(take_count())


class Advance:
    """Counts the units of a stage that are done, for progress: in this process and by Beam.

    Args:
        stage: what is counted, for instance ``patches``.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._units, self._bytes = counter(stage + UNITS), counter(stage + BYTES)

    def __call__(self, units: int, size_bytes: int = 0) -> None:
        """Adds units and their payload, uncompressed."""
        counts.advance(self._stage, units, size_bytes)
        self._units.inc(units)
        self._bytes.inc(size_bytes)
