"""From a checked import job, or just a prefix, to a plan: finds the files and reads the sidecar."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from patchbeam import storage
from patchbeam.errors import JobError
from patchbeam.mosaic.options import ImportOptions, MapClass
from patchbeam.mosaic.plan import ImportPlan, find_sidecar, known_members, read_sidecar
from patchbeam.mosaic.validity import SourceMask
from patchbeam.records.listing import is_prefix, list_records
from pipelines.jobfile import load_job
from pipelines.jobfile.import_models import ImportImageJob
from pipelines.jobfile.load import apply_override, check_job

_JOB_SUFFIXES = (".yaml", ".yml", ".json")


def load_import(path: str, overrides: Sequence[str] = (), output: str | None = None) -> ImportPlan:
    """Plans the import of a job file, or of an export's prefix.

    Args:
        path: a job file, or the prefix of an export.
        overrides: ``key.path=value`` texts for a job file.
        output: prefix of the map; default of a prefix: ``PREFIX-map``.

    Raises:
        JobError: the job file or what it names is wrong.
    """
    if path.endswith(_JOB_SUFFIXES):
        given = [*overrides] if output is None else [*overrides, f"output={output}"]
        job = load_job(path, given, kind="import-image")
        assert isinstance(job, ImportImageJob)
        base = storage.split(path)[0] if "://" in path else os.path.dirname(os.path.abspath(path))
        plan = resolve_import(job, base)
        # What stands on the command line is relative to where the command runs.
        return plan if output is None else replace(plan, output=_place(output, os.getcwd()))
    mapping = {"job": "import-image", "records": path, "output": output or f"{path}-map"}
    for override in overrides:
        apply_override(mapping, override)
    job = check_job(mapping, path, kind="import-image")
    assert isinstance(job, ImportImageJob)
    return resolve_import(job, os.getcwd())


def resolve_import(job: ImportImageJob, base: str) -> ImportPlan:
    """Returns the plan of an import job.

    Args:
        job: the checked job file.
        base: the job file's folder; relative paths start there.

    Raises:
        JobError: a file is missing, or options contradict the sidecar.
    """
    given = [_place(entry, base) for entry in job.records]
    records = tuple(list_records(given))
    if job.mixer is not None and job.manifest is not None:
        raise JobError("mixer and manifest: give one of them; a manifest says all that a mixer says")
    sidecar = job.manifest or job.mixer
    if sidecar is not None:
        sidecar = _place(sidecar, base)
        if not storage.exists(sidecar):
            key = "manifest" if job.manifest else "mixer"
            raise JobError(f"{key}: there is no file {sidecar}; check the path, which starts at the job file")
    elif len(given) == 1 and is_prefix(given[0]):
        sidecar = find_sidecar(given[0])
    else:
        raise JobError("mixer: give the export's mixer, or manifest: its manifest")
    layout, manifest = read_sidecar(sidecar)
    if job.kernel_size is not None:
        layout = layout.with_kernel((job.kernel_size[0], job.kernel_size[1]))
    options = _options(job)
    mask = None
    if options.mask == "sources":
        if manifest is None:
            raise JobError(f"mask: sources: {sidecar} is a mixer, which names no sources; give the manifest")
        mask = SourceMask.from_manifest(manifest, layout.export_grid)
    return ImportPlan(
        layout=layout,
        records=records,
        options=options,
        output=_place(job.output, base),
        source_mask=mask,
        members=known_members(manifest, sidecar, records),
    )


def _options(job: ImportImageJob) -> ImportOptions:
    if isinstance(job.argmax, list):
        argmax: tuple[str, ...] | None = tuple(job.argmax)
    else:
        argmax = None if job.argmax else ()
    return ImportOptions(
        bands=None if job.bands is None else tuple(job.bands),
        depths=dict(job.depths),
        type=job.type,
        nodata=job.nodata,
        argmax=argmax,
        scale=job.scale,
        offset=job.offset,
        clip=None if job.clip is None else (job.clip[0], job.clip[1]),
        saturate=job.saturate,
        overlap=job.overlap if isinstance(job.overlap, str) else job.overlap.blend,
        mask=job.mask,
        tile_size=job.tile_size,
        compress=job.compress,
        classes=tuple(
            MapClass(value=c.value, name=c.name, color=None if c.color is None else tuple(c.color))
            for c in job.classes
        ),
        datetime=job.datetime,
    )


def _place(path: str, base: str) -> str:
    if "://" in path or os.path.isabs(path):
        return path
    placed = os.path.normpath(os.path.join(base, path))
    return storage.join(placed, "") if path.endswith("/") else placed
