"""Processes that others have started, found in /proc."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

HAVE_PROC = Path("/proc/self/stat").exists()


def below(process: int, saying: bytes) -> list[int]:
    """The processes below one whose command line holds something, the oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, IndexError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            alive = stat[0] != "Z"
            if alive and saying in (entry / "cmdline").read_bytes() and _descends(int(stat[1]), process):
                found.append((int(stat[19]), int(entry.name)))
    return [number for _, number in sorted(found)]


def _descends(process: int, ancestor: int) -> bool:
    while process not in (0, 1, ancestor):
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            return False
    return process == ancestor
