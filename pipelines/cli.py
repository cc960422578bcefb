"""The command line: ``patchbeam COMMAND``. Exit status: 0 done, 2 the job or its inputs are wrong (found
before work starts), 1 it failed on the way, 3 another run holds the lock, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from patchbeam import __version__
from patchbeam.errors import CorruptRecord, JobError, PatchbeamError, nearest
from patchbeam.redact import without_secrets
from pipelines import check_commands, dataset_commands, logs, table_commands
from pipelines.job_help import JobCommand, job_options
from pipelines.showing import quiet_option

if TYPE_CHECKING:
    from patchbeam.plan import ExportPlan

_WARNINGS = 3

F = TypeVar("F", bound=Callable[..., Any])


class _Commands(click.Group):
    """Answers an unknown command with the nearest known one."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            names = self.list_commands(ctx)
            ctx.fail(
                f"{args[0]!r} is not a command{nearest(args[0], names)}; commands are {', '.join(names)}"
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="patchbeam")
def cli() -> None:
    """Rasters to training records, and predictions back to maps."""


def _log_json(context: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        logs.write_json()


def _run_options(command: F) -> F:
    """The options of commands that other programs start."""
    for decorator in (
        click.option("--report", metavar="FILE", help="write what was done as JSON, also after a failure"),
        click.option(
            "--log-json",
            is_flag=True,
            expose_value=False,
            callback=_log_json,
            help="log one JSON object a line to standard error",
        ),
    ):
        command = decorator(command)
    return command


def _warn(plan: ExportPlan) -> None:
    from patchbeam.rasters.reader import ImageReader
    from pipelines.source_text import source_warnings

    for text in source_warnings(plan):
        click.echo(f"warning: {without_secrets(text)}", err=True)
    warnings = ImageReader(plan.sources, plan.bands, plan.grid).warnings
    for text in warnings[:_WARNINGS]:
        click.echo(f"warning: {without_secrets(text)}", err=True)
    if len(warnings) > _WARNINGS:
        click.echo(f"warning: the same goes for {len(warnings) - _WARNINGS} more bands", err=True)


@cli.command("plan", cls=JobCommand, kind="export-image")
@job_options
@click.option("--json", "as_json", is_flag=True, help="print the plan as JSON")
@click.option("--estimate", is_flag=True, help="read a few blocks: time and size, and cost on Dataflow")
@click.option("--blocks", type=click.IntRange(1), default=8, show_default=True, help="blocks to read for it")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="decides which blocks")
@click.option("--workers", type=click.IntRange(1, 1024), help="threads to estimate with; default: all cores")
@click.option("--prices", metavar="FILE", help="prices of workers; default: those that come with the package")
def plan_command(
    job: str,
    overrides: Sequence[str],
    as_json: bool,
    estimate: bool,
    blocks: int,
    seed: int,
    workers: int | None,
    prices: str | None,
) -> None:
    """Print what a job will do: grid, patches, shards, bytes. Reads headers only, unless it estimates."""
    from pipelines.plan_text import plan_text
    from pipelines.resolve import load_plan

    plan = load_plan(job, overrides)
    _warn(plan)
    facts, text = plan.to_json(), plan_text(plan)
    if estimate:
        from pipelines.estimate_text import estimated

        more, said = estimated(plan, blocks=blocks, seed=seed, threads=workers, prices=prices)
        facts, text = {**facts, "estimate": more}, f"{text}\n\n{said}"
    click.echo(json.dumps(facts, indent=2) if as_json else text)


@cli.command("export-image", cls=JobCommand, kind="export-image")
@job_options
@_run_options
@quiet_option
@click.option("--overwrite", is_flag=True, help="replace an earlier export with the same prefix")
@click.option("--resume", is_flag=True, help="keep what an interrupted run of the same job has finished")
@click.option("--workers", type=click.IntRange(1, 1024), help="threads of a local run; default: all cores")
@click.argument("beam_arguments", nargs=-1, type=click.UNPROCESSED)
def export_image_command(
    job: str,
    overrides: Sequence[str],
    overwrite: bool,
    resume: bool,
    workers: int | None,
    beam_arguments: Sequence[str],
    report: str | None,
) -> None:
    """Export rasters as training records. What follows -- goes to Beam."""
    from pipelines.export_image import run_export
    from pipelines.plan_text import summary_text
    from pipelines.report import export_facts, reporting
    from pipelines.resolve import load_plan

    with reporting(report, "export-image", job) as facts:
        plan = load_plan(job, overrides)
        _warn(plan)
        facts["output"] = plan.output
        manifest = run_export(plan, beam_arguments, workers=workers, overwrite=overwrite, resume=resume)
        facts.update(export_facts(plan, manifest))
    click.echo(summary_text(plan, manifest))


