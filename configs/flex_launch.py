"""Starts the job that a job file describes; what the Flex Template's launcher runs."""

from __future__ import annotations

import importlib
import sys

from patchbeam.errors import PatchbeamError
from pipelines.arguments import split_arguments
from pipelines.jobfile import JOBS, read_job_mapping


def main(arguments: list[str]) -> int:
    """Looks into the job file and hands everything on to the module of its job."""
    try:
        own, _ = split_arguments(arguments, "gs://bucket/job.yaml")
        kind = str(read_job_mapping(own[0]).get("job"))
        if kind not in JOBS:
            raise PatchbeamError(f"{own[0]}: job: {kind} is none of {', '.join(JOBS)}")
    except PatchbeamError as error:
        print(f"patchbeam: {error}", file=sys.stderr)
        return error.exit_status
    module = importlib.import_module(f"pipelines.{kind.replace('-', '_')}")
    status: int = module.main(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
