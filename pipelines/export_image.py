"""``export-image``: rasters to training shards, mixer and manifest.

Also a module for people who submit with Python:
``python -m pipelines.export_image --job configs/export_image.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import apache_beam as beam

from patchbeam import storage
from patchbeam.checks import check_destination, outputs_there
from patchbeam.errors import CountMismatch, JobError, PatchbeamError
from patchbeam.export import temporary_folder
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.pool import close_pools
from patchbeam.records.names import manifest_name
from pipelines.beam_options import beam_options, is_local, new_pipeline, original_error, was_interrupted
from transforms.blocks import CreateReadBlocks
from transforms.encode import EncodeExamples
from transforms.read import ReadWindows
from transforms.write import WriteToTFRecord

_LOG = logging.getLogger(__name__)


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
        KeyboardInterrupt: Ctrl-C; its text says what has become of the run.
    """
    options, threads = beam_options(beam_arguments, workers)
    pipeline = new_pipeline(options)
    check_destination(plan, overwrite=overwrite)
    folder = temporary_folder(plan)
    build(pipeline, plan, threads=threads, overwrite=overwrite)
    try:
        pipeline.run().wait_until_finish()
    except BaseException as error:
        interrupted = was_interrupted(error)
        if interrupted and not is_local(options):
            raise KeyboardInterrupt(
                f"the job goes on where it runs and will publish {plan.output}; cancel it there, then "
                f"delete {folder}"
            ) from error
        _clean_up(folder)
        if interrupted:
            raise KeyboardInterrupt(_state_after(plan)) from error
        original = original_error(error)
        if original is error:
            raise
        raise original from error
    name = manifest_name(plan.output)
    if not storage.exists(name):
        raise CountMismatch(f"{name}: the runner reports success and has not published; run the job again")
    return Manifest.from_text(storage.read_bytes(name).decode(), name)


def _clean_up(folder: str) -> None:
    """Removes the temporary folder of a run that failed; a failure to do so must not hide the first one."""
    close_pools()
    try:
        storage.delete_tree(folder)
    except PatchbeamError as error:
        _LOG.warning("temporary files are left, delete them: %s", error)


def _state_after(plan: ExportPlan) -> str:
    """Says what stands at the output after an interruption."""
    there = outputs_there(plan.output)
    if there and not storage.exists(manifest_name(plan.output)):
        return (
            f"{len(there)} files stand at {plan.output} without a manifest, a part of an export; run it "
            "again with --overwrite"
        )
    return "nothing has been published and no temporary file is left; run it again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.export_image``; unknown options go to Beam."""
    from pipelines.cli import main as command

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        own, beam_arguments = _split_arguments(given)
    except JobError as error:
        print(f"patchbeam: {error}", file=sys.stderr)
        return error.exit_status
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
