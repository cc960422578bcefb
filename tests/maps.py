"""Small helpers of the import's tests: record files of patches, and maps read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.mixer import Mixer
from patchbeam.mosaic.counts import open_schema
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.make import TileMaker
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.plan import ImportPlan, read_members
from patchbeam.mosaic.publish import publish_map
from patchbeam.patches import PatchGrid
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.files import RecordFiles
from patchbeam.records.tfrecord import write_records

Array = NDArray[Any]
KINDS = {"float32": "float", "int64": "int64", "uint8": "bytes"}


def mixer(
    columns: int, rows: int, patch: tuple[int, int] = (32, 16), crs: str = "EPSG:32633", scale: float = 10.0
) -> Mixer:
    return Mixer(
        crs=crs,
        affine=(scale, 0.0, 500000.0, 0.0, -scale, 5000000.0),
        patch_width_height=patch,
        patches_per_row=columns,
        total_patches=columns * rows,
    )


def example(values: dict[str, Array]) -> bytes:
    """The data of an Example, without framing."""
    features = [Feature(name, KINDS[str(v.dtype)], v.size) for name, v in values.items()]
    return bytes(ExampleLayout(features).encode(list(values.values()))[12:-4])


def cut(image: Array, patches: PatchGrid, index: int, *, margin: bool) -> Array:
    """A patch of an image ``(…, row, col)``; where a margin lies outside the edge is repeated."""
    x, y = patches.margin_width_height
    padded = np.pad(image, [(0, 0)] * (image.ndim - 2) + [(y, y), (x, x)], "edge")
    w = patches.window(index).buffered(x, y) if margin else patches.window(index)
    top, left = w.row_off + y, w.col_off + x
    return padded[..., top : top + w.height, left : left + w.width]


def write_patches(
    folder: Path,
    count: int,
    make: Callable[[int], dict[str, Array]],
    *,
    files: int = 1,
    gzip: str | None = None,
    stem: str = "pred",
) -> list[str]:
    datas = [example(make(i)) for i in range(count)]
    names = []
    for number, part in enumerate(np.array_split(np.arange(count), files)):
        name = folder / f"{stem}-{number:05d}.tfrecord{'.gz' if gzip else ''}"
        write_records(name, [datas[i] for i in part], gzip)
        names.append(str(name))
    return names


def import_map(
    layout: MapLayout, records: Sequence[str], output: str, options: ImportOptions, *, threads: int = 2
) -> str:
    """Imports without Beam; returns the name of the completion file."""
    plan = ImportPlan(layout=layout, records=tuple(records), options=options, output=output)
    return run_plan(plan, threads=threads)


def run_plan(plan: ImportPlan, *, threads: int = 2) -> str:
    """Runs an import without Beam; tiles are made in the wrong order, as runners do."""
    known = [read_members(one) for one in plan.members] or None
    with RecordFiles.open(plan.records, spool_folder=plan.temporary_folder, members=known) as files:
        schema = open_schema(files, plan.layout, plan.options)
        maker = TileMaker(plan, files, schema, threads=threads)
        done = [maker.make(tile) for tile in reversed(range(plan.tiles.count))]
        maker.close()
        return publish_map(plan, schema, done, overwrite=False)


def import_plan(job: Mapping[str, Any], folder: Path) -> ImportPlan:
    """The plan of a job given as a mapping; relative paths start at the folder."""
    from pipelines.jobfile.import_models import ImportImageJob
    from pipelines.resolve_import import resolve_import

    return resolve_import(ImportImageJob.model_validate({"job": "import-image", **job}), str(folder))
