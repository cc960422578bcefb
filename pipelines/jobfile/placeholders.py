"""Placeholders in the texts of a job file, so that a schedule can run one file again and again.

``{date}`` is the day of the run in UTC, ``2026-11-30``; ``{date:%Y%m%d}`` writes it otherwise. The
environment variable ``PATCHBEAM_DATE`` sets another day, for a run that is made up for or gone on with
later. ``${NAME}`` is an environment variable, ``$${`` stands for ``${`` itself.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime
from difflib import get_close_matches
from typing import Any

from patchbeam.errors import JobError, nearest
from patchbeam.redact import note_variable

DATE_VARIABLE = "PATCHBEAM_DATE"

_PLACEHOLDER = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}|(?<!\$)\{date(?::(?P<form>[^{}]+))?\}"
    r"|(?<!\$)\{(?P<like>\s*[A-Za-z]+\s*)(?::[^{}]*)?\}"
)
_HALF = re.compile("[\ud800-\udfff]")
_FORM = re.compile("(?:[^%]|%[-_]?[YymdejbBaAGgVUWuwCFD%])*")


def fill_placeholders(value: Any, name: str, place: str = "") -> Any:
    """Returns a job's mapping with the placeholders in its texts filled in; keys stay as they are.

    Args:
        value: the mapping or a part of it.
        name: of the job file, for messages.
        place: key path of the part.

    Raises:
        JobError: an environment variable is not set, the date is none, or what looks like a date's
            placeholder is none; names the key.
    """
    if isinstance(value, dict):
        return {key: fill_placeholders(item, name, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list):
        return [fill_placeholders(item, name, f"{place}[{i}]") for i, item in enumerate(value)]
    if not isinstance(value, str) or "{" not in value:
        return value
    where = f"{name}: {place.lstrip('.')}"

    def fill(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match["like"] is not None:
            # other words in braces may belong to a name or a pattern, "update" too, whose ratio is 0.8
            if get_close_matches(match["like"].strip().lower(), ["date"], cutoff=0.81):
                raise JobError(
                    f"{where}: {match[0]}: is no placeholder; write {{date}} or {{date:%Y%m%d}} for the day "
                    "of the run"
                )
            return match[0]
        if match["name"] is None:
            return _day(where).strftime(_form(match["form"] or "%Y-%m-%d", where))
        found = os.environ.get(match["name"])
        if found is None:
            raise JobError(
                f"{where}: ${{{match['name']}}}: this environment variable is not set"
                f"{nearest(match['name'], os.environ)}; set it before the job, or write the value itself"
            )
        if _HALF.search(found):  # Python's stand-ins for bytes that are not UTF-8
            raise JobError(
                f"{where}: ${{{match['name']}}}: this environment variable holds bytes that are not UTF-8; "
                "set it anew"
            )
        note_variable(match["name"], found)
        return found

    return _PLACEHOLDER.sub(fill, value)


def _form(form: str, where: str) -> str:
    """Returns how a day is to be written; what the system's strftime does with anything else differs."""
    if not _FORM.fullmatch(form) or not form.isprintable():
        raise JobError(
            f"{where}: {{date:{form!a}}}: is no form of a day; write for instance {{date:%Y%m%d}}, with %Y, "
            "%y, %m, %d, %j, %b, %B, %a, %A, %G, %V or %u"
        )
    return form


def _day(where: str) -> date:
    text = os.environ.get(DATE_VARIABLE)
    if text is None:
        return datetime.now(UTC).date()
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise JobError(
            f"{where}: {{date}}: the environment variable {DATE_VARIABLE} is {text!r}, which is no day; "
            "write it as 2026-11-30"
        ) from None
