"""How pipelines are run: the local runner by name, threads inside elements, Beam's own options."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    StandardOptions,
)
from apache_beam.runners import create_runner
from apache_beam.runners.worker import statesampler

from patchbeam import errors
from patchbeam.pool import core_count

# Plain DirectRunner tries a downloaded binary first; this one is in the package and always there.
LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner"
_LOCAL_NAMES = {"", "DirectRunner", "FnApiRunner", "BundleBasedDirectRunner", LOCAL_RUNNER}
SAMPLING_PERIOD_MS = 10
# Runners that know all of their options in Python; others hand unknown ones on to a job server.
_CLOSED_NAMES = _LOCAL_NAMES | {"DataflowRunner"}


def beam_options(arguments: Sequence[str], workers: int | None = None) -> tuple[PipelineOptions, int]:
    """Returns Beam's options and the number of threads inside one element.

    Args:
        arguments: what the user gives Beam, ``--runner=…`` and so on.
        workers: threads of a local run; default all cores.

    Raises:
        JobError: an option or its value is not known to Beam, or the local mode that loses data is asked
            for.
    """
    _check_arguments(arguments)
    options = PipelineOptions(list(arguments))
    standard = options.view_as(StandardOptions)
    mode = options.get_all_options().get("direct_running_mode")
    if mode == "multi_threading":
        raise errors.JobError(
            "--direct_running_mode=multi_threading: this mode of Beam loses elements without an error; leave "
            "the option out (all cores are used by threads inside each element) or use multi_processing"
        )
    options.view_as(SetupOptions).save_main_session = False
    if (standard.runner or "") in _LOCAL_NAMES:
        standard.runner = LOCAL_RUNNER
        threads = workers or core_count()
        return options, 1 if mode == "multi_processing" else threads
    return options, workers or 1


def new_pipeline(options: PipelineOptions) -> beam.Pipeline:
    """Returns an empty pipeline.

    Raises:
        JobError: there is no such runner here, or it lacks an option.
    """
    runner = options.view_as(StandardOptions).runner
    if runner == LOCAL_RUNNER:
        _sample_often()
    try:
        return beam.Pipeline(create_runner(runner), options=options)
    except (ValueError, ImportError, AttributeError) as error:
        text = "; ".join(line.strip().rstrip(".:") for line in str(error).splitlines() if line.strip())
        raise errors.JobError(
            f"--runner={runner}: {text}; give what follows -- as the runner needs it, or leave --runner out "
            "for a local run"
        ) from error


def _sample_often() -> None:
    """Lets the threads that sample what a stage does sleep for a few milliseconds at a time, not for 200.

    At the end of each stage Beam's runner waits until that thread has slept, a tenth of a second on average
    after a stage of some length, and has no option for it. A Beam whose samplers are made in another way is
    left as it is.
    """
    # none of these names is promised: what is written in C has no defaults that can be seen, for instance
    made: Any = getattr(getattr(statesampler, "StateSampler", None), "__init__", None)
    usual = getattr(statesampler, "DEFAULT_SAMPLING_PERIOD_MS", None)
    if usual is not None and getattr(made, "__defaults__", None) == (usual,):
        made.__defaults__ = (SAMPLING_PERIOD_MS,)


def is_local(options: PipelineOptions) -> bool:
    """Whether the work is done by this machine's own runner."""
    return str(options.view_as(StandardOptions).runner) == LOCAL_RUNNER


def ends_with_us(options: PipelineOptions) -> bool:
    """Whether the work is done by this process, so that it ends when this process does.

    To be asked before the pipeline runs: other runners take their name out of the options.
    """
    environment = options.view_as(PortableOptions).environment_type
    runner = options.view_as(StandardOptions).runner
    # Prism has its workers here unless another place is given
    return is_local(options) or environment == "LOOPBACK" or (runner == "PrismRunner" and not environment)


class _Parser(argparse.ArgumentParser):
    """Raises where argparse would print its usage, hundreds of lines with Beam's options, and exit."""

    def error(self, message: str) -> NoReturn:
        raise errors.JobError(
            f"{message.removeprefix('argument ')}; what follows -- goes to Beam, "
            "for instance -- --runner=DataflowRunner"
        )


def _check_arguments(arguments: Sequence[str]) -> None:
    parser = _Parser(prog="patchbeam", add_help=False, allow_abbrev=False)
    for kind in PipelineOptions.__subclasses__():
        adder = getattr(kind, "_add_argparse_args", None)
        if adder is not None:
            adder(parser)
    known, unknown = parser.parse_known_args(list(arguments))
    if not unknown or (known.runner or "") not in _CLOSED_NAMES:
        return
    name = unknown[0].partition("=")[0]
    options = [option for action in parser._actions for option in action.option_strings]
    hint = errors.nearest(name, options) if name.startswith("-") else ""
    raise errors.JobError(
        f"{unknown[0]}: is neither an option of this command nor of Beam{hint}; "
        "leave it out, or see --help of the command and Beam's pipeline options"
    )
