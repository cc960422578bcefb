"""``import-table``: Examples to GeoParquet, GeoPackage, GeoJSON or CSV.

Also a module for people who submit with Python:
``python -m pipelines.import_table --job configs/import_table.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from patchbeam import storage
from patchbeam.crs import parse_crs
from patchbeam.errors import CountMismatch, JobError
from patchbeam.leftovers import clean_up
from patchbeam.records.files import RecordFiles
from patchbeam.records.listing import list_records
from patchbeam.tables.importing.plan import (
    ImportTablePlan,
    ImportTableReport,
    check_import_destination,
)
from pipelines.beam_options import beam_options, new_pipeline
from pipelines.export_table import run, run_command
from pipelines.failures import Output
from pipelines.jobfile.table_models import ImportTableJob
from pipelines.resolve import resolve_path
from pipelines.stages import import_table_stages
from transforms.import_table import REPORT, RecordsToTable


def resolve_import_table(job: ImportTableJob, base: str) -> ImportTablePlan:
    """Returns the plan of a table import.

    Args:
        job: the checked job file.
        base: the job file's folder; relative paths start there.

    Raises:
        JobError: the record files or the output cannot be used.
    """
    if (job.x_column is None) != (job.y_column is None):
        missing = "yColumn" if job.y_column is None else "xColumn"
        raise JobError(f"{missing}: is missing; xColumn and yColumn go together")
    if job.crs is not None:
        parse_crs(job.crs, "crs")
    return ImportTablePlan(
        records=tuple(_records([resolve_path(path, base) for path in job.records])),
        output=resolve_path(job.output, base),
        columns=None if job.columns is None else tuple(job.columns),
        xy=None if job.x_column is None or job.y_column is None else (job.x_column, job.y_column),
        crs=job.crs,
        geometry=job.geometry,
        binary=job.binary if isinstance(job.binary, bool) else tuple(job.binary),
        integers=job.integers,
        layer=job.layer,
    )


def _records(given: Sequence[str]) -> list[str]:
    # a table export is one file, whose prefix names it too
    if len(given) == 1 and not storage.exists(given[0]) and storage.exists(f"{given[0]}.tfrecord.gz"):
        return [f"{given[0]}.tfrecord.gz"]
    return list_records(given)


def run_import_table(
    plan: ImportTablePlan,
    beam_arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    overwrite: bool = False,
) -> ImportTableReport:
    """Runs a table import and returns what it has written.

    Args:
        plan: the import.
        beam_arguments: Beam's own options.
        workers: threads of a local run; default all cores.
        overwrite: whether a file that is there is replaced.

    Raises:
        JobError: the destination or the records cannot be used.
        PatchbeamError: the run failed; its text says what has been published, if anything.
        KeyboardInterrupt: Ctrl-C; its text says what has become of the run.
    """
    options, threads = beam_options(beam_arguments, workers)
    check_import_destination(plan, overwrite=overwrite)
    folder = plan.temporary_folder
    name = storage.join(folder, REPORT)
    output = Output(
        prefix=plan.output,
        last=plan.output,
        folder=folder,
        resumes=False,
        begun=lambda: False,  # one file, which gets its name whole
        complete=lambda: storage.exists(name),
    )
    storage.delete_tree(folder)  # of an attempt that was killed
    try:
        with RecordFiles.open(plan.records, spool_folder=folder, threads=threads) as files:
            if not len(files):
                raise JobError(
                    f"records: {', '.join(plan.records)}: there is no record in them; nothing to import"
                )
            pipeline = new_pipeline(options)
            pipeline | "RecordsToTable" >> RecordsToTable(plan, files)
            run(pipeline, output, import_table_stages(len(files)), options)
            if not storage.exists(name):
                raise CountMismatch(
                    f"{plan.output}: the runner reports success and has not published; run the job again"
                )
            return ImportTableReport(**json.loads(storage.read_bytes(name)))
    finally:
        clean_up(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.import_table``; unknown options go to Beam."""
    return run_command("import-table", arguments)


if __name__ == "__main__":
    sys.exit(main())
