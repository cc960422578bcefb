"""The plan of an image export as JSON: what ``patchbeam plan --json`` prints and fingerprints cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from patchbeam.grid import affine6
from patchbeam.mixer import crs_text
from patchbeam.redact import without_secrets
from patchbeam.selection import split_parts
from patchbeam.splits import GUARDED

if TYPE_CHECKING:
    from patchbeam.plan import ExportPlan


def plan_to_json(plan: ExportPlan) -> dict[str, Any]:
    """Returns a plan in plain values; ranges are ``[least, most]``, sizes in bytes."""
    patches, bounds = plan.patches, plan.bounds
    return {
        "output": plan.output,
        "grid": {
            "crs": crs_text(plan.crs),
            "transform": list(affine6(plan.grid)),
            "width": patches.width,
            "height": patches.height,
        },
        "bands": [
            {
                "name": band.name,
                "source": band.source,
                "band": band.index if band.indexes is None else list(band.indexes),
                "type": band.type,
                "resampling": band.resampling,
                "array": band.is_array,
            }
            for band in plan.bands
        ],
        "maskBand": plan.mask_band,
        "features": [{"name": f.name, "kind": f.kind, "shape": list(f.shape)} for f in plan.features],
        "sources": [
            {
                "name": source.name,
                "aligned": aligned,
                "compose": source.compose,
                "nodata": source.nodata if source.nodata is None else str(source.nodata),
                "unscale": source.unscale,
                "times": source.times,
                "maskedObservations": "fill" if source.name in plan.fill else "drop",
                "files": [
                    {
                        "path": without_secrets(file.path),
                        "sizeBytes": file.size_bytes,
                        "modified": file.modified,
                    }
                    for file in source.files
                ],
            }
            for source, aligned in zip(plan.sources, plan.aligned, strict=True)
        ],
        "formatOptions": plan.options.to_mapping(),
        "edge": plan.edge,
        "numbers": plan.numbers,
        "gzip": plan.gzip if plan.options.compressed else None,
        "naming": plan.naming,
        "strict": plan.strict,
        "onMissing": plan.on_missing,
        "blockBytes": plan.block_bytes,
        "split": None if plan.split is None else plan.split.to_mapping(),
        "keep": None if plan.keep is None else plan.keep.to_mapping(),
        "sample": None if plan.sample is None else plan.sample.to_mapping(),
        "statistics": plan.statistics,
        "classMaps": sorted(plan.class_maps),
        "patches": {
            "perRow": patches.columns,
            "rows": patches.rows,
            "total": patches.count,
            "storedWidthHeight": list(patches.stored_width_height),
            "margin": list(patches.margin_width_height),
            "lostColumnsRows": list(patches.lost_columns_rows),
            "lostPixels": patches.lost_pixels,
            **_parts(plan),
        },
        "records": list(bounds.records),
        "recordBytes": list(plan.record_size),
        "shards": {
            "exact": bounds.exact,
            "count": list(bounds.shards),
            "uncompressedBytes": list(bounds.total_bytes),
            "recordsPerShard": plan.records_per_shard,
        },
        "readBlocks": {
            "count": plan.blocks.count,
            "patchesAcrossDown": list(plan.blocks.columns_rows),
        },
        "memoryBytes": plan.memory_bytes,
        "spaceBytes": list(plan.space_bytes),
        "mixer": not plan.may_drop,
    }


def _parts(plan: ExportPlan) -> dict[str, Any]:
    """Patches of each split and those that the guard takes, where there are splits."""
    if plan.split is None:
        return {}
    guarded = int(np.count_nonzero(split_parts(plan.split, plan.patches) == GUARDED))
    return {
        "split": dict(zip(plan.split.names, plan.part_counts, strict=True)),
        "guard": guarded,
        "guardColumnsRows": list(plan.split.guard_columns_rows(plan.patches)),
    }
