"""An export without Beam: the same stages, one after the other in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from patchbeam import storage
from patchbeam.assemble import assemble
from patchbeam.checks import check_destination
from patchbeam.draw import LabelReader, draw_patches, drawn_parts
from patchbeam.elements import Piece
from patchbeam.export import BlockReader, block_encoder, piece_writer, plan_shards, temporary_folder
from patchbeam.manifest import Manifest
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from patchbeam.publish import publish
from patchbeam.records.tfrecord import read_records
from patchbeam.summary import in_order, summarize
from pipelines.jobfile.models import ExportImageJob
from pipelines.resolve import resolve_export


def plan_of(job: Mapping[str, Any], folder: Path) -> ExportPlan:
    """The plan of a job given as a mapping; relative paths start at the folder."""
    return resolve_export(ExportImageJob.model_validate({"job": "export-image", **job}), str(folder))


def export(
    plan: ExportPlan,
    *,
    threads: int = 1,
    overwrite: bool = False,
    tamper: Callable[[list[Piece]], list[Piece]] = list,
) -> Manifest:
    """Runs an export. Blocks are done in the wrong order, as runners do; ``tamper`` is what one loses."""
    check_destination(plan, overwrite=overwrite)
    blocks = range(plan.blocks.count)
    pieces: list[Piece] = []
    reader = BlockReader(plan, threads=threads)
    with Pool(threads) as pool:
        encoder = block_encoder(plan, pool)
        writer = piece_writer(plan, pool)
        parts = _drawn(plan, threads)
        for block in reversed(blocks):
            for run in encoder.runs(reader.read(block, parts), parts):
                pieces.extend(writer.write(run))
    reader.close()
    ordered = in_order(tamper(pieces), plan.patches.count)
    shards = list(plan_shards(plan, ordered))
    summary = summarize(ordered, len(plan.record_bands), len(shards), plan.split_parts)
    profile = plan.gzip if plan.options.compressed else None
    done = [assemble(shard, temporary_folder(plan), profile=profile) for shard in shards]
    name = publish(plan, [summary], done, overwrite=overwrite)
    return Manifest.from_text(storage.read_bytes(name), name)


def _drawn(plan: ExportPlan, threads: int) -> np.ndarray | None:
    """What a class-balanced draw lets through."""
    if plan.sample is None or plan.sample.per_class is None:
        return None
    labels = LabelReader(plan, threads=threads)
    found = [labels.holding(block) for block in reversed(range(plan.blocks.count))]
    labels.close()
    return drawn_parts(plan, draw_patches(plan, found))


def shard_paths(plan: ExportPlan, manifest: Manifest) -> list[Path]:
    """The shards in order."""
    return [Path(plan.output).parent / shard.name for shard in manifest.shards]


def records_of(plan: ExportPlan, manifest: Manifest) -> Iterator[bytes]:
    """The data of every record, shard after shard."""
    for path in shard_paths(plan, manifest):
        yield from (bytes(record) for record in read_records(path))


def write_tif(path: Path, values: np.ndarray, **options: Any) -> Path:
    """Writes a GeoTIFF of ``(band, row, col)`` or ``(row, col)`` on a 10 m grid."""
    import rasterio
    from rasterio.transform import Affine

    values = values if values.ndim == 3 else values[None]
    names = options.pop("names", None)
    mask = options.pop("mask", None)
    profile = {
        "driver": "GTiff",
        "count": len(values),
        "height": values.shape[1],
        "width": values.shape[2],
        "dtype": values.dtype,
        "crs": "EPSG:32633",
        "transform": Affine(10, 0, 500_000, 0, -10, 5_300_000),
        **options,
    }
    with rasterio.open(path, "w", **profile) as file:
        file.write(values)
        if mask is not None:
            file.write_mask(mask)
        for number, name in enumerate(names or (), 1):
            file.set_band_description(number, name)
    return path
