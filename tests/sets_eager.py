"""Conversions without Beam, and comparison of what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from patchbeam.assemble import assemble
from patchbeam.data.convert import RangeWriter, SetPlan
from patchbeam.data.convert_publish import plan_shards, publish_set
from patchbeam.pool import Pool
from patchbeam.shards import Shard
from patchbeam.summary import Summary


def run_eagerly(plan: SetPlan, *, overwrite: bool = False) -> None:
    """Converts, ranges in reverse order."""
    writer = RangeWriter(plan, Pool(1))
    pieces = [piece for task in reversed(plan.ranges) for piece in writer.write(*task)]
    planned = list(plan_shards(plan, pieces))
    shards = [assemble(s, plan.temporary_folder, profile=plan.gzip) for s in planned if isinstance(s, Shard)]
    publish_set(plan, [s for s in planned if isinstance(s, Summary)], shards, overwrite=overwrite)


def same(one: Any, other: Any) -> None:
    """Both databases have the same items: values, types and shapes."""
    assert len(one) == len(other) > 0 and tuple(one.modalities) == tuple(other.modalities)
    for index in range(len(one)):
        for a, b in zip(one[index], other[index], strict=True):
            if isinstance(a, str | bytes):
                assert a == b and type(a) is type(b)
                continue
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_array_equal(a, b)
