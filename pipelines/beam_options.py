"""How pipelines are run: the local runner by name, threads inside elements, Beam's own options."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions, StandardOptions

from patchbeam import errors
from patchbeam.pool import core_count

# Plain DirectRunner tries a downloaded binary first; this one is in the package and always there.
LOCAL_RUNNER = "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner"
_LOCAL_NAMES = {"", "DirectRunner", "FnApiRunner", "BundleBasedDirectRunner", LOCAL_RUNNER}


def beam_options(arguments: Sequence[str], workers: int | None = None) -> tuple[PipelineOptions, int]:
    """Returns Beam's options and the number of threads inside one element.

    Args:
        arguments: what the user gives Beam, ``--runner=…`` and so on.
        workers: threads of a local run; default all cores.

    Raises:
        JobError: the option is not known to Beam, or the local mode that loses data is asked for.
    """
    options = PipelineOptions(list(arguments))
    standard = options.view_as(StandardOptions)
    mode = options.get_all_options().get("direct_running_mode")
    if mode == "multi_threading":
        raise errors.JobError(
            "--direct_running_mode=multi_threading: this mode of Beam loses elements without an error; leave the "
            "option out (all cores are used by threads inside each element) or use multi_processing"
        )
    options.view_as(SetupOptions).save_main_session = False
    if (standard.runner or "") in _LOCAL_NAMES:
        standard.runner = LOCAL_RUNNER
        threads = workers or core_count()
        return options, 1 if mode == "multi_processing" else threads
    return options, workers or 1


_ERROR = re.compile(r"patchbeam\.errors\.(\w+): (.*?)(?: \[while running '[^\n]*'\])?(?:\n\n|\Z|\nTraceback|\n\Z)", re.S)


def original_error(error: BaseException) -> BaseException:
    """Returns the error that a stage raised; runners hand it back as text inside one of their own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, errors.PatchbeamError):
            break
        seen = seen.__cause__ or seen.__context__
    found = list(_ERROR.finditer(str(error)))
    if seen is None and found:
        name, text = found[-1][1], found[-1][2]
        kind = getattr(errors, name, errors.PatchbeamError)
        return kind(text) if issubclass(kind, errors.PatchbeamError) else errors.PatchbeamError(text)
    return seen if seen is not None else error