@cli.command("import-image", cls=JobCommand, kind="import-image")
@job_options
@_run_options
@click.option(
    "--output", metavar="PREFIX", help="prefix of the map; default for an export's prefix: PREFIX-map"
)
@quiet_option
@click.option("--overwrite", is_flag=True, help="replace an earlier map with the same prefix")
@click.option(
    "--resume", is_flag=True, help="keep tiles that an earlier attempt of the same import has finished"
)
@click.option("--workers", type=click.IntRange(1, 1024), help="threads of a local run; default: all cores")
@click.argument("beam_arguments", nargs=-1, type=click.UNPROCESSED)
def import_image_command(
    job: str,
    overrides: Sequence[str],
    output: str | None,
    overwrite: bool,
    resume: bool,
    workers: int | None,
    beam_arguments: Sequence[str],
    report: str | None,
) -> None:
    """Make a map of prediction records. JOB is a job file or the prefix of an export."""
    from pipelines.import_image import run_import, summary_text
    from pipelines.report import reporting
    from pipelines.resolve_import import load_import

    with reporting(report, "import-image", job) as facts:
        plan = load_import(job, overrides, output)
        facts["output"] = plan.output
        done = run_import(plan, beam_arguments, workers=workers, overwrite=overwrite, resume=resume)
        facts.update(tiles=len(done["tiles"]), patchesPlaced=done["patchesPlaced"])
    click.echo(summary_text(plan, done))


@cli.command("scene")
@click.argument("out", type=click.Path())
@click.option("--width", type=int, default=2048, show_default=True, help="pixels")
@click.option("--height", type=int, default=2048, show_default=True, help="pixels")
@click.option("--bands", type=int, default=4, show_default=True, help="of a scene, 1 to 13")
@click.option("--seed", type=int, default=0, show_default=True, help="decides what is drawn")
@click.option("--dates", type=int, default=1, show_default=True, help="dates of a time series")
@click.option("--crs", default="EPSG:32633", show_default=True, help="CRS of the scene")
@click.option("--scale", "scale_m", type=float, default=10.0, show_default=True, help="pixel size in metres")
@click.option("--dtype", default="uint16", show_default=True, help="type of the bands")
@click.option("--layout", default="tiled", show_default=True, help="tiled or striped")
@click.option("--block-size", type=int, default=256, show_default=True, help="pixels across a tile")
@click.option("--compress", default="deflate", show_default=True, help="none, deflate, zstd or lzw")
@click.option(
    "--points", type=click.IntRange(min=0), default=0, help="also write so many points, OUT-points.geojson"
)
@click.option("--overwrite", is_flag=True, help="replace files that are there")
def scene_command(out: str, points: int, **options: Any) -> None:
    """Write a realistic sample scene and its class map, of any size."""
    from patchbeam.scene import write_scene
    from patchbeam.scene.points import check_points, write_points

    if points and not options["overwrite"]:
        check_points(out)
    written = write_scene(out, **options)
    for path in written:
        click.echo(path)
    if points:
        again = {"seed": options["seed"], "overwrite": options["overwrite"]}
        click.echo(write_points(out, points, raster=written[0], **again))


@cli.command("inspect")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="print it as JSON")
@click.option("--spec", "as_spec", is_flag=True, help="print the tf.io parsing dict")
def inspect_command(files: Sequence[str], as_json: bool, as_spec: bool) -> None:
    """Print what record files hold: features, types, lengths, shapes, counts.

    FILES are record files, or prefixes of exports.
    """
    from patchbeam.inspect import common_spec, inspect_file, record_files
    from pipelines.inspect_text import inspect_text

    found = [inspect_file(path) for path in record_files(files)]
    if as_spec:
        spec = common_spec(found)
        click.echo(json.dumps(spec.to_json(), indent=2) if as_json else spec.to_python().rstrip())
    elif as_json:
        click.echo(json.dumps([one.to_json() for one in found], indent=2))
    else:
        click.echo("\n".join(inspect_text(one) for one in found))


@cli.command("schema")
@click.argument("kind")
def schema_command(kind: str) -> None:
    """Print the JSON Schema of a job file, for editors.

    KIND: export-image, import-image, export-table, import-table, build-dataset.
    """
    from pipelines.jobfile import JOBS
    from pipelines.jobfile.schema import job_schema

    if kind not in JOBS:
        raise JobError(f"{kind!r} is not a job{nearest(kind, JOBS)}; jobs are {', '.join(JOBS)}")
    click.echo(json.dumps(job_schema(kind), indent=2, ensure_ascii=False))


cli.add_command(check_commands.verify_command)
cli.add_command(table_commands.export_table_command)
cli.add_command(table_commands.import_table_command)
cli.add_command(dataset_commands.build_dataset_command)
cli.add_command(check_commands.look_command)


_DAMAGE_REMEDY = "; patchbeam verify tells of all damage; fetch or write the file again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    logs.configure()
    try:
        status = cli.main(
            args=None if arguments is None else list(arguments), prog_name="patchbeam", standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        advice = f"; see {context.command_path} --help" if context is not None else ""
        click.echo(f"patchbeam: {error.format_message().rstrip('.')}{advice}", err=True)
        return error.exit_code
    except click.Abort as error:
        # click turns Ctrl-C into this; what was raised says what has become of the work
        said = str(error.__cause__ or error.__context__ or "")
        logs.say_error(f"interrupted; {said or 'nothing has been published'}")
        return 130
    except KeyboardInterrupt:
        logs.say_error("interrupted; nothing has been published")
        return 130
    except PatchbeamError as error:
        remedy = _DAMAGE_REMEDY if isinstance(error, CorruptRecord) else ""
        logs.say_error(f"{error}{remedy}")
        return error.exit_status
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    sys.exit(main())
