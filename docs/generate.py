"""Writes what the documentation and the editors take from the code: reference pages and JSON Schemas.

    python docs/generate.py            # writes docs/job-file.md, docs/commands.md and configs/schemas/*.json

In the two pages only what stands between ``<!-- generated: NAME -->`` and ``<!-- end -->`` is written; the
rest is by hand. A test compares what is committed with what this makes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

Schema = dict[str, Any]

_REGION = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
_KINDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def generated() -> dict[Path, str]:
    """Returns every generated file's text, by its path."""
    from pipelines.jobfile import JOBS
    from pipelines.jobfile.schema import job_schema

    schemas = {kind: job_schema(kind) for kind in JOBS}
    files = {
        ROOT / "configs" / "schemas" / f"{kind}.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for kind, schema in schemas.items()
    }
    regions = {**{kind: _job(schema) for kind, schema in schemas.items()}, "parts": _parts(schemas)}
    for name, texts in (("job-file.md", regions), ("commands.md", {"commands": _commands()})):
        page = ROOT / "docs" / name
        files[page] = _filled(page.read_text(encoding="utf-8"), texts, page)
    return files


def _filled(text: str, regions: dict[str, str], page: Path) -> str:
    found = {match[2] for match in _REGION.finditer(text)}
    if found != set(regions):
        raise ValueError(f"{page}: holds regions {sorted(found)}, there are {sorted(regions)} to fill")
    return _REGION.sub(lambda match: f"{match[1]}\n{regions[match[2]]}\n{match[3]}", text)


def _job(schema: Schema) -> str:
    return "\n".join(_table(schema, skip={"job"}))


def _parts(schemas: dict[str, Schema]) -> str:
    parts: dict[str, Schema] = {}
    users: dict[str, list[str]] = {}
    for kind, schema in schemas.items():
        for name, part in schema.get("$defs", {}).items():
            if parts.setdefault(name, part) != part:
                raise ValueError(f"two models are named {name}; name them apart")
            users.setdefault(name, []).append(kind)
    lines: list[str] = []
    for name, part in parts.items():
        said = str(part["description"]).replace("``", "`").split("\n")[0]
        of = ", ".join(f"`{kind}`" for kind in users[name])
        lines += [f"### {_part_name(name)}", "", f"{said} Of {of}.", "", *_table(part), ""]
    options = _format_options(schemas)
    return "\n".join([*lines, *options])


def _format_options(schemas: dict[str, Schema]) -> list[str]:
    from patchbeam.options import SPELLINGS

    properties = schemas["export-image"]["properties"]["formatOptions"]["properties"]
    lines = ["### formatOptions", "", "Each by example: [Format options](format-options.md).", ""]
    lines += ["| key | or | value | default | is |", "|---|---|---|---|---|"]
    for client, rest in SPELLINGS.items():
        one = properties[client]
        other = "" if rest == client else f"`{rest}`"
        lines.append(f"| `{client}` | {other} | {_kind(one)} | {_default(one, False)} | {_said(one)} |")
    return lines


def _table(schema: Schema, skip: Iterable[str] = ()) -> Iterator[str]:
    yield from ("| key | value | default | is |", "|---|---|---|---|")
    for key, one in schema["properties"].items():
        if key not in skip:
            required = key in schema.get("required", ())
            yield f"| `{key}` | {_kind(one)} | {_default(one, required)} | {_said(one)} |"


def _said(one: Schema) -> str:
    return str(one.get("description", "")).replace("``", "`").replace("|", "\\|")


def _default(one: Schema, required: bool) -> str:
    if required:
        return "**needed**"
    value = one.get("default")
    if value is None or value == {} or value == []:
        return ""
    return f"`{json.dumps(value) if not isinstance(value, str) else value}`"


def _part_name(model: str) -> str:
    words = re.findall(r"[A-Z][a-z0-9]*", model.removesuffix("Model"))
    return " ".join(words).lower()


def _kind(one: Schema) -> str:
    if "$ref" in one:
        name = _part_name(one["$ref"].rsplit("/", 1)[1])
        return f"[{name}](#{name.replace(' ', '-')})"
    if "anyOf" in one:
        # a bound on the length stands beside the choice when one of its short forms is no list
        bounds = {key: one[key] for key in ("minItems", "maxItems") if key in one}
        kinds = [_kind({**part, **bounds}) for part in one["anyOf"] if part.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in one or "const" in one:
        return ", ".join(f"`{value}`" for value in one.get("enum", [one.get("const")]))
    if one.get("type") == "array":
        item = _kind(one["items"]) if "items" in one else "anything"
        count = one.get("minItems")
        fixed = count is not None and count == one.get("maxItems")
        return f"list of {f'{count} × ' if fixed else ''}{item}"
    if one.get("type") == "object":
        if one.get("properties"):
            return (
                "map, see [below](#formatoptions)" if "patchDimensions" in one["properties"] else _named(one)
            )
        inner = one.get("additionalProperties")
        return f"map of name to {_kind(inner)}" if isinstance(inner, dict) else "map"
    return _bounded(one)


def _named(one: Schema) -> str:
    keys = ", ".join(f"`{key}`" for key in one["properties"])
    inner = one.get("additionalProperties")
    return f"map of name to {_kind(inner)}, and {keys}" if isinstance(inner, dict) else f"map of {keys}"


def _bounded(one: Schema) -> str:
    name = _KINDS.get(one.get("type", ""), "anything")
    low, high = one.get("minimum"), one.get("maximum")
    if low is not None and high is not None:
        return f"{name}, {low:g} to {high:g}" if high < 1 << 32 else f"{name}, at least {low:g}"
    return name if low is None else f"{name}, at least {low:g}"


def _commands() -> str:
    import click

    from pipelines.cli import cli

    lines: list[str] = []
    for name, command in sorted(cli.commands.items()):
        arguments = " ".join(
            str(one.make_metavar(click.Context(command)))
            for one in command.params
            if isinstance(one, click.Argument)
        ).replace("[BEAM_ARGUMENTS]...", "[-- BEAM OPTIONS]")
        said = re.sub(r"\s+", " ", str(command.help)).strip()
        lines += [f"## {name}", "", "```text", f"patchbeam {name} [OPTIONS] {arguments}", "```", "", said, ""]
        options = [one for one in command.params if isinstance(one, click.Option)]
        if options:
            lines += ["| option | does |", "|---|---|"]
        lines += [_option(option) for option in options]
        lines.append("")
    return "\n".join(lines)


def _option(option: Any) -> str:
    import click

    value = "" if option.is_flag else " " + (option.metavar or getattr(option.type, "name", "text"))
    if isinstance(option.type, click.types.IntParamType):
        value = " " + (option.metavar or "N")
    elif value in (" text", " path"):
        value = f" {option.name.upper()}"
    default = f"; default: {option.default}" if option.show_default and not option.is_flag else ""
    return f"| `{', '.join(option.opts)}{value}` | {str(option.help or '').replace('|', '/')}{default} |"


def main() -> None:
    """Writes the files that differ, and says which."""
    for path, text in generated().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
