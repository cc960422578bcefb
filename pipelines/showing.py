"""Whether running jobs show their progress, and the option ``--quiet`` of their commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_shown: ContextVar[bool] = ContextVar("patchbeam_progress", default=False)


def is_shown() -> bool:
    """Whether a job shows its progress; one that is run from Python does not unless told."""
    return _shown.get()


@contextmanager
def showing(show: bool = True) -> Iterator[None]:
    """Says whether jobs that run meanwhile show their progress."""
    token = _shown.set(show)
    try:
        yield
    finally:
        _shown.reset(token)


def quiet_option(command: F) -> F:
    """Adds ``--quiet`` to the command of a job; without it the job shows its progress."""

    def set_shown(context: click.Context, option: click.Parameter, quiet: bool) -> None:
        context.with_resource(showing(not quiet))

    return click.option(
        "--quiet", is_flag=True, expose_value=False, callback=set_shown, help="show no progress"
    )(command)
