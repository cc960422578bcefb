"""Commands that take a job file: their argument, and help that ends with the keys of such a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_ALIKE = "the other spelling of "


class JobCommand(click.Command):
    """A command whose argument is a job file.

    Args:
        kind: which job; its model says the keys.
    """

    def __init__(self, *args: Any, kind: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.kind = kind

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the keys, and where the rest is said."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Keys of the job file"):
            formatter.write_dl(job_keys(self.kind))
        example = f"configs/{self.kind.replace('-', '_')}.yaml"
        more = f"docs/job-file.md; patchbeam schema {self.kind}"
        with formatter.section("More"):
            formatter.write_dl([("all keys, their values", more), ("an example", example)])


def job_options(command: F) -> F:
    """The argument and the options that every job command takes."""
    for decorator in (
        click.argument("job", type=click.Path()),
        click.option(
            "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="override a value of the job file"
        ),
    ):
        command = decorator(command)
    return command


def job_keys(kind: str) -> list[tuple[str, str]]:
    """Returns the keys of a job file in order, and what each is, with the keys inside it where they are few.

    Args:
        kind: a key of ``JOBS``.
    """
    from pipelines.jobfile.schema import job_schema  # brings in pydantic, which no other help needs

    schema = job_schema(kind)
    rows = [("job", kind)]
    for key, one in schema["properties"].items():
        if key == "job":
            continue
        inner = ", ".join(_inner(one, schema.get("$defs", {})))
        said = one.get("description", "").replace("``", "")
        needed = " (needed)" if key in schema.get("required", ()) else ""
        rows.append((key, f"{said}{needed}{f'; keys: {inner}' if inner else ''}"))
    return rows


def _inner(one: dict[str, Any], parts: dict[str, Any]) -> list[str]:
    """The keys of a map, or of the map among several forms; none where the names are the user's own."""
    if "$ref" in one:
        return _inner(parts[one["$ref"].rsplit("/", 1)[1]], parts)
    for form in one.get("anyOf", ()):
        if found := _inner(form, parts):
            return found
    if isinstance(one.get("additionalProperties"), dict):
        return []
    return [
        key
        for key, inner in one.get("properties", {}).items()
        if not inner.get("description", "").startswith(_ALIKE)
    ]
