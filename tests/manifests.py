"""Manifests with everything, with little, and with splits."""

from __future__ import annotations

import math
from typing import Any

from affine import Affine
from odc.geo.geobox import GeoBox

from patchbeam.manifest import (
    BandStatistics,
    Manifest,
    ManifestBand,
    ManifestClass,
    ManifestFile,
    ManifestGrid,
    ManifestPatches,
    ManifestShard,
    ManifestSource,
    ManifestSplit,
    ManifestSplits,
)
from patchbeam.options import FormatOptions

GRID = GeoBox((600, 1024), Affine(10.0, 0, 500000, 0, -10, 4600000), "EPSG:32633")


def shard(number: int, records: int, first: int, split: str | None = None) -> ManifestShard:
    return ManifestShard(
        name=f"scene-{number:05d}.tfrecord.gz",
        split=split,
        records=records,
        first_record=first,
        uncompressed_bytes=records * 100,
        stored_bytes=records * 50,
        crc32c="4waSgw==",
    )


def full() -> Manifest:
    """A manifest in which everything is used, but for splits."""
    return Manifest(
        grid=ManifestGrid.from_geobox(GRID),
        format_options=FormatOptions(
            kernel_width_height=(64, 64), tensor_depths={"ndvi": 12}, default_value=-1.5
        ),
        edge="drop",
        numbers="float",
        gzip="indexed",
        naming="drive",
        mask_band="valid",
        clip=True,
        bands=(
            ManifestBand(
                name="B4",
                type="uint16",
                wire_type="float",
                shape=(320, 320),
                nodata=0,
                description="Rot – sichtbar",
                source="s2",
                source_band=4,
                resampling="nearest",
                statistics=BandStatistics(
                    valid_count=9, min=0, max=65535, mean=12.5, standard_deviation=1e-300
                ),
                masked=3,
                rounded_values=0,
            ),
            ManifestBand(
                name="ndvi",
                type="float32",
                wire_type="float",
                shape=(12, 320, 320),
                source_bands=(3, 1, 2),
                times=("2021-05-01T00:00:00Z", "2021-06-01T00:00:00Z"),
                nodata=math.nan,
                statistics=BandStatistics(
                    valid_count=2, min=-math.inf, max=math.inf, mean=math.nan, standard_deviation=math.nan
                ),
            ),
            ManifestBand(
                name="landcover",
                type="uint8",
                wire_type="float",
                shape=(320, 320),
                classes=(ManifestClass(value=1, name="water", colour="#0000ff"), ManifestClass(value=2)),
                statistics=BandStatistics(valid_count=0),
            ),
            ManifestBand(name="valid", type="uint8", wire_type="float", shape=(320, 320)),
        ),
        patches=ManifestPatches(planned=8, written=6, dropped=2),
        kept_patches=((0, 2), (3, 3), (7, 1)),
        shards=(shard(0, 4, 0), shard(1, 2, 4)),
        index="scene-index.npz",
        sources=(
            ManifestSource(
                name="s2",
                compose="median",
                nodata=math.nan,
                unscale=False,
                masked_observations="fill",
                files=(
                    ManifestFile(path="s2/a.tif", size_bytes=10, modified="2023-11-14T22:13:20.123456789Z"),
                ),
            ),
            ManifestSource(name="url", files=(ManifestFile(path="https://host/x.tif"),)),
        ),
        software={"patchbeam": "0.1.0", "numpy": "2.4.6"},
    )


def small(**changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "format_options": FormatOptions(),
        "edge": "pad",
        "numbers": "native",
        "gzip": "zlib6",
        "naming": "gcs",
        "bands": (ManifestBand(name="B1", type="uint8", wire_type="bytes", shape=(256, 256)),),
        "patches": ManifestPatches(planned=2, written=2, dropped=0),
        "shards": (shard(0, 2, 0),),
    }
    return Manifest(**{**values, **changes})


def with_splits() -> Manifest:
    parts = (
        ManifestSplit(name="train", fraction=0.75, kept_patches=((0, 3), (8, 1))),
        ManifestSplit(name="test", fraction=0.25, kept_patches=((4, 1),)),
    )
    return small(
        patches=ManifestPatches(planned=9, written=5, dropped=4),
        splits=ManifestSplits(block=(8, 8), seed=-1, guard=1, parts=parts),
        shards=(shard(0, 3, 0, "train"), shard(1, 1, 3, "train"), shard(2, 1, 0, "test")),
    )
