"""Local paths are of no use to workers on other machines; they are refused before anything is sent there."""

from __future__ import annotations

import re
from collections.abc import Iterable

from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from patchbeam.errors import JobError
from pipelines.beam_options import is_local

_ELSEWHERE = {"DataflowRunner"}
# options that name the machine where the work is done
_MASTERS = ("flink_master", "spark_master_url", "job_endpoint")
_HERE = re.compile(
    r"embed|\[(local|auto|collection)\]|local(\[.*\])?|(\w+://)?(localhost|127\.\d+\.\d+\.\d+|\[?::1\]?)(:.*)?"
)


def runs_elsewhere(options: PipelineOptions) -> bool:
    """Whether the workers are on other machines, as far as the options tell."""
    if is_local(options):
        return False
    if str(options.view_as(StandardOptions).runner) in _ELSEWHERE:
        return True
    known = options.get_all_options()
    masters = [str(known[name]) for name in _MASTERS if known.get(name)]
    return any(_HERE.fullmatch(master) is None for master in masters)


def refuse_local_paths(options: PipelineOptions, paths: Iterable[tuple[str, str]]) -> None:
    """Refuses local paths where workers cannot reach them.

    Args:
        options: Beam's.
        paths: key of the job file and path.

    Raises:
        JobError: names the key, the path and the runner.
    """
    if not runs_elsewhere(options):
        return
    runner = options.view_as(StandardOptions).runner
    for key, path in paths:
        if "://" not in path and not path.startswith("/vsi"):
            raise JobError(
                f"{key}: {path} is a local path, and the workers of {runner} run "
                "on other machines; put it in Cloud Storage (gs://bucket/name), or leave --runner out"
            )
