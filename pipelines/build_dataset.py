"""``build-dataset``: any database to TFRecord shards.

Also a module for people who submit with Python:
``python -m pipelines.build_dataset --job configs/build_dataset.yaml --runner=DataflowRunner …``
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from patchbeam import storage
from patchbeam.data.convert import SetPlan
from patchbeam.data.convert_publish import is_published, note_run
from patchbeam.data.recordset import DATASET_KEY
from patchbeam.errors import CountMismatch
from patchbeam.finished_shards import published_names
from patchbeam.manifest import Manifest
from patchbeam.records.names import manifest_name
from pipelines.beam_options import beam_options, new_pipeline
from pipelines.export_table import run, run_command
from pipelines.failures import Output
from pipelines.pace import Stage
from pipelines.plan_text import size_text
from transforms.dataset import DatabaseToTFRecords


def run_build_dataset(
    plan: SetPlan,
    beam_arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Runs a conversion and returns the manifest of what it has written.

    Args:
        plan: the conversion.
        beam_arguments: Beam's own options.
        workers: threads of a local run; default all cores.
        overwrite: whether an earlier set with this prefix is replaced.

    Raises:
        PatchbeamError: the run failed; its text says what has been published, if anything.
        KeyboardInterrupt: Ctrl-C; its text says what has become of the run.
    """
    options, threads = beam_options(beam_arguments, workers)
    pipeline = new_pipeline(options)
    pipeline | "DatabaseToTFRecords" >> DatabaseToTFRecords(plan, threads=threads, overwrite=overwrite)
    name = manifest_name(plan.output)
    output = Output(
        prefix=plan.output,
        last=name,
        folder=plan.temporary_folder,
        resumes=False,
        begun=lambda: published_names(plan.temporary_folder) is not None,
        complete=lambda: is_published(plan),
    )
    note_run(plan)
    run(pipeline, output, [Stage(name="items", total=plan.count)], options)
    if not storage.exists(name):
        raise CountMismatch(
            f"{plan.output}: the runner reports success and has not published; run the job again"
        )
    return Manifest.from_text(storage.read_bytes(name), name)


def summary_text(plan: SetPlan, manifest: Manifest) -> str:
    """Returns what a run says at its end."""
    size = sum(shard.uncompressed_bytes for shard in manifest.shards)
    stored = sum(shard.stored_bytes for shard in manifest.shards)
    count = len(manifest.shards)
    rows = [
        ("written", f"{plan.count} items, {count} shard{'s' * (count != 1)}, profile {plan.schema.profile}"),
        ("size", f"{size_text(stored)} stored, {size_text(size)} uncompressed"),
    ]
    statistics = manifest.extra[DATASET_KEY]["statistics"]
    for part in plan.schema.fields:
        shape = " × ".join("?" if n is None else str(n) for n in part.shape) or "one value"
        means = [
            f"{one['mean']:.4g} ± {one['standardDeviation']:.4g}"
            for one in statistics.get(part.name, ())
            if one["count"]
        ]
        said = f"; mean {', '.join(means[:4])}{', …' if len(means) > 4 else ''}" if means else ""
        rows.append((part.name, f"{part.dtype}, {shape}{said}"))
    rows.append(("manifest", manifest_name(plan.output)))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``python -m pipelines.build_dataset``; unknown options go to Beam."""
    return run_command("build-dataset", arguments)


if __name__ == "__main__":
    sys.exit(main())
