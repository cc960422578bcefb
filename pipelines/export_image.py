"""``export-image``: rasters to training shards, mixer and manifest.

Also a module for people who submit with Python:
``python -m pipelines.export_image --job configs/export_image.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import apache_beam as beam

from patchbeam import storage
from patchbeam.checks import check_destination
from patchbeam.errors import CountMismatch, JobError
from patchbeam.export import temporary_folder
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.records.names import manifest_name
from pipelines.beam_options import beam_options, original_error
from pipelines.jobfile import ExportImageJob, load_job
from pipelines.resolve import resolve_export
from transforms.blocks import CreateReadBlocks
from transforms.encode import EncodeExamples
from transforms.read import ReadWindows
from transforms.write import WriteToTFRecord


def load_plan(path: str, overrides: Sequence[str] = ()) -> ExportPlan:
    """Reads a job file and plans it; no pixel is read.

    Raises:
        JobError: the job file or what it names is wrong.
    """
    job = load_job(path, overrides, kind="export-image")
    assert isinstance(job, ExportImageJob)
    base = storage.split(path)[0] if "://" in path else os.path.dirname(os.path.abspath(path))
    return resolve_export(job, base)


def build(pipeline: beam.Pipeline, plan: ExportPlan, *, threads: int, overwrite: bool) -> beam.PCollection:
    """Wires the stages of an export; returns the name of the manifest."""
    return (
        pipeline
        | "CreateReadBlocks" >> CreateReadBlocks(plan)
        | "ReadWindows" >> ReadWindows(plan, threads=threads)
        | "EncodeExamples" >> EncodeExamples(plan, threads=threads)
        | "WriteToTFRecord" >> WriteToTFRecord(plan, threads=threads, overwrite=overwrite)
    )


def run_export(
    plan: ExportPlan,
    beam_arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Runs an export and returns its manifest.

    Args:
        plan: the export.
        beam_arguments: Beam's own options.
        workers: threads of a local run; default all cores.
        overwrite: whether an earlier export with this prefix is replaced.

    Raises:
        JobError: the destination cannot be used; nothing has been written.
        PatchbeamError: the run failed; nothing has been published.
    """
    options, threads = beam_options(beam_arguments, workers)
    check_destination(plan, overwrite=overwrite)
    folder = temporary_folder(plan)
    pipeline = beam.Pipeline(options=options)
    build(pipeline, plan, threads=threads, overwrite=overwrite)
    try:
        pipeline.run().wait_until_finish()
    except BaseException as error:
        storage.delete_tree(folder)
        original = original_error(error)
        if original is error:
            raise
        raise original from error
    name = manifest_name(plan.output)
    if not storage.exists(name):
        raise CountMismatch(f"{name}: the runner reports success and has not published; run the job again")
    return Manifest.from_text(storage.read_bytes(name).decode(), name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.export_image``; unknown options go to Beam."""
    from pipelines.cli import main as command

    given = list(sys.argv[1:] if arguments is None else arguments)
    own, beam_arguments = _split_arguments(given)
    return command(["export-image", *own, "--", *beam_arguments])


def _split_arguments(given: list[str]) -> tuple[list[str], list[str]]:
    """Takes ``--job`` and our own flags out; the rest is Beam's."""
    own: list[str] = []
    rest: list[str] = []
    job: str | None = None
    values = {"--set", "--workers"}
    flags = {"--overwrite"}
    i = 0
    while i < len(given):
        name, equals, value = given[i].partition("=")
        if name == "--job" or name in values:
            if not equals:
                i += 1
                value = given[i] if i < len(given) else ""
            if name == "--job":
                job = value
            else:
                own += [name, value]
        elif given[i] in flags:
            own.append(given[i])
        else:
            rest.append(given[i])
        i += 1
    if not job:
        raise JobError("--job: give the job file, for instance --job configs/export_image.yaml")
    return [job, *own], rest


if __name__ == "__main__":
    sys.exit(main())
