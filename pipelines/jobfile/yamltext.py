"""YAML text to plain values, with errors that name line and column.

PyYAML reads YAML 1.1, where ``1e3`` is text, ``1:30`` is ninety, ``010`` is eight and ``2024-01-01`` a
date. Here numbers are those of YAML 1.2 and JSON; dates stay text. ``yes``, ``no``, ``on`` and ``off``
stay booleans: people write them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from patchbeam.errors import JobError

_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_MERGE = "tag:yaml.org,2002:merge"
_MOST_REPEATED = 1_000_000
_HOLDS_ITSELF = -1


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key may stand once only; YAML itself would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable):
                if key in seen:
                    raise _Twice(None, None, f"the key {key!r} stands twice; keep one", key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MOST_REPEATED // 10:
            raise ConstructorError(None, None, f"{len(node.value)} keys come of its merges", node.start_mark)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError) as error:
            # a number of more digits than Python reads
            raise ConstructorError(None, None, str(error), node.start_mark) from None

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        if isinstance(value, str) and _PAIR.search(value):
            # JSON writes a character beyond U+FFFF as two escapes, which YAML takes for two characters
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return value

    def construct_undefined(self, node: yaml.Node) -> Any:
        raise ConstructorError(
            None, None, f"the tag {node.tag!r} is not known here; give plain values", node.start_mark
        )


class _Twice(ConstructorError):
    """A key that stands twice."""


_Loader.add_constructor(None, _Loader.construct_undefined)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rules if tag not in _NUMBERS]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"[-+]?(?:0|[1-9][0-9]*)\Z|0x[0-9a-fA-F]+\Z"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z"
        r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
    ),
    list("-+0123456789."),
)


def parse_yaml(text: str, name: str) -> Any:
    """Parses YAML (or JSON, which is YAML).

    Args:
        text: the YAML.
        name: of the file, or what else it comes from; begins every message.

    Raises:
        JobError: malformed text, with line and column.
    """
    try:
        # the loader is a SafeLoader: it makes plain values only
        value = yaml.load(text, Loader=_Loader)
        if _written_out(value, {}) > _MOST_REPEATED and "*" in text:
            raise JobError(
                f"{name}: not YAML that is read here: its references (*name) stand for more than "
                f"{_MOST_REPEATED} values; write them out"
            )
        return value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        context = f" ({error.context})" if error.context else ""
        what = "" if isinstance(error, _Twice) else "not YAML: "
        raise JobError(f"{name}{where}: {what}{error.problem}{context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise JobError(
            f"{name}, line {line}, column {column}: the character {_code(error.character)} cannot stand in "
            "YAML; take it out, or write it with an escape in double quotes"
        ) from None
    except RecursionError:
        raise JobError(f"{name}: not YAML: lists or maps too deep in each other") from None
    except yaml.YAMLError as error:
        raise JobError(f"{name}: not YAML: {error}") from None


def _written_out(value: Any, known: dict[int, int]) -> int:
    """Returns how many values there would be without references, each counted once by its identity.

    Raises:
        RecursionError: a list or map holds itself.
    """
    if not isinstance(value, dict | list):
        return 1
    found = known.get(id(value))
    if found is None:
        known[id(value)] = _HOLDS_ITSELF
        inner = value.values() if isinstance(value, dict) else value
        found = known[id(value)] = 1 + sum(_written_out(item, known) for item in inner)
    elif found == _HOLDS_ITSELF:
        raise RecursionError
    return found


def _code(character: object) -> str:
    number = ord(character) if isinstance(character, str) else int(str(character))
    return f"U+{number:04X}"
