"""Arguments of ``python -m pipelines.JOB``: ours apart from Beam's."""

from __future__ import annotations

from collections.abc import Sequence

from patchbeam.errors import JobError

_VALUES = {"--set", "--workers", "--output", "--report"}
_FLAGS = {"--overwrite", "--resume", "--quiet", "--log-json", "--allow-code"}


def split_arguments(given: Sequence[str], example: str) -> tuple[list[str], list[str]]:
    """Takes ``--job`` and our own options out; the rest is Beam's.

    Args:
        given: the arguments.
        example: a job file, for the message.

    Raises:
        JobError: there is no ``--job``.
    """
    own: list[str] = []
    rest: list[str] = []
    job: str | None = None
    left = list(given)
    while left:
        argument = left.pop(0)
        name, equals, value = argument.partition("=")
        if name == "--job" or name in _VALUES:
            if not equals:
                value = left.pop(0) if left else ""
            if name == "--job":
                job = value
            else:
                own += [name, value]
        elif argument in _FLAGS:
            own.append(argument)
        else:
            rest.append(argument)
    if not job:
        raise JobError(f"--job: give the job file, for instance --job {example}")
    return [job, *own], rest
