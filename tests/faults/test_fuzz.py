"""Parsers of everything that is read, fed with what is nearly right: see ``fuzzing.py`` for the rule."""

from __future__ import annotations

import pytest
from fuzz_targets import data, jobs, rasters, records, sidecars
from fuzzing import Target, run

TARGETS = [*records.TARGETS, *sidecars.TARGETS, *jobs.TARGETS, *rasters.TARGETS, *data.TARGETS]
WANTED = 1_000_000
BATCH = 20_000


def names(target: Target) -> str:
    return target.name


@pytest.mark.parametrize("target", TARGETS, ids=names)
def test_some(target: Target) -> None:
    counts = run(target, target.short, seed=0)
    assert counts.inputs == target.short
    assert counts.refused, "nothing was refused: the inputs are too tame"
    assert counts.refused < counts.inputs, "everything was refused: the inputs are too wild"


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS, ids=names)
def test_many(target: Target, record_property: pytest.RecordProperty) -> None:
    done = [run(target, min(BATCH, target.long - at), seed=1 + at) for at in range(0, target.long, BATCH)]
    record_property("inputs", sum(counts.inputs for counts in done))
    record_property("refused", sum(counts.refused for counts in done))
    assert sum(counts.inputs for counts in done) == target.long


def test_how_many() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)
    assert sum(target.short for target in TARGETS) >= 20_000
    assert sum(target.long for target in TARGETS) >= WANTED
