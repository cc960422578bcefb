"""What is looked at before any work starts: the destination, its space, what stands there already."""

from __future__ import annotations

import logging

from patchbeam import storage
from patchbeam.errors import OutputExists, OutputUnusable, ReadFailed
from patchbeam.outputs import outputs_there as outputs_there
from patchbeam.outputs import split_names
from patchbeam.plan import ExportPlan
from patchbeam.sizes import size_text

_LOG = logging.getLogger(__name__)


def check_destination(plan: ExportPlan, *, overwrite: bool, have_bytes: int = 0) -> None:
    """Refuses a destination that cannot take the export.

    Args:
        plan: the export.
        overwrite: whether files of an earlier export are replaced.
        have_bytes: what an interrupted run has written already.

    Raises:
        OutputUnusable: it cannot be written, or has less free space than the export needs at the least.
        OutputExists: files of an earlier export are there and ``overwrite`` is false.
    """
    folder, name = storage.split(plan.output)
    if not name:
        raise OutputUnusable(
            f"output: {plan.output} ends in a folder; add the beginning of the file names, {plan.output}scene"
        )
    try:
        storage.check_writable(plan.output)
        there = outputs_there(plan.output, split_names(plan))
        if plan.naming == "gcs" and not plan.may_drop and storage.exists(mixer := f"{plan.output}.json"):
            there = sorted({*there, mixer})  # an export of one shard would write over it, whatever it is
    except (OutputUnusable, ReadFailed) as error:
        raise OutputUnusable(f"output: {error}") from error
    if there and not overwrite:
        names = ", ".join(storage.split(path)[1] for path in there[:3]) + (", …" if len(there) > 3 else "")
        raise OutputExists(
            f"output: {len(there)} files of an earlier export stand at {plan.output} ({names}); "
            "give another output, or --overwrite to replace them"
        )
    free = storage.free_bytes(folder)
    least, most = (max(0, size - have_bytes) for size in plan.space_bytes)
    if free is not None and free < least:
        raise OutputUnusable(
            f"output: {folder or '.'} has {size_text(free)} free and the export needs at least "
            f"{size_text(least)}{'' if plan.can_lay else ' (pieces and shards exist together)'}; free some "
            "space or choose another output"
        )
    if free is not None and free < most:
        _LOG.warning(
            "output: %s has %s free; the export may need up to %s",
            folder or ".",
            size_text(free),
            size_text(most),
        )
