"""``import-image``: prediction records and a mixer or manifest to GeoTIFF tiles.

Also a module for people who submit with Python:
``python -m pipelines.import_image --job configs/import_image.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from patchbeam import storage
from patchbeam.errors import CountMismatch, OutputExists, OutputUnusable
from patchbeam.lock import OutputLock
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.mosaic.publish import begun_publication, published_report
from patchbeam.mosaic.space import least_space
from patchbeam.mosaic.tiles import existing_maps, import_name
from patchbeam.retry import retrying
from patchbeam.sizes import size_text
from pipelines.arguments import split_arguments
from pipelines.beam_options import beam_options, ends_with_us, is_local, new_pipeline
from pipelines.failures import Output, end_failed_run
from pipelines.local_paths import refuse_local_paths
from pipelines.progress import run_pipeline
from pipelines.stages import import_files, import_stages
from transforms.import_image import RecordsToTiles


def check_map_destination(plan: ImportPlan, *, overwrite: bool, resume: bool = False) -> None:
    """Refuses a destination that cannot take the map.

    With ``resume``, what an attempt of the same import has already published there is no reason.

    Raises:
        OutputUnusable: it cannot be written, or has less free space than the map needs at the least.
        OutputExists: files of an earlier map are there and ``overwrite`` is false.
    """
    _, name = storage.split(plan.output)
    if not name:
        raise OutputUnusable(
            f"output: {plan.output} ends in a folder; add the beginning of the file names, {plan.output}map"
        )
    storage.check_writable(plan.output)
    folder, _ = storage.split(plan.output)
    free = storage.free_bytes(folder)
    if free is not None:
        have = storage.list_stats(storage.join(plan.temporary_folder, "")).values() if resume else ()
        least = least_space(plan) - sum(stat.size_bytes for stat in have)
        if free < least:
            raise OutputUnusable(
                f"output: {folder or '.'} has {size_text(free)} free and the map needs at least "
                f"{size_text(least)}; free some space or choose another output"
            )
    there = existing_maps(storage.list_names(plan.output), plan.output)
    own = begun_publication(plan) if there and not overwrite else set()
    if there and own.issuperset(there) and not resume:
        raise OutputExists(
            f"output: {len(there)} files of a run of this import that has not finished stand at "
            f"{plan.output}; --resume goes on where it stopped"
        )
    if resume:
        there = [path for path in there if path not in own]
    if there and not overwrite:
        names = ", ".join(storage.split(path)[1] for path in there[:3]) + (", …" if len(there) > 3 else "")
        raise OutputExists(
            f"output: {len(there)} files of an earlier map stand at {plan.output} ({names}); give another "
            "output, or "
            "--overwrite to replace them"
        )


def run_import(
    plan: ImportPlan,
    beam_arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
) -> dict[str, Any]:
    """Runs an import and returns what its completion file says.

    Args:
        plan: the import.
        beam_arguments: Beam's own options.
        workers: threads of a local run; default all cores.
        overwrite: whether an earlier map with this prefix is replaced.
        resume: whether tiles that an earlier attempt of the same import has finished are kept.

    Raises:
        JobError: the destination or the records cannot be used; nothing has been written.
        LockHeld: another run writes this output.
        PatchbeamError: the run failed; its text says what has been published, if anything. Temporary files
            stay only when storage failed or the run was interrupted, for ``resume``.
        KeyboardInterrupt: Ctrl-C; its text says what has become of the run.
    """
    options, threads = beam_options(beam_arguments, workers)
    refuse_local_paths(options, [("output", plan.output), *(("records", path) for path in plan.records)])
    pipeline, ends_here = new_pipeline(options), ends_with_us(options)
    try:
        check_map_destination(plan, overwrite=overwrite, resume=resume)
    except OutputExists:
        done = _clean_up_after(plan) if resume else None
        if done is None:
            raise
        return done
    with OutputLock(plan.output, take_over=resume) as lock:
        # once more: a run that held the lock until now may have published
        check_map_destination(plan, overwrite=overwrite, resume=resume)
        if not resume:
            storage.delete_tree(plan.temporary_folder)
        pipeline | "Import" >> RecordsToTiles(plan, threads=threads, overwrite=overwrite, lock=lock.ticket)
        try:
            run_pipeline(pipeline, import_stages(plan), left_files=import_files(plan), ends_here=ends_here)
        except BaseException as error:
            end_failed_run(error, _output(plan, lock), local=is_local(options), ends_here=ends_here)
    name = import_name(plan.output)
    if not storage.exists(name):
        raise CountMismatch(f"{name}: the runner reports success and has not published; run the job again")
    report: dict[str, Any] = json.loads(storage.read_bytes(name))
    return report


def _clean_up_after(plan: ImportPlan) -> dict[str, Any] | None:
    """Ends a run of this very import that was killed when its map was complete.

    Returns:
        What its completion file says; ``None`` when no files of that run were left, but perhaps its lock,
        which goes too.
    """
    if published_report(plan) is None:
        return None
    with OutputLock(plan.output, take_over=True):
        report = published_report(plan)
        left = storage.list_names(storage.join(plan.temporary_folder, ""))
        if report is not None:
            retrying(lambda: storage.delete_tree(plan.temporary_folder))
    return report if left else None


def _output(plan: ImportPlan, lock: OutputLock) -> Output:
    return Output(
        prefix=plan.output,
        last=import_name(plan.output),
        folder=plan.temporary_folder,
        resumes=True,
        begun=lambda: bool(begun_publication(plan)),
        complete=lambda: lock.is_given_back and published_report(plan) is not None,
        lock=lock,
    )


def summary_text(plan: ImportPlan, report: dict[str, Any]) -> str:
    """Returns what an import has written, for a terminal."""
    grid, tiles = report["grid"], report["tiles"]
    total = sum(tile["sizeBytes"] for tile in tiles)
    dropped = report["patches"]["total"] - report["patches"]["kept"]
    nodata = f"{report['nodata']:g}" if isinstance(report["nodata"], int | float) else report["nodata"]
    lines = [
        f"map        {grid['width']} × {grid['height']} pixels, {grid['crs'][:40]}",
        f"bands      {', '.join(report['bands'])} ({report['type']}, nodata {nodata})",
        f"tiles      {len(tiles)}, {size_text(total)} stored: {plan.output}*.tif",
        f"over all   {plan.output}.vrt, {plan.output}-collection.json",
        f"patches    {report['patchesPlaced']} placed" + (f", {dropped} without data" if dropped else ""),
    ]
    if not plan.layout.with_manifest:
        lines.append("edge       a mixer does not say whether the export padded; the map covers all patches")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.import_image``; unknown options go to Beam."""
    from pipelines.cli import main as command

    given = list(sys.argv[1:] if arguments is None else arguments)
    own, beam_arguments = split_arguments(given, "configs/import_image.yaml")
    return command(["import-image", *own, "--", *beam_arguments])


if __name__ == "__main__":
    sys.exit(main())
