"""``export-table``: features to Examples, with raster values where they are asked for.

Also a module for people who submit with Python:
``python -m pipelines.export_table --job configs/export_table.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from patchbeam import storage
from patchbeam.errors import JobError
from patchbeam.finished_shards import published_names
from patchbeam.leftovers import clean_up
from patchbeam.tables.plan import TablePlan, check_destination
from patchbeam.tables.publish import TableReport, is_published, take_report
from pipelines.arguments import split_arguments
from pipelines.beam_options import beam_options, ends_with_us, is_local, new_pipeline
from pipelines.failures import Output, end_failed_run
from pipelines.pace import Stage
from pipelines.progress import run_pipeline
from pipelines.resolve_table import draw_folder, with_points
from pipelines.stages import draw_stages, table_stages
from transforms.sampling import DrawPoints, SampleFeatures
from transforms.tables import EncodeFeatures, WriteTable, features_of


def build(pipeline: beam.Pipeline, plan: TablePlan, *, threads: int, overwrite: bool) -> beam.PCollection:
    """Wires the stages of a table export; returns the name of its report."""
    batches = pipeline | "ReadFeatures" >> features_of(plan)
    if plan.sample is None:
        runs = batches | "EncodeFeatures" >> EncodeFeatures(plan)
    else:
        runs = batches | "SampleFeatures" >> SampleFeatures(plan, threads=threads)
    return runs | "WriteTable" >> WriteTable(plan, threads=threads, overwrite=overwrite)


def run_export_table(
    plan: TablePlan,
    beam_arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    overwrite: bool = False,
) -> TableReport:
    """Runs a table export and returns what it has done.

    Args:
        plan: the export.
        beam_arguments: Beam's own options.
        workers: threads of a local run; default all cores.
        overwrite: whether an earlier export with this prefix is replaced.

    Raises:
        JobError: the destination cannot be used; nothing has been written.
        PatchbeamError: the run failed; its text says what has been published, if anything.
        KeyboardInterrupt: Ctrl-C; its text says what has become of the run.
    """
    options, threads = beam_options(beam_arguments, workers)
    check_destination(plan, overwrite=overwrite)
    points = draw_folder(plan) if plan.sample is not None and plan.sample.draw is not None else None
    try:
        if points is not None and plan.sample is not None:
            pipeline = new_pipeline(options)
            pipeline | "DrawPoints" >> DrawPoints(plan.sample, points, threads=threads)
            run(pipeline, _drawn(plan, points), draw_stages(plan.sample), options)
            plan = with_points(plan, storage.join(points, "points.parquet"))
        storage.delete_tree(plan.temporary_folder)  # of an attempt that was killed
        pipeline = new_pipeline(options)
        build(pipeline, plan, threads=threads, overwrite=overwrite)
        run(pipeline, _output(plan), table_stages(plan), options)
        return take_report(plan)
    finally:
        if points is not None:
            clean_up(points)


def _output(plan: TablePlan) -> Output:
    folder = plan.temporary_folder
    return Output(
        prefix=plan.output,
        last=f"{plan.output}*.tfrecord.gz",
        folder=folder,
        resumes=False,
        begun=lambda: published_names(folder) is not None,
        complete=lambda: is_published(plan),
    )


def _drawn(plan: TablePlan, folder: str) -> Output:
    """Of the pipeline that draws points, which publishes nothing."""
    return Output(
        prefix=plan.output,
        last=f"{plan.output}*.tfrecord.gz",
        folder=folder,
        resumes=False,
        begun=lambda: False,
        complete=lambda: False,
    )


def run(pipeline: beam.Pipeline, output: Output, stages: Sequence[Stage], options: PipelineOptions) -> None:
    """Runs a pipeline to its end; when it fails, its temporary files go.

    Args:
        pipeline: the pipeline.
        output: what it writes.
        stages: what is counted of it, in order.
        options: Beam's, as the pipeline has them.

    Raises:
        PatchbeamError: what a stage has raised, and what has become of the output.
        KeyboardInterrupt: Ctrl-C.
    """
    local, ends_here = is_local(options), ends_with_us(options)
    try:
        run_pipeline(pipeline, stages, ends_here=ends_here)
    except BaseException as error:
        end_failed_run(error, output, local=local, ends_here=ends_here)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.export_table``; unknown options go to Beam."""
    return run_command("export-table", arguments)


def run_command(name: str, arguments: Sequence[str] | None) -> int:
    """Runs a table job's command with ``--job`` in place of the argument."""
    from pipelines.cli import main as command

    example = f"configs/{name.replace('-', '_')}.yaml"
    try:
        own, beam_arguments = split_arguments(list(sys.argv[1:] if arguments is None else arguments), example)
    except JobError as error:
        print(f"patchbeam: {error}", file=sys.stderr)
        return error.exit_status
    return command([name, *own, "--", *beam_arguments])


if __name__ == "__main__":
    sys.exit(main())
