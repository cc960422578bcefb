"""What pydantic finds wrong with a job, in Patchbeam's words: key path, value, what is allowed."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from patchbeam.errors import nearest

_WANTED = {
    "string_type": "text",
    "string_too_short": "text of one character or more",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number, without quotes or a unit",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of reasonable size",
    "float_type": "a number",
    "float_parsing": "a number, without quotes or a unit",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "a map of keys to values",
    "model_type": "a map of keys to values",
    "model_attributes_type": "a map of keys to values",
}


def describe_all(model: type[BaseModel], items: Sequence[Any]) -> list[str]:
    """Returns one line a place; what a union's branches say of one value is said together."""
    places: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        places.setdefault(_path(_place(item)), []).append(item)
    # a branch that got further into a list or a map says more than those that did not want one
    inner = {p for p in places for q in places if q.startswith((f"{p}[", f"{p}."))}
    return [_together(model, place, found) for place, found in places.items() if place not in inner]


def _together(model: type[BaseModel], place: str, items: Sequence[Mapping[str, Any]]) -> str:
    wanted = [text for item in items if (text := _wanted(item)) is not None]
    if len(items) > 1 and len(wanted) == len(items):
        allowed = " or ".join(dict.fromkeys(wanted))
        return f"{place}: {_short(items[0].get('input'))} is not {allowed}"
    return _describe(model, place, items[0])


def _wanted(item: Mapping[str, Any]) -> str | None:
    if item["type"] == "literal_error":
        return _either(_allowed(item))
    return _WANTED.get(item["type"])


def _allowed(item: Mapping[str, Any]) -> list[str]:
    expected: str = item["ctx"]["expected"]
    return [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]


def _either(names: Sequence[str]) -> str:
    return " or ".join([part for part in (", ".join(names[:-1]), *names[-1:]) if part])


def _describe(model: type[BaseModel], place: str, item: Mapping[str, Any]) -> str:
    value, context = item.get("input"), item.get("ctx", {})
    shown = _short(value)
    match item["type"]:
        case "extra_forbidden":
            loc = _place(item)
            known = _known_keys(model, loc[:-1])
            return f"{place}: unknown key; known are {', '.join(known)}{nearest(str(loc[-1]), known)}"
        case "missing":
            return f"{place}: this key is missing; it must be given"
        case "literal_error":
            allowed = _allowed(item)
            return f"{place}: {shown} is not {_either(allowed)}{nearest(str(value), allowed)}"
        case "value_error":
            return f"{place}: {shown}: {context['error']}"
        case "too_short" | "too_long":
            least, most = context.get("min_length"), context.get("max_length")
            count = f"{least if least is not None else most}"
            bound = "at least " if item["type"] == "too_short" else "at most "
            return f"{place}: {shown} has {context['actual_length']} entries; give {bound}{count}"
        case "greater_than_equal":
            return f"{place}: {shown} is too small; give {context['ge']} or more"
        case "less_than_equal":
            return f"{place}: {shown} is too large; give {context['le']} or less"
        case kind if kind in _WANTED:
            return f"{place}: {shown} is not {_WANTED[kind]}{_quotes(kind, value)}"
        case _:
            message = item["msg"]
            return f"{place}: {shown}: {message[0].lower()}{message[1:]}"


def _quotes(kind: str, value: Any) -> str:
    """YAML makes a boolean of ``no`` and a number of ``5``; where text is wanted, quotes keep them text."""
    if kind != "string_type" or not isinstance(value, bool | int | float):
        return ""
    return "; put it in quotes" + (" (YAML reads yes, no, on and off so)" if isinstance(value, bool) else "")


def _place(item: Mapping[str, Any]) -> list[Any]:
    return [part for part in item["loc"] if not _is_union_tag(part)]


def _path(place: Sequence[Any]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _is_union_tag(part: object) -> bool:
    # pydantic puts the branch of a union into the location
    return isinstance(part, str) and (
        part in ("int", "str", "float", "bool")
        or part.startswith(("function-", "list[", "literal["))
        or (part.endswith("Model") and part.isalnum())
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
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
