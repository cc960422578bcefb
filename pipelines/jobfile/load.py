"""Reading a job file: YAML or JSON, overrides, models; every error names the key path."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from patchbeam.errors import JobError, nearest
from patchbeam.storage import is_remote, read_bytes
from pipelines.jobfile.messages import describe_all
from pipelines.jobfile.models import JOBS, Model
from pipelines.jobfile.placeholders import fill_placeholders
from pipelines.jobfile.yamltext import parse_yaml

# GeoJSON in a job file is the deepest there is: 4 levels of lists in 3 of maps.
_DEEPEST = 32

# One of the two that UTF-16 makes of a character beyond U+FFFF; neither UTF-8 nor a file name can hold it.
_HALF = re.compile("[\ud800-\udfff]")


def read_job_mapping(path: str, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Reads a job file and applies ``key.path=value`` overrides, whose values are YAML.

    Raises:
        JobError: the file is missing or malformed, or an override has no ``=`` or no such place.
    """
    if not path:
        raise JobError("the name of the job file is empty; give one, for instance configs/export_image.yaml")
    if not is_remote(path) and not Path(path).is_file():
        what = "a folder" if Path(path).is_dir() else "not there"
        raise JobError(f"{path}: this job file is {what}; give the path of a YAML or JSON file")
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise JobError(
            f"{path}, byte {error.start}: not UTF-8 text; a job file is YAML or JSON, saved as UTF-8"
        ) from None
    except OSError as error:
        if error.strerror is None:  # one of ours, which names the file
            raise JobError(f"{error}; a job file must be readable") from None
        raise JobError(
            f"{path}: this job file cannot be read: {error.strerror}; check its permissions"
        ) from None
    mapping = parse_yaml(text, path)
    if not isinstance(mapping, dict):
        raise JobError(
            f"{path}: a job file is a map of keys to values, this is {_kind(mapping)}; begin with "
            "job: export-image"
        )
    for override in overrides:
        apply_override(mapping, override)
    check_text(mapping, path)
    filled: dict[str, Any] = fill_placeholders(mapping, path)
    return filled


def check_text(value: Any, name: str, place: str = "", depth: int = 0) -> None:
    """Refuses keys that are not text (YAML makes numbers of ``1:``), and text that cannot be written.

    Raises:
        JobError: naming the place.
    """
    if depth > _DEEPEST:
        raise JobError(
            f"{name}: {place.lstrip('.')[:40]}…: more than {_DEEPEST} levels deep; a job file has few"
        )
    if isinstance(value, str) and _HALF.search(value):
        raise JobError(
            f"{name}: {place.lstrip('.')}: {value!a} holds half of a character; write the whole one"
        )
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise JobError(
                    f"{name}: {place.lstrip('.') or 'the job'}: the key {key!r} is not text; "
                    f'put it in quotes: "{key}"'
                )
            check_text(key, name, place, depth + 1)
            check_text(item, name, f"{place}.{key}", depth + 1)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            check_text(item, name, f"{place}[{i}]", depth + 1)


def apply_override(mapping: dict[str, Any], override: str) -> None:
    """Sets one value, for instance ``formatOptions.patchDimensions=[512,512]``."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise JobError(
            f"--set {override}: give KEY=VALUE, for instance formatOptions.patchDimensions=[512,512]"
        )
    if not all(key.strip().split(".")):
        raise JobError(f"--set {override}: a name in {key!r} is empty; write for instance grid.scale=10")
    value = parse_yaml(text, f"--set {key}")
    *parents, last = key.strip().split(".")
    place: Any = mapping
    for i, name in enumerate(parents):
        if isinstance(place, list):
            place = place[_index(place, name, key)]
        elif isinstance(place, dict):
            place = place.setdefault(name, {})
        if not isinstance(place, dict | list):
            raise JobError(
                f"--set {key}: {'.'.join(parents[: i + 1])} is {_kind(place)} and has no keys; "
                "set it as a whole"
            )
    if isinstance(place, list):
        place[_index(place, last, key)] = value
    else:
        place[last] = value


def _index(place: list[Any], name: str, key: str) -> int:
    if not name.isdigit() or int(name) >= len(place):
        raise JobError(f"--set {key}: {name!r} is not an index of a list of {len(place)} entries (from 0)")
    return int(name)


def load_job(path: str, overrides: Iterable[str] = (), kind: str | None = None) -> Model:
    """Reads and checks a job file.

    Args:
        path: the job file.
        overrides: ``key.path=value`` texts.
        kind: the job that is wanted; another one is refused.

    Raises:
        JobError: anything wrong with it, every error found, each with its key path.
    """
    return check_job(read_job_mapping(path, overrides), path, kind)


def check_job(mapping: dict[str, Any], path: str, kind: str | None = None) -> Model:
    """Checks a job that has been read.

    Args:
        mapping: what the job file holds.
        path: where it stands, for messages.
        kind: the job that is wanted; another one is refused.

    Raises:
        JobError: as :func:`load_job`.
    """
    job = mapping.get("job")
    if job is None:
        raise JobError(f"{path}: job: this key is missing; give one of {', '.join(JOBS)}")
    if not isinstance(job, str) or job not in JOBS:
        raise JobError(
            f"{path}: job: {job!r} is not known; jobs are {', '.join(JOBS)}{nearest(str(job), JOBS)}"
        )
    if kind is not None and job != kind:
        raise JobError(f"{path}: job: this is a job file of {job}, not of {kind}; run patchbeam {job} {path}")
    model = JOBS[job]
    try:
        return model.model_validate(mapping)
    except ValidationError as error:
        lines = describe_all(model, error.errors())
        head = f"{path}: " if len(lines) == 1 else f"{path}: {len(lines)} errors:\n  "
        raise JobError(head + "\n  ".join(lines)) from None


def _kind(value: Any) -> str:
    names = {dict: "a map", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), f"{value!r}")
