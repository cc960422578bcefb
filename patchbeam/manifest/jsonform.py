"""Frozen dataclasses to JSON and back, by their type hints.

Keys are camelCase and in the order of the attributes; errors start with the key path.

JSON has no NaN and no infinities: they are written as the strings ``"NaN"``, ``"Infinity"`` and
``"-Infinity"``. An attribute that is ``None`` is left out. Keys that a class does not know are kept in its
``extra`` and written again after the known ones.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from patchbeam.errors import JobError, nearest, short

T = TypeVar("T")

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_NONE = type(None)
_LINE = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Base of what is read and written here.

    Attributes:
        extra: keys of a newer minor version, as they were read.
    """

    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def camel(name: str) -> str:
    """Returns the JSON key of an attribute: ``stored_bytes`` → ``storedBytes``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def keys_of(kind: type[Any]) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """Returns JSON key → (field, type) of a class, in order."""
    found = _KEYS.get(kind)
    if found is None:
        found = _KEYS[kind] = _keys_of(kind)
    return found


_KEYS: dict[type[Any], dict[str, tuple[dataclasses.Field[Any], Any]]] = {}


def _keys_of(kind: type[Any]) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(kind)
    return {
        camel(field.name): (field, hints[field.name])
        for field in dataclasses.fields(kind)
        if field.name != "extra"
    }


def encode(value: Any, hint: Any, path: str) -> Any:
    """Returns ``value``, of the type ``hint``, as what ``json`` writes.

    Raises:
        TypeError: the value is not of its type; the message starts with the key path.
    """
    if isinstance(value, Entry):
        written: dict[str, Any] = {}
        for key, (field, inner) in keys_of(type(value)).items():
            item = getattr(value, field.name)
            if item is not None:
                write = field.metadata.get("write")
                where = f"{path}.{key}" if path else key
                written[key] = write(item) if write else encode(item, inner, where)
        return {**written, **{key: item for key, item in value.extra.items() if key not in written}}
    if isinstance(value, Mapping):
        inner = typing.get_args(hint)[1] if typing.get_args(hint) else Any
        return {str(key): encode(item, inner, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [encode(item, _item_hint(hint, i), f"{path}[{i}]") for i, item in enumerate(value)]
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "item"):  # a NumPy number
        value = value.item()
    kinds = _kinds(hint)
    if isinstance(value, int) and not isinstance(value, bool) and (int in kinds or float not in kinds):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(float(value))
    raise TypeError(f"{path}: a {type(value).__name__} cannot be written as JSON")


def number(value: float) -> float | str:
    """Returns a float as JSON can hold it: those that are not finite as strings."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decode(value: Any, hint: Any, path: str) -> Any:
    """Returns what was read from JSON as a value of the type ``hint``.

    Raises:
        JobError: it is not one; the message starts with the key path.
    """
    if hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if isinstance(value, str) and value in arguments:
            return value
        allowed = ", ".join(map(repr, arguments))
        near = nearest(value, arguments) if isinstance(value, str) else ""
        raise JobError(f"{path}: {short(value)} is none of {allowed}{near}")
    if origin in (typing.Union, types.UnionType):
        if value is None and _NONE in arguments:
            return None
        return _decode_one_of(value, tuple(a for a in arguments if a is not _NONE), path)
    if origin is tuple:
        if not isinstance(value, list):
            raise JobError(f"{path}: {short(value)} is not a list")
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise JobError(f"{path}: {short(value)} has {len(value)} entries, {len(arguments)} are wanted")
        return tuple(decode(item, _item_hint(hint, i), f"{path}[{i}]") for i, item in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            raise JobError(f"{path}: {short(value)} is not an object")
        return {key: decode(item, arguments[1], f"{path}.{key}") for key, item in value.items()}
    if isinstance(hint, type) and issubclass(hint, Entry):
        return read_entry(value, hint, path)
    return _decode_one_of(value, (hint,), path)


def read_entry(value: Any, kind: type[T], path: str) -> T:
    """Returns a JSON object as an :class:`Entry` of the class ``kind``.

    Raises:
        JobError: a key is missing or holds what it must not; the message starts with the key path.
    """
    if not isinstance(value, dict):
        raise JobError(f"{path or 'the whole'}: {short(value)} is not an object")
    known = keys_of(kind)
    given: dict[str, Any] = {"extra": {key: item for key, item in value.items() if key not in known}}
    for key, (field, inner) in known.items():
        where = f"{path}.{key}" if path else key
        if value.get(key) is None:
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise JobError(f"{where}: missing{nearest(key, given['extra'])}")
            continue
        read = field.metadata.get("read")
        given[field.name] = read(value[key], where) if read else decode(value[key], inner, where)
    try:
        return kind(**given)
    except JobError as error:
        raise JobError(f"{path}.{error}" if path else str(error)) from None


def _decode_one_of(value: Any, kinds: tuple[Any, ...], path: str) -> Any:
    if len(kinds) == 1 and kinds[0] not in (int, float, str, bool):
        return decode(value, kinds[0], path)
    if float in kinds and isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    for kind in kinds:
        if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise JobError(f"{path}: {short(value)} is too large for a number here") from None
        if kind is int and isinstance(value, float) and value.is_integer() and float not in kinds:
            return int(value)  # 3.0 is the same JSON number as 3
        if kind in (int, str, bool) and type(value) is kind:
            return value
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    raise JobError(f"{path}: {short(value)} is not {' or '.join(names[kind] for kind in kinds)}")


def _kinds(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return typing.get_args(hint)
    return (hint,)


def _item_hint(hint: Any, index: int) -> Any:
    tuples = [kind for kind in _kinds(hint) if typing.get_origin(kind) is tuple]
    arguments = typing.get_args(tuples[0]) if tuples else ()
    if not arguments:
        return Any
    return arguments[0] if arguments[-1] is Ellipsis else arguments[min(index, len(arguments) - 1)]


def parse(text: str | bytes) -> Any:
    """Returns the value of a JSON text, in which every number is finite.

    Raises:
        ValueError: it is not JSON: Python's reader alone takes ``NaN``, ``Infinity`` and what overflows.
        RecursionError: it is too deep.
    """
    return json.loads(
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text,
        parse_float=_finite,
        parse_constant=_finite,
    )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no number of JSON, or too large a one")
    return value


def layout(value: Any) -> str:
    """Returns JSON text: what fits goes on one line, the rest is indented by two spaces."""
    return "".join(_lines(value, "", "")) + "\n"


def _lines(value: Any, indent: str, before: str) -> Iterator[str]:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not isinstance(value, dict | list) or len(indent) + len(before) + len(text) <= _LINE:
        yield f"{before}{text}"
        return
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    pairs: list[tuple[str, Any]] = (
        [(f"{json.dumps(key, ensure_ascii=False)}: ", item) for key, item in value.items()]
        if isinstance(value, dict)
        else [("", item) for item in value]
    )
    inner = f"{indent}  "
    yield f"{before}{opening}\n"
    for i, (label, item) in enumerate(pairs):
        yield inner
        yield from _lines(item, inner, label)
        yield "\n" if i == len(pairs) - 1 else ",\n"
    yield f"{indent}{closing}"
