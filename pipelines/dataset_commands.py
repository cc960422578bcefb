"""The command ``build-dataset``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pipelines.job_help import JobCommand, job_options
from pipelines.showing import quiet_option


@click.command("build-dataset", cls=JobCommand, kind="build-dataset")
@job_options
@click.option("--overwrite", is_flag=True, help="replace an earlier set with the same prefix")
@click.option(
    "--allow-code", is_flag=True, help="let the job file name a function (database.python) that is run"
)
@click.option("--workers", type=click.IntRange(1, 1024), help="threads of a local run; default: all cores")
@quiet_option
@click.argument("beam_arguments", nargs=-1, type=click.UNPROCESSED)
def build_dataset_command(
    job: str,
    overrides: Sequence[str],
    overwrite: bool,
    allow_code: bool,
    workers: int | None,
    beam_arguments: Sequence[str],
) -> None:
    """Write any database as training records. What follows -- goes to Beam."""
    from pipelines.build_dataset import run_build_dataset, summary_text
    from pipelines.resolve_dataset import load_build_dataset

    plan = load_build_dataset(job, overrides, overwrite=overwrite, allow_code=allow_code)
    manifest = run_build_dataset(plan, beam_arguments, workers=workers, overwrite=overwrite)
    click.echo(summary_text(plan, manifest))
