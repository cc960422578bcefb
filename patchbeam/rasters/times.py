"""When an observation was made: from its path, else from its date tag."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from patchbeam.errors import SourceError
from patchbeam.rasters.files import RasterFile

_FIELDS = {
    "Y": r"\d{4}",
    "m": r"\d{2}",
    "d": r"\d{2}",
    "H": r"\d{2}",
    "M": r"\d{2}",
    "S": r"\d{2}",
    "j": r"\d{3}",
    "y": r"\d{2}",
    "b": r"[A-Za-z]{3}",
    "f": r"\d{1,6}",
    "%": "%",
}


def observation_time(file: RasterFile, pattern: str | None, key: str) -> str:
    """Returns the time of an observation as ISO 8601 in UTC.

    Args:
        file: its header.
        pattern: strftime pattern to be found anywhere in the path; the last place counts. ``None``: the
            TIFF date tag.
        key: of the source, for messages.

    Raises:
        SourceError: no time is found, or what is found is no date.
    """
    if pattern is None:
        if file.date is None:
            raise SourceError(
                f"{key}: {file.path} has no date tag (TIFFTAG_DATETIME); say where its path holds the date"
                " with time:, for instance time: '%Y%m%d'"
            )
        return _parsed(file.date.strip(), "%Y:%m:%d %H:%M:%S", file.path, key)
    found = list(re.finditer(f"(?={_expression(pattern, key)})", file.path))
    if not found:
        raise SourceError(
            f"{key}.time: {pattern!r} is not found in the path {file.path}; write it as the path has it"
        )
    return _parsed(found[-1][1], pattern, file.path, key)


def _expression(pattern: str, key: str) -> str:
    parts = re.split(r"%(.)", pattern)
    for i in range(1, len(parts), 2):
        if parts[i] not in _FIELDS:
            known = ", ".join(f"%{f}" for f in _FIELDS)
            raise SourceError(f"{key}.time: %{parts[i]} in {pattern!r} is not known; use {known}")
    if len(parts) == 1:
        raise SourceError(f"{key}.time: {pattern!r} holds no date field; write for instance '%Y%m%d'")
    return "(" + "".join(_FIELDS[p] if i % 2 else re.escape(p) for i, p in enumerate(parts)) + ")"


def _parsed(text: str, pattern: str, path: str, key: str) -> str:
    try:
        return datetime.strptime(text, pattern).replace(tzinfo=UTC).isoformat()
    except ValueError as e:
        raise SourceError(f"{key}.time: {text!r} in {path} is not a date of the form {pattern!r}: {e}") from e
