"""Finished table jobs as text for a terminal."""

from __future__ import annotations

from patchbeam.tables.importing.plan import ImportTableReport
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.publish import TableReport
from pipelines.plan_text import size_text


def export_text(plan: TablePlan, report: TableReport) -> str:
    """Returns what a table export has written, and what it could not hold."""
    rows = [
        ("written", f"{report.records} records, one a feature"),
        (
            "size",
            f"{size_text(report.stored_bytes)} stored, {size_text(report.uncompressed_bytes)} uncompressed",
        ),
    ]
    if report.outside:
        lie = "feature lies" if report.outside == 1 else "features lie"
        rows.append(("outside", f"{report.outside} {lie} outside the rasters; their bands are null"))
    if report.masked:
        rows.append(("masked", f"{report.masked} values are masked where they were sampled: {_masked(plan)}"))
    for name, count in report.rounded.items():
        rows.append(
            (f"property {name}", f"{count} integers were rounded to float32; as text they stay exact")
        )
    for name, count in report.rounded_bands.items():
        rows.append((f"band {name}", f"{count} integers were rounded to float32"))
    files = report.files
    rows.append(
        ("file" if len(files) == 1 else "files", files[0] + (f" … {files[-1]}" if len(files) > 1 else ""))
    )
    return _table(rows)


def _masked(plan: TablePlan) -> str:
    return (
        f"their chips hold {plan.sample.default_value:g} there"
        if plan.chips and plan.sample
        else "they are null"
    )


def import_text(report: ImportTableReport) -> str:
    """Returns what a table import has written."""
    rows = [("written", f"{_count(report.records, 'row')}, {_count(len(report.columns), 'column')}")]
    rows += [(f"column {name}", kind) for name, kind in report.columns.items()]
    rows.append(("geometry", f"from {report.geometry}" if report.geometry else "none"))
    rows.append(("file", report.output))
    return _table(rows)


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
