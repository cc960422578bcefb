"""Reading a job file: YAML or JSON, overrides, models; every error names the key path."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from patchbeam.errors import JobError, nearest
from patchbeam.storage import is_remote, read_bytes
from pipelines.jobfile.models import JOBS, Model


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key may stand once only; YAML itself would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key!r} stands twice", key_node.start_mark
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, name: str) -> Any:
    """Parses YAML (or JSON, which is YAML).

    Raises:
        JobError: malformed text, with line and column.
    """
    try:
        # the loader is a SafeLoader: it makes plain values only
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        context = f" ({error.context})" if error.context else ""
        raise JobError(f"{name}{where}: not YAML: {error.problem}{context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise JobError(f"{name}: not YAML: {error}") from None


def read_job_mapping(path: str, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Reads a job file and applies ``key.path=value`` overrides, whose values are YAML.

    Raises:
        JobError: the file is missing or malformed, or an override has no ``=`` or no such place.
    """
    if not is_remote(path) and not Path(path).is_file():
        raise JobError(f"{path}: no such job file")
    try:
        text = read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise JobError(f"{path}, byte {error.start}: not UTF-8 text; a job file is YAML or JSON") from None
    mapping = parse_yaml(text, path)
    if not isinstance(mapping, dict):
        raise JobError(f"{path}: a job file is a map of keys to values, this is {_kind(mapping)}")
    for override in overrides:
        apply_override(mapping, override)
    return mapping


def apply_override(mapping: dict[str, Any], override: str) -> None:
    """Sets one value, for instance ``formatOptions.patchDimensions=[512,512]``."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise JobError(
            f"--set {override}: give KEY=VALUE, for instance formatOptions.patchDimensions=[512,512]"
        )
    value = parse_yaml(text, f"--set {key}")
    *parents, last = key.strip().split(".")
    place: Any = mapping
    for i, name in enumerate(parents):
        if isinstance(place, list):
            place = place[_index(place, name, key)]
        elif isinstance(place, dict):
            place = place.setdefault(name, {})
        if not isinstance(place, dict | list):
            raise JobError(f"--set {key}: {'.'.join(parents[: i + 1])} is {_kind(place)}, it has no keys")
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
    mapping = read_job_mapping(path, overrides)
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
        lines = [describe(model, item) for item in error.errors()]
        head = f"{path}: " if len(lines) == 1 else f"{path}: {len(lines)} errors:\n  "
        raise JobError(head + "\n  ".join(lines)) from None


def describe(model: type[BaseModel], item: Mapping[str, Any]) -> str:
    """Turns one of pydantic's errors into a line: key path, value, what is allowed."""
    loc = [part for part in item["loc"] if not _is_union_tag(part)]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
    value = item.get("input")
    match item["type"]:
        case "extra_forbidden":
            known = _known_keys(model, loc[:-1])
            return f"{path}: unknown key; known are {', '.join(known)}{nearest(str(loc[-1]), known)}"
        case "missing":
            return f"{path}: this key is missing"
        case "literal_error":
            return f"{path}: {_short(value)} is not allowed; allowed: {item['ctx']['expected']}"
        case "value_error":
            return f"{path}: {_short(value)}: {item['ctx']['error']}"
        case _:
            message = item["msg"]
            return f"{path}: {_short(value)}: {message[0].lower()}{message[1:]}"


def _is_union_tag(part: object) -> bool:
    # pydantic puts the branch of a union into the location
    return isinstance(part, str) and (
        part in ("int", "str", "float") or part.startswith(("function-", "list["))
    )


def _known_keys(model: type[BaseModel], loc: list[Any]) -> list[str]:
    kind: Any = model
    for part in loc:
        models = list(_models(kind))
        field = next((f for m in models for n, f in m.model_fields.items() if part in (n, f.alias)), None)
        kind = field.annotation if field is not None else kind
    return sorted(str(f.alias or n) for m in _models(kind) for n, f in m.model_fields.items())


def _models(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType, list, dict, typing.Annotated):
        for argument in typing.get_args(annotation):
            yield from _models(argument)


def _short(value: Any) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _kind(value: Any) -> str:
    names = {dict: "a map", list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(value), f"{value!r}")
