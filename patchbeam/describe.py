"""What an export writes into its manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Literal

from patchbeam.assemble import AssembledShard
from patchbeam.elements import Ints
from patchbeam.keep import KeepRule
from patchbeam.manifest import (
    BandStatistics,
    Manifest,
    ManifestBand,
    ManifestGrid,
    ManifestKeep,
    ManifestPatches,
    ManifestSample,
    ManifestShard,
    ManifestSplit,
    ManifestSplits,
    to_ranges,
)
from patchbeam.missing import MaskedWindow
from patchbeam.outputs import kept_of_split, shards_of_splits, split_names
from patchbeam.plan import ExportPlan
from patchbeam.rasters.classes import read_classes
from patchbeam.rasters.source import Source
from patchbeam.records.names import index_name
from patchbeam.selection import SampleRule
from patchbeam.software import software_versions
from patchbeam.source_entries import source_entry
from patchbeam.statistics import Moments
from patchbeam.storage import split
from patchbeam.summary import Summary
from patchbeam.tally import (
    PERCENTILES,
    RELATIVE_ERROR,
    bucket_percentiles,
    class_weights,
    exact_percentiles,
    unpack_counts,
)


def build_manifest(
    plan: ExportPlan,
    summary: Summary,
    shards: Sequence[AssembledShard],
    names: Sequence[str],
    missing: Mapping[str, tuple[MaskedWindow, ...]] = MappingProxyType({}),
) -> Manifest:
    """Returns the manifest of an export.

    Args:
        plan: the export.
        summary: what the pieces together say.
        shards: in order.
        names: of the shards, without the folder.
        missing: where files could not be read and were masked.
    """
    written = summary.kept_patches
    return Manifest(
        grid=ManifestGrid.from_geobox(plan.grid),
        format_options=plan.options,
        edge=plan.edge,
        numbers=plan.numbers,
        gzip=plan.gzip if plan.options.compressed else None,
        naming=plan.naming,
        mask_band=plan.mask_band,
        clip=None if plan.clip is None else True,
        bands=tuple(_band(plan, summary, position) for position in range(len(plan.record_bands))),
        patches=ManifestPatches(planned=summary.patches, written=written, dropped=summary.patches - written),
        kept_patches=None if plan.split is not None or _all_there(plan, summary) else _ranges(summary.kept),
        splits=None if plan.split is None else _splits(plan, summary),
        keep=None if plan.keep is None else ManifestKeep(**_words(plan.keep)),
        sample=None if plan.sample is None else ManifestSample(**_words(plan.sample)),
        shards=tuple(
            ManifestShard(
                name=name,
                split=None if number is None else split_names(plan)[number],
                records=shard.records,
                first_record=shard.first_record,
                uncompressed_bytes=shard.size_bytes,
                stored_bytes=shard.stored_bytes,
                crc32c=shard.crc32c,
            )
            for shard, name, number in zip(
                shards, names, shards_of_splits(plan, summary, shards), strict=True
            )
        ),
        index=split(index_name(plan.output))[1] if plan.piece_gzip else None,
        sources=tuple(
            replace(source_entry(source, missing), masked_observations=_masked_observations(plan, source))
            for source in plan.sources
        ),
        software=software_versions(),
    )


def _band(plan: ExportPlan, summary: Summary, position: int) -> ManifestBand:
    record = plan.record_bands[position]
    feature = next(f for f in plan.features if position in f.bands)
    width, height = plan.patches.stored_width_height
    shape: tuple[int | None, ...] = () if plan.options.sequence_data else (height, width)
    if record.array:
        shape = (record.depth, *shape)
    moments = summary.moments[position]
    band = ManifestBand(
        name=record.name,
        type=record.type,
        wire_type=feature.kind,
        shape=shape,
        statistics=_statistics(plan, record.type, moments),
        masked=None if record.array else summary.kept_patches * _pixels(plan) - moments.count,
        rounded_values=summary.rounded[position],
        split_statistics=None
        if plan.split is None
        else {
            name: _statistics(plan, record.type, own[position])
            for name, own in zip(plan.split.names, summary.split_moments, strict=True)
        },
    )
    if position == len(plan.bands):
        return band
    own = plan.bands[position]
    source = next(s for s in plan.sources if s.name == own.source)
    file = source.files[0]
    nodata = source.nodata if source.nodata is not None else file.nodata[own.index - 1]
    mapped = record.type in ("uint8", "uint16") and own.resampling in ("nearest", "mode")
    return replace(
        band,
        times=source.times if own.series else None,
        classes=read_classes(file.path, own.index, nodata)
        if mapped and not file.assumed and source.vector is None
        else None,
        nodata=nodata,
        description=file.descriptions[own.index - 1],
        source=own.source,
        source_band=own.index,
        source_bands=own.indexes,
        resampling=own.resampling,
    )


def _masked_observations(plan: ExportPlan, source: Source) -> Literal["drop", "fill"] | None:
    if not any(band.source == source.name and band.is_array for band in plan.bands):
        return None
    return "fill" if source.name in plan.fill else "drop"


def _statistics(plan: ExportPlan, type_name: str, moments: Moments) -> BandStatistics:
    statistics = BandStatistics.from_moments(moments)
    if not moments.count:
        return statistics
    integers = not type_name.startswith("float")
    if integers:
        statistics = replace(statistics, min=int(moments.minimum), max=int(moments.maximum))
    if moments.classes is not None:
        values, counts = unpack_counts(moments.classes)
        statistics = replace(
            statistics,
            class_histogram=tuple(zip(values.tolist(), counts.tolist(), strict=True)),
            class_weights=tuple(zip(values.tolist(), class_weights(counts), strict=True)),
        )
    return replace(statistics, **_percentiles(plan, type_name, moments))


def _percentiles(plan: ExportPlan, type_name: str, moments: Moments) -> dict[str, Any]:
    """Returns percentiles where they were asked for: exact ones from values, else those of buckets."""
    if plan.statistics != "full" or not moments.count:
        return {}
    if moments.buckets is None:
        assert moments.classes is not None
        found = exact_percentiles(unpack_counts(moments.classes))
        error = 0.0
    else:
        found = bucket_percentiles(
            unpack_counts(moments.buckets),
            moments.minimum,
            moments.maximum,
            integers=not type_name.startswith("float"),
        )
        error = RELATIVE_ERROR
    names = [str(percentage) for percentage in PERCENTILES]
    return {"percentiles": dict(zip(names, found, strict=True)), "percentile_error": error}


def _all_there(plan: ExportPlan, summary: Summary) -> bool:
    """Whether every patch has a record, and nothing but the threshold could have dropped one."""
    return summary.kept_patches == summary.patches and plan.keep is None and plan.sample is None


def _ranges(kept: Ints) -> tuple[tuple[int, int], ...]:
    return tuple((int(first), int(count)) for first, count in kept)


def _splits(plan: ExportPlan, summary: Summary) -> ManifestSplits:
    assert plan.split is not None
    guard = plan.split.guard_columns_rows(plan.patches)
    return ManifestSplits(
        block=plan.split.block_columns_rows,
        seed=plan.split.seed,
        guard=max(guard),
        guard_columns_rows=guard,
        parts=tuple(
            ManifestSplit(
                name=name,
                fraction=fraction,
                kept_patches=_ranges(to_ranges(kept_of_split(plan, summary, number))),
            )
            for number, (name, fraction) in enumerate(
                zip(plan.split.names, plan.split.fractions, strict=True)
            )
        ),
    )


def _words(rule: KeepRule | SampleRule) -> dict[str, Any]:
    return {field.name: getattr(rule, field.name) for field in fields(rule)}


def _pixels(plan: ExportPlan) -> int:
    width, height = plan.options.patch_width_height
    return width * height
