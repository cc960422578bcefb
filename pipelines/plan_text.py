"""A plan and a finished export as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from patchbeam import storage
from patchbeam.crs import describe
from patchbeam.grid import affine6
from patchbeam.manifest import Manifest
from patchbeam.mixer import crs_text
from patchbeam.plan import ExportPlan
from patchbeam.records.names import manifest_name, mixer_name, shard_name
from patchbeam.redact import without_secrets
from patchbeam.sizes import size_text as size_text
from pipelines.choice_text import choice_rows, why_dropped
from pipelines.source_text import empty_notes, how_read, source_notes


def plan_text(plan: ExportPlan) -> str:
    """Returns what an export will do, one fact a line."""
    patches, bounds, blocks = plan.patches, plan.bounds, plan.blocks
    rows: list[tuple[str, str]] = []
    transform = ", ".join(repr(number) for number in affine6(plan.grid))
    rows.append(("grid", f"{patches.width} × {patches.height} pixels, {_crs_name(plan)}"))
    rows.append(("transform", f"[{transform}]"))
    for source, aligned in zip(plan.sources, plan.aligned, strict=True):
        how = how_read(plan, source, aligned)
        files = source.files[0].path if len(source.files) == 1 else f"{len(source.files)} files"
        rows.append((f"source {source.name}", f"{without_secrets(files)}: {how}"))
    rows.extend(("note", text) for text in source_notes(plan))
    for feature in plan.features:
        rows.append((f"feature {feature.name}", f"{feature.kind} {_shape(feature.shape)}"))
    size = _times(patches.patch_width_height)
    margin = patches.margin_width_height
    stored = (
        f", stored {_times(patches.stored_width_height)} with a margin of {_times(margin)}"
        if any(margin)
        else ""
    )
    rows.append(
        (
            "patches",
            f"{patches.count} of {size} pixels: {patches.columns} per row, "
            f"{_count(patches.rows, 'row')}{stored}",
        )
    )
    rows.append(("edge", _edge(plan)))
    if plan.options.masked_threshold < 1:
        rows.append(
            ("masked", f"patches with more than {plan.options.masked_threshold:g} masked are dropped")
        )
    rows.extend(choice_rows(plan))
    rows.append(("records", f"{_range(bounds.records)} of {_range(plan.record_size)} bytes"))
    rows.append(
        (
            "shards",
            f"{_range(bounds.shards)}, {_range(bounds.total_bytes, size_text)} uncompressed" + _limit(plan),
        )
    )
    gzip = f"gzip, {plan.gzip}" if plan.options.compressed else "not compressed"
    rows.append(
        (
            "files",
            f"{_first_shard(plan)} … ({gzip})",
        )
    )
    rows.append(
        (
            "mixer",
            "none: patches may be left out; the manifest places every record"
            if plan.may_drop
            else mixer_name(plan.output, bounds.shards[1], naming=plan.naming),
        )
    )
    rows.append(("manifest", manifest_name(plan.output)))
    rows.append(("read blocks", f"{blocks.count} of {_times(blocks.columns_rows)} patches"))
    rows.append(("memory", f"about {size_text(plan.memory_bytes)} a worker, above the libraries' own"))
    free = storage.free_bytes(storage.split(plan.output)[0])
    have = "" if free is None else f"; {size_text(free)} free"
    if free is not None and free < plan.space_bytes[1]:
        have = f"; WARNING: only {size_text(free)} free"
    rows.append(("space", f"{_range(plan.space_bytes, size_text)} while it runs{have}"))
    return _table(rows)


def summary_text(plan: ExportPlan, manifest: Manifest) -> str:
    """Returns what an export has done."""
    done = manifest.patches
    rows = [
        (
            "written",
            f"{done.written} of {done.planned} patches, {sum(s.records for s in manifest.shards)} records",
        ),
        (
            "shards",
            f"{len(manifest.shards)}, {size_text(sum(s.stored_bytes for s in manifest.shards))} stored, "
            f"{size_text(sum(s.uncompressed_bytes for s in manifest.shards))} uncompressed",
        ),
    ]
    if done.dropped:
        plural = "" if done.dropped == 1 else "es"
        rows.append(("dropped", f"{done.dropped} patch{plural}: {why_dropped(plan, done.dropped)}"))
        if not done.written:
            rows.append(
                (
                    "note",
                    "every patch was dropped, so there is no shard; raise maskedThreshold or check nodata"
                    if plan.keep is None
                    else "every patch was dropped, so there is no shard; lower keep.minimum or check classes",
                )
            )
    rows.append(("edge", _edge(plan)))
    for band in manifest.bands:
        if band.rounded_values:
            rows.append(
                (
                    f"band {band.name}",
                    f"{band.rounded_values} numbers were rounded to float32; numbers: native keeps them",
                )
            )
    rows.extend(("note", text) for text in empty_notes(plan, manifest))
    rows.append(("manifest", manifest_name(plan.output)))
    return _table(rows)


def _edge(plan: ExportPlan) -> str:
    patches = plan.patches
    columns, rows = patches.lost_columns_rows
    if plan.edge == "pad":
        over_x = patches.padded_width_height[0] - patches.width
        over_y = patches.padded_width_height[1] - patches.height
        return f"pad: {_count(over_x, 'column')} and {_count(over_y, 'row')} beyond the grid are masked"
    if not patches.lost_pixels:
        return "drop: patches fill the grid, no pixel is lost"
    share = patches.lost_pixels / (patches.width * patches.height)
    verb = "is" if patches.lost_pixels == 1 else "are"
    return (
        f"drop: {_count(columns, 'column')} at the right and {_count(rows, 'row')} at the bottom fill no "
        f"patch; {_count(patches.lost_pixels, 'pixel')} ({share:.1%}) {verb} lost (edge: pad keeps them)"
    )


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _first_shard(plan: ExportPlan) -> str:
    count = max(1, plan.bounds.shards[1])
    return shard_name(
        plan.output,
        0,
        count,
        naming=plan.naming,
        compressed=plan.options.compressed,
        split=None if plan.split is None else plan.split.names[0],
    )


def _limit(plan: ExportPlan) -> str:
    limit = f" (at most {size_text(plan.options.max_file_size_bytes)} each"
    return limit + (f", {plan.records_per_shard} records)" if plan.records_per_shard else ")")


def _crs_name(plan: ExportPlan) -> str:
    text = crs_text(plan.grid.crs.proj)
    return text if len(text) < 40 else describe(plan.grid.crs)


def _times(pair: tuple[int, int]) -> str:
    return f"{pair[0]} × {pair[1]}"


def _shape(shape: Iterable[int]) -> str:
    return "[" + ", ".join("own length" if n < 0 else str(n) for n in shape) + "]"


def _range(pair: tuple[int, int], text: object = str) -> str:
    assert callable(text)
    low, high = text(pair[0]), text(pair[1])
    return low if low == high else f"{low} to {high}"


def _table(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in rows)
