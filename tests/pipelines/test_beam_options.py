"""How Beam's own runner is set up: what it waits for without need, it does not wait for."""

from __future__ import annotations

import importlib
import inspect

import pytest
from apache_beam.runners.worker import statesampler
from apache_beam.runners.worker.statesampler import StateSampler

from pipelines import beam_options as module
from pipelines.beam_options import SAMPLING_PERIOD_MS, beam_options, new_pipeline


def test_stages_do_not_wait_for_their_sampler() -> None:
    """Fails when a new Beam makes its samplers in another way: stages may wait for them again."""
    new_pipeline(beam_options([])[0])
    assert inspect.signature(StateSampler).parameters["sampling_period_ms"].default == SAMPLING_PERIOD_MS


class _InC:
    """As a class that Cython has compiled: its methods say nothing of their defaults."""

    __init__ = object.__init__


@pytest.mark.parametrize("changed", ["no default", "no sampler", "in C", "another default"])
def test_a_beam_that_makes_its_samplers_in_another_way_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    if changed == "no default":
        monkeypatch.delattr(statesampler, "DEFAULT_SAMPLING_PERIOD_MS")
    elif changed == "no sampler":
        monkeypatch.delattr(statesampler, "StateSampler")
    elif changed == "in C":
        monkeypatch.setattr(statesampler, "StateSampler", _InC)
    else:
        monkeypatch.setattr(StateSampler.__init__, "__defaults__", (None, 200))
    importlib.reload(module)
    assert module.new_pipeline(module.beam_options([])[0]) is not None
    if changed == "another default":
        assert StateSampler.__init__.__defaults__ == (None, 200)
