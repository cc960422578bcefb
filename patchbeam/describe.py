"""What an export writes into its manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from patchbeam.assemble import AssembledShard
from patchbeam.manifest import (
    BandStatistics,
    Manifest,
    ManifestBand,
    ManifestFile,
    ManifestGrid,
    ManifestPatches,
    ManifestShard,
    ManifestSource,
)
from patchbeam.plan import ExportPlan, software_versions
from patchbeam.rasters.classes import read_classes
from patchbeam.rasters.source import Source
from patchbeam.records.names import index_name
from patchbeam.statistics import Moments
from patchbeam.storage import split
from patchbeam.summary import Summary


def build_manifest(
    plan: ExportPlan, summary: Summary, shards: Sequence[AssembledShard], names: Sequence[str]
) -> Manifest:
    """Returns the manifest of an export.

    Args:
        plan: the export.
        summary: what the pieces together say.
        shards: in order.
        names: of the shards, without the folder.
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
        kept_patches=None
        if written == summary.patches
        else tuple((int(first), int(count)) for first, count in summary.kept),
        shards=tuple(
            ManifestShard(
                name=name,
                records=shard.records,
                first_record=shard.first_record,
                uncompressed_bytes=shard.size_bytes,
                stored_bytes=shard.stored_bytes,
                crc32c=shard.crc32c,
            )
            for shard, name in zip(shards, names, strict=True)
        ),
        index=split(index_name(plan.output))[1] if plan.piece_gzip else None,
        sources=tuple(
            ManifestSource(
                name=source.name,
                files=tuple(
                    ManifestFile(path=file.path, size_bytes=file.size_bytes, modified=file.modified)
                    for file in source.files
                ),
                compose=source.compose,
                nodata=source.nodata,
                unscale=source.unscale,
                masked_observations=_masked_observations(plan, source),
            )
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
        statistics=_statistics(record.type, moments),
        masked=None if record.array else summary.kept_patches * _pixels(plan) - moments.count,
        rounded_values=summary.rounded[position],
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
        classes=read_classes(file.path, own.index, nodata) if mapped else None,
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


def _statistics(type_name: str, moments: Moments) -> BandStatistics:
    statistics = BandStatistics.from_moments(moments)
    if moments.count and not type_name.startswith("float"):
        return replace(statistics, min=int(moments.minimum), max=int(moments.maximum))
    return statistics


def _pixels(plan: ExportPlan) -> int:
    width, height = plan.options.patch_width_height
    return width * height
