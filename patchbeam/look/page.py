"""One page of HTML that shows an export and needs no network: the picture and all facts are in it."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np

from patchbeam import storage
from patchbeam.affines import affine6
from patchbeam.elements import Ints
from patchbeam.look.overview import Tiling
from patchbeam.look.png import Rgb, png
from patchbeam.look.view import MISSING, ExportView
from patchbeam.manifest import to_ranges


def page(view: ExportView, picture: Rgb, legend: Rgb, tiling: Tiling, *, title: str, facts: str) -> str:
    """Returns the page.

    Args:
        view: the export.
        picture: all patches, without gaps.
        legend: of the picture.
        tiling: how patches lie in the picture.
        title: of the page.
        facts: a line below it.
    """
    template = files("patchbeam.look").joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "@TITLE@": html.escape(title),
        "@FACTS@": html.escape(facts),
        "@LEGEND@": _address(legend),
        "@PICTURE@": _address(picture),
        # a name with </script> in it must not end the script
        "@DATA@": json.dumps(_data(view, picture, tiling), separators=(",", ":")).replace("<", "\\u003c"),
    }
    for mark, text in parts.items():
        template = template.replace(mark, text)
    return template


def _address(picture: Rgb) -> str:
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode('ascii')}"


def _data(view: ExportView, picture: Rgb, tiling: Tiling) -> dict[str, Any]:
    patches = view.patches
    return {
        "columns": patches.columns,
        "rows": patches.rows,
        "patch": list(patches.patch_width_height),
        # pixels of the picture that a patch takes; where only some are shown, a part of one
        "cell": [side / tiling.every for side in tiling.tile],
        "affine": list(affine6(view.grid)),
        "crs": view.crs_code or "",
        "recordsPerPatch": view.values.records_per_patch,
        "records": list(_record_runs(view)),
        "missing": to_ranges(np.flatnonzero(view.first_record == MISSING)).tolist(),
        "shards": [
            [int(start), storage.split(file.name)[1]]
            for start, file in zip(view.records.starts[:-1], view.records.files, strict=True)
            if file.records
        ],
        "splits": sorted(_split_runs(view)),
    }


def _record_runs(view: ExportView) -> Iterator[list[int]]:
    """Yields first patch, its record and the number of patches of runs whose records follow each other."""
    present: Ints = view.present
    if not len(present):
        return
    records = view.first_record[present]
    each = view.values.records_per_patch
    breaks = np.flatnonzero((np.diff(present) != 1) | (np.diff(records) != each)) + 1
    starts = np.concatenate([[0], breaks])
    counts = np.diff(np.append(starts, len(present)))
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        yield [int(present[start]), int(records[start]), count]


def _split_runs(view: ExportView) -> Iterator[list[Any]]:
    for number, name in enumerate(view.splits):
        for first, count in to_ranges(np.flatnonzero(view.split_of == number)).tolist():
            yield [first, count, name]
