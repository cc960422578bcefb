"""Which columns hold the coordinates of a table without geometry."""

from __future__ import annotations

from collections.abc import Sequence

from patchbeam.errors import JobError, nearest

_USUAL = (("longitude", "latitude"), ("lon", "lat"))


def check_xy(
    xy: tuple[str, str] | None, names: Sequence[str], path: str, *, required: bool
) -> tuple[str, str] | None:
    """Returns the columns of x and y: those given, else the usual names where both are there.

    Raises:
        JobError: a column that was named is not there, or there are none and they are required.
    """
    if xy is not None:
        for key, name in zip(("xColumn", "yColumn"), xy, strict=True):
            if name not in names:
                raise JobError(
                    f"{key}: {name!r} is not a column of {path}; columns are {', '.join(names)}"
                    f"{nearest(name, names)}"
                )
        return xy
    found = next((pair for pair in _USUAL if set(pair) <= set(names)), None)
    if found is None and required:
        raise JobError(
            f"{path}: there are no columns longitude and latitude; name those that hold the coordinates with "
            f"xColumn, yColumn and crs; columns are {', '.join(names)}"
        )
    return found
