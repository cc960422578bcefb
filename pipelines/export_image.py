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
from patchbeam.checks import check_destination
from patchbeam.errors import CountMismatch, JobError, OutputExists
from patchbeam.export import temporary_folder
from patchbeam.finished import find_finished, save_finished
from patchbeam.finished_shards import published_names
from patchbeam.leftovers import check_leftovers, note_plan
from patchbeam.lock import LockTicket, OutputLock
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.records.names import manifest_name
from patchbeam.retry import retrying
from patchbeam.staged import stage_catalogues
from pipelines.arguments import split_arguments
from pipelines.beam_options import beam_options, ends_with_us, is_local, new_pipeline
from pipelines.failures import Output, end_failed_run
from pipelines.local_paths import refuse_local_paths
from pipelines.progress import run_pipeline
from pipelines.stages import export_files, export_stages
from transforms.blocks import CreateReadBlocks
from transforms.draw import DrawPatches
from transforms.encode import EncodeExamples
from transforms.read import ReadWindows
from transforms.write import WriteToTFRecord

_LOG = logging.getLogger(__name__)


def build(
    pipeline: beam.Pipeline,
    plan: ExportPlan,
    *,
    threads: int,
    overwrite: bool,
    finished: str | None = None,
    lock: LockTicket | None = None,
    one_machine: bool = False,
) -> beam.PCollection:
    """Wires the stages of an export; returns the name of the manifest."""
    drawn = None
    if plan.sample is not None and plan.sample.per_class is not None:
        drawn = beam.pvalue.AsSingleton(pipeline | "DrawPatches" >> DrawPatches(plan, threads=threads))
    return (
        pipeline
        | "CreateReadBlocks" >> CreateReadBlocks(plan, finished, threads=threads)
        | "ReadWindows" >> ReadWindows(plan, threads=threads, drawn=drawn)
        | "EncodeExamples" >> EncodeExamples(plan, threads=threads, drawn=drawn)
        | "WriteToTFRecord"
        >> WriteToTFRecord(
            plan,
            threads=threads,
            overwrite=overwrite,
            finished=finished,
            lock=lock,
            one_machine=one_machine,
        )
    )


def run_export(
    plan: ExportPlan,
    beam_arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
) -> Manifest:
    """Runs an export and returns its manifest.

    Args:
        plan: the export.
        beam_arguments: Beam's own options.
        workers: threads of a local run; default all cores.
        overwrite: whether an earlier export with this prefix, and what a run of another plan has left, is
            replaced.
        resume: whether what an interrupted run of the same plan has finished is kept.

    Raises:
        JobError: the destination cannot be used; nothing has been written.
        LockHeld: another run writes this output.
        PatchbeamError: the run failed; its text says what has been published, if anything. What is finished
            stays only when storage failed, for ``resume``.
        KeyboardInterrupt: Ctrl-C; its text says what has become of the run.
    """
    options, threads = beam_options(beam_arguments, workers)
    sources = [(f"sources.{source.name}", file.path) for source in plan.sources for file in source.files]
    refuse_local_paths(options, [("output", plan.output), *sources])
    pipeline, ends_here = new_pipeline(options), ends_with_us(options)
    folder = temporary_folder(plan)
    try:
        _check(plan, folder, overwrite=overwrite, resume=resume)
    except OutputExists:
        if resume:  # a run that was killed at its very end has left its lock beside a complete export
            with OutputLock(plan.output, take_over=True):
                pass
        raise
    with OutputLock(plan.output, take_over=resume) as lock:
        # once more: a run that held the lock until now may have published
        _check(plan, folder, overwrite=overwrite, resume=resume)
        check_leftovers(plan, resume=resume, overwrite=overwrite)
        try:
            finished = _begin(plan, folder, resume=resume)
            staged = stage_catalogues(plan, folder)
            build(
                pipeline,
                staged,
                threads=threads,
                overwrite=overwrite,
                finished=finished,
                lock=lock.ticket,
                one_machine=is_local(options),
            )
            run_pipeline(pipeline, export_stages(plan), left_files=export_files(plan), ends_here=ends_here)
        except BaseException as error:
            output = _output(plan, folder, lock)
            end_failed_run(error, output, local=is_local(options), ends_here=ends_here)
    name = manifest_name(plan.output)
    if not storage.exists(name):
        raise CountMismatch(f"{name}: the runner reports success and has not published; run the job again")
    return Manifest.from_text(retrying(lambda: storage.read_bytes(name)).decode(), name)


def _check(plan: ExportPlan, folder: str, *, overwrite: bool, resume: bool) -> None:
    """Refuses a destination that cannot take the export, or go on taking it."""
    if not resume:
        if not overwrite and published_names(folder) is not None:
            raise OutputExists(
                f"output: files of a run of this export that has not finished stand at {plan.output}; "
                "--resume goes on where it stopped"
            )
        check_destination(plan, overwrite=overwrite)
        return
    have = sum(stat.size_bytes for stat in storage.list_stats(storage.join(folder, "")).values())
    begun = published_names(folder) is not None
    check_destination(plan, overwrite=overwrite or begun, have_bytes=have)


def _output(plan: ExportPlan, folder: str, lock: OutputLock) -> Output:
    name = manifest_name(plan.output)

    def complete() -> bool:
        # the last step takes its traces away, the lock last: a manifest alone may be an earlier run's
        gone = lock.is_given_back and not storage.list_names(storage.join(folder, ""))
        return gone and storage.exists(name)

    return Output(
        prefix=plan.output,
        last=name,
        folder=folder,
        resumes=True,
        begun=lambda: published_names(folder) is not None,
        complete=complete,
        lock=lock,
    )


def _begin(plan: ExportPlan, folder: str, *, resume: bool) -> str | None:
    """Makes the temporary prefix ready; returns the file that says what of it is finished."""
    if not resume:
        retrying(lambda: storage.delete_tree(folder))
        note_plan(plan)
        return None
    note_plan(plan)
    finished = find_finished(folder, plan.blocks)
    _LOG.info("%d of %d blocks are finished", len(finished.blocks), plan.blocks.count)
    if not len(finished.blocks):
        return None
    path = storage.join(folder, "finished")
    save_finished(path, finished)
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.export_image``; unknown options go to Beam."""
    from pipelines.cli import main as command

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        own, beam_arguments = split_arguments(given, "configs/export_image.yaml")
    except JobError as error:
        print(f"patchbeam: {error}", file=sys.stderr)
        return error.exit_status
    return command(["export-image", *own, "--", *beam_arguments])


if __name__ == "__main__":
    sys.exit(main())
