"""What is counted of each job, so that its progress can be shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from patchbeam import storage
from patchbeam.counts import Done
from patchbeam.export import temporary_folder
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.plan import ExportPlan
from patchbeam.tables.plan import TablePlan
from patchbeam.tables.sampling.plan import SamplePlan
from pipelines.pace import Counted, Stage

_LABELS = "blocks of the class band"


def export_stages(plan: ExportPlan) -> list[Stage]:
    """Returns the stages of an image export."""
    shards = plan.bounds.shards[0] if plan.bounds.exact else None
    stages = [Stage(name="patches", total=plan.patches.count), Stage(name="shards", total=shards)]
    if plan.options.compressed and not plan.piece_gzip:
        # whole shards are compressed, which takes far longer than all the rest
        total = plan.bounds.total_bytes[0] if plan.bounds.exact else None
        stages.append(Stage(name="compressed", total=total, in_bytes=True))
    if plan.sample is not None and plan.sample.per_class is not None:
        stages.insert(0, Stage(name="label_blocks", total=plan.blocks.count, label=_LABELS))
    return stages


def export_files(plan: ExportPlan) -> Counted:
    """Returns what counts the patches by the descriptors of runs that workers have left."""

    @cache
    def patches() -> Mapping[int, int]:
        runs = (run for block in range(plan.blocks.count) for run in plan.blocks.runs(block))
        return {run.first: run.count for run in runs}

    def counted() -> Mapping[str, Done]:
        names = [
            storage.split(path)[1] for path in storage.list_names(storage.join(temporary_folder(plan), ""))
        ]
        firsts = [int(name.removesuffix(".run")) for name in names if name.endswith(".run")]
        return {"patches": Done(sum(patches()[first] for first in firsts))} if firsts else {}

    return counted


def import_stages(plan: ImportPlan) -> list[Stage]:
    """Returns the stages of an image import."""
    return [
        Stage(name="files", total=len(plan.records), label="record files indexed"),
        Stage(name="tiles", total=plan.tiles.count),
    ]


def import_files(plan: ImportPlan) -> Counted:
    """Returns what counts the tiles by the marks of finished ones."""

    def counted() -> Mapping[str, Done]:
        names = storage.list_names(storage.join(plan.temporary_folder, ""))
        tiles = sum(name.endswith(".tif.json") for name in names)
        return {"tiles": Done(tiles)} if tiles else {}

    return counted


def draw_stages(plan: SamplePlan) -> list[Stage]:
    """Returns the stages of drawing points."""
    return [Stage(name="label_blocks", total=plan.across * plan.down, label=_LABELS)]


def table_stages(plan: TablePlan) -> list[Stage]:
    """Returns the stages of a table export."""
    rows = plan.source.rows
    sampled = (
        [] if plan.sample is None else [Stage(name="features_sampled", total=rows, label="features sampled")]
    )
    return [*sampled, Stage(name="features", total=rows)]


def import_table_stages(records: int) -> list[Stage]:
    """Returns the stages of a table import."""
    return [
        Stage(name="records_looked_at", total=records, label="records looked at"),
        Stage(name="records", total=records),
    ]
