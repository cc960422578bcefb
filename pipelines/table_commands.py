"""Commands for tables: ``export-table`` and ``import-table``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from patchbeam.tables.libraries import check_arrow
from pipelines.job_help import JobCommand, job_options
from pipelines.showing import quiet_option

F = TypeVar("F", bound=Callable[..., Any])


def _options(command: F) -> F:
    for decorator in (
        click.argument("beam_arguments", nargs=-1, type=click.UNPROCESSED),
        click.option(
            "--workers", type=click.IntRange(1, 1024), help="threads of a local run; default: all cores"
        ),
        quiet_option,
        click.option("--overwrite", is_flag=True, help="replace what an earlier run has written there"),
        job_options,
    ):
        command = decorator(command)
    return command


@click.command("export-table", cls=JobCommand, kind="export-table")
@_options
def export_table_command(
    job: str, overrides: Sequence[str], overwrite: bool, workers: int | None, beam_arguments: Sequence[str]
) -> None:
    """Export features as training records. What follows -- goes to Beam."""
    check_arrow()
    from pipelines.export_table import run_export_table
    from pipelines.resolve_table import load_export_table
    from pipelines.table_text import export_text

    plan = load_export_table(job, overrides)
    report = run_export_table(plan, beam_arguments, workers=workers, overwrite=overwrite)
    click.echo(export_text(plan, report))


@click.command("import-table", cls=JobCommand, kind="import-table")
@_options
def import_table_command(
    job: str, overrides: Sequence[str], overwrite: bool, workers: int | None, beam_arguments: Sequence[str]
) -> None:
    """Make a table of records. What follows -- goes to Beam."""
    check_arrow()
    from pipelines.import_table import resolve_import_table, run_import_table
    from pipelines.resolve_table import load_import_table
    from pipelines.table_text import import_text

    plan = resolve_import_table(*load_import_table(job, overrides))
    click.echo(import_text(run_import_table(plan, beam_arguments, workers=workers, overwrite=overwrite)))
