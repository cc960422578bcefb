"""Small sets to train on, written as an export writes them, without Beam and without rasters."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from crc32c import crc32c as crc_of

from patchbeam.data import Database
from patchbeam.manifest import (
    BandStatistics,
    Manifest,
    ManifestBand,
    ManifestGrid,
    ManifestPatches,
    ManifestShard,
    to_ranges,
)
from patchbeam.mixer import Mixer
from patchbeam.options import FormatOptions
from patchbeam.records.layout import ExampleLayout, Feature
from patchbeam.records.names import manifest_name, mixer_name, shard_name
from patchbeam.records.tfrecord import frame, write_records

WKT = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.0174532925199433]]'
)
AFFINE = (0.001, 0.0, 10.0, 0.0, -0.001, 50.0)


class Numbers(Database):
    """Items whose values tell their number; counts what is loaded."""

    def __init__(self, count: int, shape: tuple[int, ...] = (2, 3, 3)) -> None:
        self.count = count
        self.shape = shape
        self.loaded: list[int] = []
        self.bad: dict[int, Any] = {}

    @property
    def modalities(self) -> tuple[str, ...]:
        return ("image", "label")

    def __len__(self) -> int:
        return self.count

    def load(self, index: int) -> tuple[Any, ...]:
        self.loaded.append(index)
        if index in self.bad:
            found = self.bad[index]
            if isinstance(found, Exception):
                raise found
            return tuple(found)
        return np.full(self.shape, index, np.float32), np.int32(index)


@dataclass(frozen=True, kw_only=True)
class Written:
    """An export and the pixels that it holds: float32 ``(patch, channel, row, col)``, margin included."""

    prefix: str
    pixels: np.ndarray
    files: tuple[Path, ...]
    manifest: Manifest


def flat(lists: Iterable[Iterable[int]]) -> list[int]:
    return [number for numbers in lists for number in numbers]


def pixels_of(count: int, channels: int, height: int, width: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4000, (count, channels, height, width)).astype(np.float32)


def write_export(
    folder: Path,
    *,
    name: str = "scene",
    columns_rows: tuple[int, int] = (4, 3),
    patch: tuple[int, int] = (8, 8),
    kernel: tuple[int, int] = (1, 1),
    bands: Sequence[str] = ("B1", "B2", "B3"),
    kinds: Sequence[str] | None = None,
    depths: Sequence[int] | None = None,
    collapse: bool = False,
    gzip: str | None = None,
    per_shard: int = 5,
    dropped: Sequence[int] = (),
    sidecar: str = "manifest",
    seed: int = 0,
    reverse_wire: bool = False,
    change: Callable[[np.ndarray], None] | None = None,
) -> Written:
    """Writes shards, and beside them a manifest, a mixer or nothing."""
    width, height = (p + 2 * (k // 2) for p, k in zip(patch, kernel, strict=True))
    kinds = kinds or ["float"] * len(bands)
    depths = depths or [1] * len(bands)
    total = columns_rows[0] * columns_rows[1]
    kept = [i for i in range(total) if i not in set(dropped)]
    pixels = pixels_of(len(kept), sum(depths), height, width, seed)
    starts = np.cumsum([0, *depths]).tolist()
    for at, kind in enumerate(kinds):
        if kind == "bytes":
            pixels[:, starts[at] : starts[at + 1]] %= 256
    if change is not None:
        change(pixels)
    if collapse:
        features = [Feature(bands[0], kinds[0], pixels[0].size)]
    else:
        features = [
            Feature(band, kind, depth * width * height)
            for band, kind, depth in zip(bands, kinds, depths, strict=True)
        ]
    order = list(range(len(features)))[:: -1 if reverse_wire else 1]
    layout = ExampleLayout([features[i] for i in order])
    dtypes = {"float": "<f4", "int64": "<i8", "bytes": "u1"}

    def data(item: np.ndarray) -> bytes:
        parts = [item] if collapse else [item[a:b] for a, b in pairwise(starts)]
        values = [parts[i].astype(dtypes[features[i].kind]).reshape(-1) for i in order]
        return bytes(layout.encode(values))[12:-4]

    datas = [data(item) for item in pixels]
    count = -(-len(datas) // per_shard)
    prefix = str(folder / name)
    folder.mkdir(parents=True, exist_ok=True)
    files, shards = [], []
    for number in range(count):
        part = datas[number * per_shard : (number + 1) * per_shard]
        file = Path(shard_name(prefix, number, count, compressed=gzip is not None))
        write_records(file, part, gzip)
        stored = file.read_bytes()
        crc = base64.b64encode(crc_of(stored).to_bytes(4, "big")).decode()
        shards.append(
            ManifestShard(
                name=file.name,
                records=len(part),
                first_record=number * per_shard,
                uncompressed_bytes=sum(len(frame(d)) for d in part),
                stored_bytes=len(stored),
                crc32c=crc,
            )
        )
        files.append(file)
    options = FormatOptions(
        patch_width_height=patch,
        kernel_width_height=kernel,
        compressed=gzip is not None,
        collapse_bands=collapse,
        masked_threshold=0.5 if dropped else 1.0,
        tensor_depths={b: d for b, d in zip(bands, depths, strict=True) if d > 1} or None,
    )
    manifest = Manifest(
        grid=ManifestGrid(
            crs_code="EPSG:4326",
            crs_wkt=WKT,
            transform=AFFINE,
            width=columns_rows[0] * patch[0],
            height=columns_rows[1] * patch[1],
        ),
        format_options=options,
        edge="drop",
        numbers="float" if set(kinds) == {"float"} else "native",
        gzip=gzip,
        naming="drive",
        bands=tuple(
            ManifestBand(
                name=band,
                type="uint8" if kinds[at] == "bytes" else "uint16",
                wire_type=kinds[0] if collapse else kinds[at],
                shape=(height, width) if depths[at] == 1 else (depths[at], height, width),
                statistics=BandStatistics(
                    valid_count=pixels[:, starts[at] : starts[at + 1]].size,
                    min=0.0,
                    max=4000.0,
                    mean=float(pixels[:, starts[at] : starts[at + 1]].mean(dtype=float)),
                    standard_deviation=float(pixels[:, starts[at] : starts[at + 1]].std(dtype=float)),
                ),
            )
            for at, band in enumerate(bands)
        ),
        patches=ManifestPatches(planned=total, written=len(kept), dropped=len(dropped)),
        kept_patches=tuple((int(a), int(b)) for a, b in to_ranges(np.array(kept))) if dropped else None,
        shards=tuple(shards),
    )
    if sidecar == "manifest":
        Path(manifest_name(prefix)).write_text(manifest.to_text())
    elif sidecar == "mixer":
        mixer = Mixer(
            crs="EPSG:4326",
            affine=AFFINE,
            patch_width_height=patch,
            patches_per_row=columns_rows[0],
            total_patches=total,
        )
        Path(mixer_name(prefix, count)).write_text(mixer.to_text())
    return Written(prefix=prefix, pixels=pixels, files=tuple(files), manifest=manifest)
