"""How Beam's own runner is set up: what it waits for without need, it does not wait for."""

from __future__ import annotations

import inspect

from apache_beam.runners.worker.statesampler import StateSampler

from pipelines.beam_options import SAMPLING_PERIOD_MS, beam_options, new_pipeline


def test_stages_do_not_wait_for_their_sampler() -> None:
    """Fails when a new Beam makes its samplers in another way: stages may wait for them again."""
    new_pipeline(beam_options([])[0])
    assert inspect.signature(StateSampler).parameters["sampling_period_ms"].default == SAMPLING_PERIOD_MS
