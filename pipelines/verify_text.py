"""A verification as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from patchbeam import storage
from patchbeam.verify import ABOUT, Report
from pipelines.plan_text import size_text

_MOST = 10


def verify_text(report: Report) -> str:
    """Returns what was looked at, a line each, and then everything that is wrong."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    stored = sum(shard.stored_bytes for shard in report.shards)
    size = sum(shard.size_bytes for shard in report.shards)
    shards = len(report.shards)
    yield (
        f"{report.prefix}: {shards} shard{'' if shards == 1 else 's'}, {size_text(stored)} stored, "
        f"{size_text(size)} of records"
    )
    for about in ABOUT:
        wrong = sum(finding.about == about for finding in report.findings)
        if wrong:
            yield f"  WRONG  {about:<9} {wrong} finding{'' if wrong == 1 else 's'}, see below"
        elif about in report.checked:
            yield f"  ok     {about:<9} {report.checked[about]}"
        elif about in report.skipped:
            yield f"  -      {about:<9} {report.skipped[about]}"
    if report.ok:
        yield "all right"
        return
    yield ""
    folder = storage.split(report.prefix)[0]
    for finding in report.findings[:_MOST]:
        place = finding.place.removeprefix(storage.join(folder, "")) if folder else finding.place
        yield f"{place}: {finding.text}" if place else finding.text
    if len(report.findings) > _MOST:
        yield f"… and {len(report.findings) - _MOST} more; --json lists them all"
    yield f"{len(report.findings)} finding{'' if len(report.findings) == 1 else 's'}"
