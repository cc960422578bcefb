"""``export-image``: rasters to training shards, mixer and manifest.

Also a module for people who submit with Python:
``python -m pipelines.export_image --job configs/export_image.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import NoReturn

import apache_beam as beam

from patchbeam import storage
from patchbeam.checks import check_destination
from patchbeam.errors import (
    CountMismatch,
    JobError,
    LockHeld,
    OutputExists,
    PatchbeamError,
    ReadFailed,
    SourceUnreadable,
    WriteFailed,
)
from patchbeam.export import temporary_folder
from patchbeam.finished import find_finished, save_finished
from patchbeam.finished_shards import published_names
from patchbeam.leftovers import check_leftovers, clean_up, note_plan
from patchbeam.lock import LockTicket, OutputLock
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.pool import close_pools
from patchbeam.records.names import manifest_name
from patchbeam.retry import retrying
from patchbeam.staged import stage_catalogues
from pipelines.arguments import split_arguments
from pipelines.beam_options import (
    beam_options,
    ends_with_us,
    failed_afterwards,
    failed_there,
    is_local,
    new_pipeline,
    original_error,
    was_interrupted,
)
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
        >> WriteToTFRecord(plan, threads=threads, overwrite=overwrite, finished=finished, lock=lock)
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
        PatchbeamError: the run failed; nothing has been published. What is finished stays only when
            storage failed, for ``resume``.
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
            build(pipeline, staged, threads=threads, overwrite=overwrite, finished=finished, lock=lock.ticket)
            run_pipeline(pipeline, export_stages(plan), left_files=export_files(plan), ends_here=ends_here)
        except BaseException as error:
            if was_interrupted(error) and not ends_here:
                lock.keep()
                raise KeyboardInterrupt(
                    f"the job goes on where it runs and will publish {plan.output}; cancel it there, then "
                    f"delete {folder}"
                ) from error
            name = manifest_name(plan.output)
            if not _published_before(error, lock, name, folder):
                raise_original(error, folder, local=is_local(options))
            failed_afterwards(error, name)
    name = manifest_name(plan.output)
    if not storage.exists(name):
        raise CountMismatch(f"{name}: the runner reports success and has not published; run the job again")
    return Manifest.from_text(storage.read_bytes(name).decode(), name)


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


def _published_before(error: BaseException, lock: OutputLock, name: str, folder: str) -> bool:
    """Whether a run had published everything, and taken its traces away, when its runner failed."""
    if isinstance(original_error(error), PatchbeamError) or not lock.is_given_back:
        return False
    return storage.exists(name) and not storage.list_names(storage.join(folder, ""))


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


def raise_original(error: BaseException, folder: str, *, local: bool) -> NoReturn:
    """Raises what a run failed with; its temporary files stay if it can be resumed."""
    close_pools()
    if was_interrupted(error):
        raise KeyboardInterrupt(
            f"nothing has been published; what is finished is kept in {folder}: run it again with --resume"
        ) from error
    original = original_error(error)
    if isinstance(original, ReadFailed | WriteFailed) and not isinstance(original, SourceUnreadable):
        raise type(original)(
            f"{original}; what is finished is kept in {folder}: run it again with --resume"
        ) from error
    if not local and isinstance(original, Exception) and not isinstance(original, PatchbeamError):
        then = f"What is finished is kept in {folder}: run it again with --resume"
        raise failed_there(original, then) from error
    if isinstance(original, PatchbeamError) and not isinstance(original, LockHeld):
        clean_up(folder)
    if original is error:
        raise original
    raise original from error


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
