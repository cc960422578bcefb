"""Runs the commands of a documentation page and puts what they print in their place.

A ``console`` block holds commands after ``$ ``, a ``pycon`` block Python after ``>>> ``, a block whose first
line is ``# NAME`` is a file. All run in one folder, top to bottom.

    python tests/pages.py docs/format-options.md        # writes the page anew
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import runpy
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_VARYING = re.compile(r"[\d.]+ (?:B|KiB|MiB|GiB) (?=stored|free)|(?<=space  )[^;]*;")

SHOWN_FOLDER = "/home/you/demo"
"""What the page shows in the place of the folder that the commands ran in."""


def run_page(text: str, folder: Path) -> str:
    """Returns the page with the output of its commands as they print it now."""
    before = os.getcwd()
    os.chdir(folder)
    variables: dict[str, Any] = {}
    try:
        return _BLOCK.sub(lambda match: f"```{match[1]}\n{_run(match[1], match[2], variables)}```", text)
    finally:
        os.chdir(before)


def comparable(text: str) -> str:
    """The page without what differs between machines: sizes of compressed files, free space."""
    return _VARYING.sub("… ", text)


def _run(kind: str, body: str, variables: dict[str, Any]) -> str:
    first = body.partition("\n")[0]
    if kind in ("yaml", "python") and re.fullmatch(r"# [\w.-]+", first):
        Path(first[2:]).write_text(body, encoding="utf-8")
    elif kind == "console":
        commands = re.findall(r"^\$ ((?:.*\\\n)*.*)$", body, re.M)
        return "".join(f"$ {command}\n{_output(command)}" for command in commands)
    elif kind == "pycon":
        return "".join(_answer(example, variables) for example in doctest.DocTestParser().get_examples(body))
    return body


def _output(command: str) -> str:
    from pipelines.cli import main

    name, *arguments = shlex.split(command.replace("\\\n", " "))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        if name == "patchbeam":
            status = main(arguments)
            assert status in (0, 2), f"{command}: exit status {status}: {out.getvalue()}"
        else:
            assert name == "python", f"{command}: a page may run patchbeam and python"
            given, sys.argv = sys.argv, arguments
            try:
                runpy.run_path(arguments[0], run_name="__main__")
            finally:
                sys.argv = given
    return _shown(out.getvalue())


def _answer(example: doctest.Example, variables: dict[str, Any]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example.source, "page", "single"), variables)
    lines = example.source.rstrip("\n").split("\n")
    source = "".join(f"{'... ' if i else '>>> '}{line}".rstrip() + "\n" for i, line in enumerate(lines))
    return source + _shown(out.getvalue())


def _shown(text: str) -> str:
    return text.replace(os.getcwd(), SHOWN_FOLDER)


def main() -> None:
    """Writes pages anew."""
    for name in sys.argv[1:]:
        page = Path(name).resolve()
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(run_page(page.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
