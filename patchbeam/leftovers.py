"""What an unfinished run has left beside an output, and whether this run may use it.

Every run writes what it is about to do into its temporary prefix. A run of another plan is then refused with
the reason: the source that has changed, or the first option that differs.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

from patchbeam import storage
from patchbeam.errors import JobError, OutputExists, PatchbeamError
from patchbeam.export import temporary_folder
from patchbeam.plan import ExportPlan
from patchbeam.retry import retrying
from patchbeam.software import software_versions

_LOG = logging.getLogger(__name__)
_PLAN = "plan.json"


def clean_up(folder: str) -> None:
    """Removes the temporary folder of a run that failed; a failure to do so must not hide the first one."""
    try:
        retrying(lambda: storage.delete_tree(folder))
    except PatchbeamError as error:
        _LOG.warning("temporary files are left, delete them: %s", error)


def note_plan(plan: ExportPlan) -> None:
    """Writes into the temporary prefix what will be done there."""
    path = storage.join(temporary_folder(plan), _PLAN)
    data = json.dumps(_state(plan)).encode()
    retrying(lambda: storage.write_atomic(path, data))


def other_leftovers(plan: ExportPlan) -> list[str]:
    """Returns the temporary prefixes that runs of other plans with this output have left."""
    folder, name = storage.split(plan.output)
    own = temporary_folder(plan)
    return [
        path
        for path in storage.list_folders(storage.join(folder, f".{name}-"))
        if path.endswith(".tmp") and path != own and storage.exists(storage.join(path, _PLAN))
    ]


def check_leftovers(plan: ExportPlan, *, resume: bool, overwrite: bool) -> None:
    """Refuses an output where a run of another plan has left its files, or deletes them.

    Args:
        plan: the export.
        resume: whether an earlier run is to be gone on with.
        overwrite: whether what others have left is deleted.

    Raises:
        JobError: sources or options have changed since the run that is to be resumed.
        OutputExists: a run of another plan has left its files.
    """
    for folder in other_leftovers(plan):
        if overwrite:
            retrying(lambda folder=folder: storage.delete_tree(folder))  # type: ignore[misc]
            continue
        why = _what_differs(plan, folder)
        if resume:
            raise JobError(
                f"output: the run that left {folder} cannot be resumed: {why}; --overwrite deletes what it "
                "has done and begins anew"
            )
        raise OutputExists(
            f"output: an unfinished run of another plan has left its files in {folder}: {why}; --overwrite "
            "deletes them, or run that job again with --resume"
        )


def _state(plan: ExportPlan) -> dict[str, Any]:
    return {"fingerprint": plan.fingerprint, "plan": plan.to_json(), "software": software_versions()}


def _what_differs(plan: ExportPlan, folder: str) -> str:
    now = json.loads(json.dumps(_state(plan)))
    try:
        before = json.loads(storage.read_bytes(storage.join(folder, _PLAN)))
        files = _files(before)
        for path, file in _files(now).items():
            old = files.get(path, file)
            if old != file:
                return (
                    f"the source {path} has changed since (size {old['sizeBytes']}, changed "
                    f"{old['modified']}; now size {file['sizeBytes']}, changed {file['modified']})"
                )
        del before["fingerprint"], now["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its plan cannot be read"
    for key, old, new in _differences(before, now, ""):
        return f"{key} was {_short(old)} and is {_short(new)}"
    return "the region, or what the job says of its sources, differs"


def _files(state: dict[str, Any]) -> dict[str, Any]:
    return {file["path"]: file for source in state["plan"]["sources"] for file in source["files"]}


def _differences(old: Any, new: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            inner = f"{key}.{name}" if key and key != "plan" else name
            yield from _differences(old.get(name), new.get(name), inner)
    elif old != new:
        yield key, old, new


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."
