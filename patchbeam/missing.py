"""Sources that could not be read and were masked instead (``onMissing: mask``): noted block by block.

The notes lie under the temporary prefix, so that they outlive the worker that made them, and go into the
manifest.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchbeam import storage
from patchbeam.finished import from_text, to_text
from patchbeam.patches import Window
from patchbeam.retry import retrying

MaskedWindow = tuple[int, int, int, int]
"""Column, row, width and height in pixels of the grid."""

_SUFFIX = ".missing"


def note_missing(folder: str, block: int, window: Window, files: Iterable[str]) -> None:
    """Notes the files that one block was read without; takes back what an earlier attempt has noted.

    Args:
        folder: the temporary prefix.
        block: number of the block.
        window: its pixels.
        files: what could not be read; empty when everything could.
    """
    path = storage.join(folder, f"{block:012d}{_SUFFIX}")
    names = sorted(files)
    if names:
        where = [window.col_off, window.row_off, window.width, window.height]
        retrying(lambda: storage.write_atomic(path, to_text([names, where])))
    else:
        retrying(lambda: storage.delete(path))


def masked_windows(folder: str) -> dict[str, tuple[MaskedWindow, ...]]:
    """Returns the windows in which each file was masked, in the order of the blocks."""
    found: dict[str, list[MaskedWindow]] = {}
    for path in storage.list_names(storage.join(folder, "")):
        if path.endswith(_SUFFIX):
            names, (column, row, width, height) = from_text(storage.read_bytes(path))
            for name in names:
                found.setdefault(name, []).append((column, row, width, height))
    return {name: tuple(windows) for name, windows in found.items()}
