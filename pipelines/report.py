"""``--report FILE``: what a run has done, as JSON, also when it fails; for whatever started it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

from patchbeam import storage
from patchbeam.errors import OutputUnusable, PatchbeamError
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.records.names import manifest_name

_INTERRUPTED = 130


def export_facts(plan: ExportPlan, manifest: Manifest) -> dict[str, Any]:
    """Returns what a report says of an export."""
    return {
        "manifest": manifest_name(plan.output),
        "patches": {
            "planned": manifest.patches.planned,
            "written": manifest.patches.written,
            "dropped": manifest.patches.dropped,
        },
        "records": sum(shard.records for shard in manifest.shards),
        "shards": len(manifest.shards),
        "storedBytes": sum(shard.stored_bytes for shard in manifest.shards),
        "uncompressedBytes": sum(shard.uncompressed_bytes for shard in manifest.shards),
        "masked": [
            {"file": file.path, "windows": file.masked_windows}
            for source in manifest.sources
            for file in source.files
            if file.masked_windows
        ],
    }


def check_file(path: str, option: str) -> None:
    """Refuses a file that cannot be written, before the work that it is to tell of.

    Args:
        path: of the file, local or ``gs://``.
        option: that names it.

    Raises:
        OutputUnusable: and why.
    """
    if not storage.is_remote(path) and os.path.isdir(path):
        raise OutputUnusable(f"{option}: {path} is a folder; give the name of a file")
    try:
        storage.check_writable(path)
    except OutputUnusable as error:
        raise OutputUnusable(f"{option}: {error}") from None


@contextmanager
def reporting(path: str | None, job: str, file: str) -> Iterator[dict[str, Any]]:
    """Yields a mapping that goes into the report; the rest is what happens inside.

    Args:
        path: where the report is written, local or ``gs://``; ``None`` for nowhere.
        job: the kind of job.
        file: the job file.

    Raises:
        OutputUnusable: the report cannot be written; nothing has been done.
        WriteFailed: the job has succeeded, and its report cannot be written after all.
    """
    if path is not None:
        check_file(path, "--report")
    facts: dict[str, Any] = {}
    started, begin = datetime.now(UTC), time.monotonic()

    def write(status: str, exit_status: int, error: str | None = None) -> None:
        if path is None:
            return
        report = {
            "job": job,
            "file": file,
            "status": status,
            "exitStatus": exit_status,
            "error": error,
            "started": started.isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - begin, 3),
            **facts,
        }
        storage.write_atomic(path, json.dumps(report, indent=2).encode() + b"\n")

    try:
        yield facts
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt | click.Abort)
        exit_status = _INTERRUPTED if interrupted else getattr(error, "exit_status", 1)
        try:
            write("interrupted" if interrupted else "failed", exit_status, str(error))
        except PatchbeamError as second:  # the first error is the one to be told
            click.echo(f"patchbeam: the report could not be written: {second}", err=True)
        raise
    write("done", 0)
