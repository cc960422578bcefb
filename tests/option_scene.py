"""A small scene with every kind of band, and what an export of it must hold, worked out pixel by pixel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from eager import write_tif

WIDTH, HEIGHT = 11, 9
ORDER = {"bytes": 0, "int64": 1, "float": 2}
WIRE = {"bytes": np.uint8, "int64": np.int64, "float": np.float32}

Pixel = list[Any]
"""The observations of a band at a pixel, masked ones ``None``; a scalar band has one."""


def write_scene(folder: Path) -> None:
    """Scalar bands of three types, a series of three dates, a file of four bands; all with masked pixels."""
    random = np.random.default_rng(11)
    shape = (HEIGHT, WIDTH)

    def holes(values: np.ndarray, nodata: float, share: float = 0.06) -> np.ndarray:
        values[..., random.random(shape) < share] = nodata
        values[..., :4, 7:] = nodata  # one patch is all masked
        return values

    write_tif(folder / "a.tif", holes(random.integers(1, 256, shape).astype("u1"), 0), nodata=0)
    write_tif(folder / "b.tif", holes(random.integers(-32768, 32768, shape).astype("i2"), -1), nodata=-1)
    noise = random.normal(size=shape).astype("f4")
    noise[6, 2] = -np.inf
    write_tif(folder / "c.tif", holes(noise, np.nan), nodata=np.nan)
    for day in (3, 1, 2):
        values = holes(random.integers(1, 60_000, shape).astype("u2"), 0, 0.3)
        write_tif(folder / f"s_2024010{day}.tif", values, nodata=0)
    write_tif(folder / "k.tif", holes(random.integers(-5, 300, (4, *shape)).astype("i4"), 9), nodata=9)


JOB: dict[str, Any] = {
    "sources": {
        "a": "a.tif",
        "b": "b.tif",
        "c": "c.tif",
        "s": {"path": "s_*.tif", "series": True, "time": "s_%Y%m%d"},
        "k": "k.tif",
    },
    "bands": [
        {"name": "a", "source": "a"},
        {"name": "b", "source": "b"},
        {"name": "s", "source": "s"},
        {"name": "c", "source": "c"},
        {"name": "k", "source": "k", "band": [3, 1]},
    ],
    "formatOptions": {"patchDimensions": [4, 3], "tensorDepths": {"s": 3, "k": 2}},
}

OPTIONS: dict[str, dict[str, Any]] = {
    "patchDimensions": {"formatOptions": {"patchDimensions": [5, 2]}},
    "kernelSize": {"formatOptions": {"kernelSize": [3, 5]}},
    "compressed": {"formatOptions": {"compressed": False}},
    "maxFileSize": {"formatOptions": {"maxFileSize": "some"}},
    "defaultValue": {"formatOptions": {"defaultValue": -3.7}},
    "tensorDepths": {"formatOptions": {"tensorDepths": {"s": 2, "k": 4}}},
    "sequenceData": {"formatOptions": {"sequenceData": True}},
    "own lengths": {"formatOptions": {"sequenceData": True, "tensorDepths": None}},
    "collapseBands": {"formatOptions": {"collapseBands": True}},
    "maskedThreshold": {"formatOptions": {"maskedThreshold": 0.45}},
    "numbers": {"numbers": "native"},
    "maskBand": {"maskBand": "ok"},
    "edge": {"edge": "pad"},
    "gzip": {"gzip": "zlib6"},
    "naming": {"naming": "gcs"},
    "maskedObservations": {"sources": {"s": {**JOB["sources"]["s"], "maskedObservations": "fill"}}},
    "clip": {"grid": {"clip": True}},
}
"""Each option by a value that is not its default."""

TRIANGLE = [(500_000 + x * 10, 5_300_000 - y * 10) for x, y in ((0, 0), (11, 0), (0, 9))]


def job_of(*names: str) -> dict[str, Any]:
    """The job with these options, later ones over earlier ones."""
    job: dict[str, Any] = {**JOB, "output": "out/x"}
    for name in names:
        for key, value in OPTIONS[name].items():
            job[key] = {**job.get(key, {}), **value} if isinstance(value, dict) else value
    if "grid" in job:
        ring = [*TRIANGLE, TRIANGLE[0]]
        region = {"type": "Polygon", "coordinates": [[list(point) for point in ring]]}
        job["grid"] = {**job["grid"], "region": region, "regionCrs": "EPSG:32633"}
    return job


@dataclass
class Reference:
    """What an export must hold, by plain loops.

    Attributes:
        folder: where the scene is.
        job: the job.
    """

    folder: Path
    job: Mapping[str, Any]
    _files: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        defaults = {"kernelSize": [1, 1], "defaultValue": 0, "maskedThreshold": 1}
        return {**defaults, **self.job["formatOptions"]}

    def observation(self, file: str, band: int, row: int, col: int) -> Any:
        """One number, or ``None`` where it is masked or there is no pixel."""
        if file not in self._files:
            with rasterio.open(self.folder / file) as opened:
                self._files[file] = opened.read(), opened.nodata
        values, nodata = self._files[file]
        if not (0 <= row < HEIGHT and 0 <= col < WIDTH):
            return None
        if "grid" in self.job and (col + 0.5) / WIDTH + (row + 0.5) / HEIGHT >= 1:
            return None  # beyond the slanted side of the clip region
        value = values[band - 1, row, col].item()
        if value == nodata or (math.isnan(nodata) and math.isnan(value)):
            return None
        return value

    def pixel(self, band: str, row: int, col: int) -> Pixel:
        files = {
            "s": [("s_20240101.tif", 1), ("s_20240102.tif", 1), ("s_20240103.tif", 1)],
            "k": [("k.tif", 3), ("k.tif", 1)],
        }.get(band, [(f"{band}.tif", 1)])
        return [self.observation(file, number, row, col) for file, number in files]

    def default(self, band: str) -> Any:
        value = self.options["defaultValue"]
        limits = {"a": (0, 255), "b": (-32768, 32767), "s": (0, 65535), "k": (-(2**31), 2**31 - 1)}
        if band not in limits:
            return value
        low, high = limits[band]
        return min(max(math.trunc(value), low), high)

    def stored(self, band: str, pixel: Pixel) -> Any:
        """A number for a scalar band, a list for an array band."""
        default = self.default(band)
        if band not in ("s", "k"):
            return default if pixel[0] is None else pixel[0]
        fill = self.job["sources"][band] if band == "s" else {}
        if fill.get("maskedObservations") == "fill":
            values = [default if value is None else value for value in pixel]
        else:
            values = [value for value in pixel if value is not None]
        depth = (self.options.get("tensorDepths") or {}).get(band)
        if depth is not None:
            values = (values + [default] * depth)[:depth]
        elif not self.options.get("sequenceData"):
            raise AssertionError("an Example needs depths")
        return values

    @property
    def bands(self) -> list[str]:
        return ["a", "b", "s", "c", "k"] + ([self.job["maskBand"]] if "maskBand" in self.job else [])

    def kind(self, band: str) -> str:
        if self.job.get("numbers") != "native":
            return "float"
        return {"a": "bytes", "c": "float", "ok": "bytes"}.get(band, "int64")

    def kinds(self) -> dict[str, str]:
        kinds = {band: self.kind(band) for band in self.bands}
        if self.options.get("collapseBands"):
            furthest = max(kinds.values(), key=ORDER.__getitem__)
            return dict.fromkeys(kinds, furthest)
        return kinds

    @cached_property
    def patches(self) -> list[tuple[int, dict[tuple[int, int], dict[str, Any]]]]:
        """Of each kept patch its index, and the stored numbers of each pixel by place in the patch."""
        width, height = self.options["patchDimensions"]
        x, y = (k // 2 for k in self.options["kernelSize"])
        pad = self.job.get("edge") == "pad"
        columns = math.ceil(WIDTH / width) if pad else WIDTH // width
        rows = math.ceil(HEIGHT / height) if pad else HEIGHT // height
        kept = []
        for index in range(rows * columns):
            top, left = index // columns * height, index % columns * width
            masked = 0
            pixels = {}
            for row in range(-y, height + y):
                for col in range(-x, width + x):
                    proper = 0 <= row < height and 0 <= col < width
                    inside = top + row < HEIGHT and left + col < WIDTH
                    found = {
                        band: self.pixel(band, top + row, left + col)
                        if inside or not proper
                        else [None] * {"s": 3, "k": 2}.get(band, 1)
                        for band in ["a", "b", "s", "c", "k"]
                    }
                    empty = any(all(value is None for value in pixel) for pixel in found.values())
                    masked += proper and empty
                    numbers = {band: self.stored(band, pixel) for band, pixel in found.items()}
                    if "maskBand" in self.job:
                        numbers[self.job["maskBand"]] = 0 if empty else 1
                    pixels[row + y, col + x] = numbers
            if masked <= self.options["maskedThreshold"] * width * height:
                kept.append((index, pixels))
        return kept

    def records(self) -> list[dict[str, np.ndarray]]:
        """What each record must hold, in order: feature name to numbers of the right type and shape."""
        make: Callable[..., Any] = self._sequences if self.options.get("sequenceData") else self._example
        records: list[dict[str, np.ndarray]] = []
        for _, pixels in self.patches:
            records.extend(make(pixels))
        return records

    def _example(self, pixels: dict[tuple[int, int], dict[str, Any]]) -> list[dict[str, np.ndarray]]:
        height, width = (1 + max(place[axis] for place in pixels) for axis in (0, 1))
        kinds = self.kinds()
        features = {}
        for band in self.bands:
            grid = [[pixels[row, col][band] for col in range(width)] for row in range(height)]
            values = np.array(grid, WIRE[kinds[band]])
            features[band] = values if values.ndim == 2 else values.transpose(2, 0, 1)
        if self.options.get("collapseBands"):
            channels = [v if v.ndim == 3 else v[None] for v in features.values()]
            return [{self.bands[0]: np.concatenate(channels)}]
        return [features]

    def _sequences(self, pixels: dict[tuple[int, int], dict[str, Any]]) -> list[dict[str, np.ndarray]]:
        kinds = self.kinds()
        records = []
        for place in sorted(pixels):
            numbers = pixels[place]
            if self.options.get("collapseBands"):
                steps = max([1, *(len(n) for n in numbers.values() if isinstance(n, list))])
                rows = [
                    [
                        n if not isinstance(n, list) else (n[step] if step < len(n) else self.default(band))
                        for band, n in numbers.items()
                    ]
                    for step in range(steps)
                ]
                records.append({self.bands[0]: np.array(rows, WIRE[kinds[self.bands[0]]])})
            else:
                records.append({band: np.array(n, WIRE[kinds[band]]) for band, n in numbers.items()})
        return records
