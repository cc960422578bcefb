"""How plans, patch grids, mixers and databases show themselves in a notebook: small HTML tables and SVG.

All of it stands alone: no scripts, no style sheets, nothing fetched; texts are escaped. Nothing is read to
show a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from patchbeam.sizes import size_text

if TYPE_CHECKING:
    from patchbeam.data.database import Database
    from patchbeam.mixer import Mixer
    from patchbeam.patches import PatchGrid
    from patchbeam.plan import ExportPlan
    from patchbeam.selection import Parts

_SIDE = 260.0  # pixels of the longer side of a picture
_CELLS = 48  # patches drawn a side; of larger grids only so many are told apart
_COLOURS = ("#8fb8de", "#f2b880", "#a3cf9a", "#d9a3cf", "#e6d77a", "#9ad1cf")
_NONE, _LOST, _EDGE, _TEXT, _MARGIN = "#d0d0d0", "#f3d3cd", "#38618c", "#666666", "#c0392b"
_STYLE = "text-align:left;vertical-align:top;padding:1px 12px 1px 0;border:none;background:none"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """What a picture of patches needs.

    Attributes:
        columns_rows: patches across and down.
        patch: width and height of one, in pixels.
        size: width and height of the grid, in pixels.
        margin: width and height of the margin, in pixels.
    """

    columns_rows: tuple[int, int]
    patch: tuple[int, int]
    size: tuple[int, int]
    margin: tuple[int, int] = (0, 0)


def patch_grid_svg(patches: PatchGrid) -> str:
    """Returns a picture of a patch grid: its patches, and the pixels beyond the grid or beyond them."""
    return _svg(_layout(patches), _said(patches))


def mixer_html(mixer: Mixer) -> str:
    """Returns a mixer as a table and a picture."""
    width, height = mixer.patch_width_height
    size = mixer.patches_per_row * width, mixer.rows * height
    a, b, c, d, e, f = mixer.affine
    corners = [(a * x + b * y + c, d * x + e * y + f) for x in (0, size[0]) for y in (0, size[1])]
    (xmin, xmax), (ymin, ymax) = ((min(v), max(v)) for v in zip(*corners, strict=True))
    rows = [
        ("CRS", _short(mixer.crs)),
        ("affine", ", ".join(f"{value:.10g}" for value in mixer.affine)),
        ("bounds", f"{xmin:.10g}, {ymin:.10g} to {xmax:.10g}, {ymax:.10g}"),
        (
            "patches",
            f"{mixer.total_patches} of {width} × {height} pixels, {mixer.patches_per_row} × {mixer.rows}",
        ),
    ]
    layout = _Layout(columns_rows=(mixer.patches_per_row, mixer.rows), patch=(width, height), size=size)
    return _html("Mixer", rows, _svg(layout, ""))


def plan_html(plan: ExportPlan) -> str:
    """Returns a plan as a table and a picture, splits in colours."""
    from patchbeam.mixer import crs_text

    patches, bounds = plan.patches, plan.bounds
    a, _, _, _, e, _ = tuple(plan.grid.affine)[:6]
    bands = [f"{band.name} {band.type}" for band in plan.record_bands]
    splits = () if plan.split is None else plan.split.names
    rows = [
        ("output", plan.output),
        ("grid", f"{patches.width} × {patches.height} pixels of {abs(a):.6g} × {abs(e):.6g}"),
        ("CRS", _short(crs_text(plan.crs))),
        ("bands", _listed(bands, 12)),
        ("patches", _said(patches)),
        *(("split", f"{n}: {count} patches") for n, count in zip(splits, plan.part_counts, strict=False)),
        ("records", f"{_range(bounds.records)} of {_range(plan.record_size)} bytes"),
        ("shards", f"{_range(bounds.shards)}, {_sizes(bounds.total_bytes)} uncompressed"),
        ("read blocks", str(plan.blocks.count)),
        ("memory", f"about {size_text(plan.memory_bytes)} a worker"),
    ]
    return _html("Image export", rows, _svg(_layout(patches), "", plan.blocks.parts, splits))


def database_html(database: Database) -> str:
    """Returns a database as a table of its modalities; loads no item."""
    specs = database.specs
    rows = []
    for name in database.modalities:
        spec = specs.get(name)
        shape = None if spec is None else spec.shape
        text = (
            "?" if shape is None else " × ".join("?" if n is None else str(n) for n in shape) or "one value"
        )
        layout = "" if spec is None or spec.layout is None else f" ({spec.layout})"
        rows.append((name, f"{'?' if spec is None or spec.dtype is None else spec.dtype}, {text}{layout}"))
    count = len(database)
    return _html(f"{type(database).__name__}: {count} item{'s' * (count != 1)}", rows)


def _layout(patches: PatchGrid) -> _Layout:
    return _Layout(
        columns_rows=(patches.columns, patches.rows),
        patch=patches.patch_width_height,
        size=(patches.width, patches.height),
        margin=patches.margin_width_height,
    )


def _said(patches: PatchGrid) -> str:
    width, height = patches.patch_width_height
    across, down = patches.margin_width_height
    columns, rows = patches.lost_columns_rows
    more = f", margin {across} × {down}" if across or down else ""
    if columns or rows:
        more += f"; {columns} columns and {rows} rows are lost"
    elif patches.padded_width_height != (patches.width, patches.height):
        more += "; the last ones reach over the edge"
    count = f"{patches.count} patch{'es' * (patches.count != 1)}"
    return f"{count} of {width} × {height} pixels, {patches.columns} × {patches.rows}{more}"


def _svg(layout: _Layout, said: str, parts: Parts | None = None, names: Sequence[str] = ()) -> str:
    """Draws patches; ``parts``: of each patch its split, or -1."""
    (columns, rows), (width, height) = layout.columns_rows, layout.patch
    covered = columns * width, rows * height
    whole = max(covered[0], layout.size[0]), max(covered[1], layout.size[1])
    scale = _SIDE / max(whole)
    # a strip of a map must stay visible
    across, down = (max(4.0, n * scale) for n in whole)
    sx, sy = across / whole[0], down / whole[1]
    box = [_rect(layout.size, sx, sy, f'fill="{_LOST}"')]  # what no patch covers of it
    box.append(_rect(covered, sx, sy, f'fill="{_COLOURS[0] if parts is None else _NONE}"'))
    if parts is not None:
        box += _cells(parts.reshape(rows, columns), covered[0] * sx, covered[1] * sy, max(1, len(names)))
    every = -(-max(columns, rows) // _CELLS)
    lines = [f"M{_n(c * width * sx)} 0V{_n(covered[1] * sy)}" for c in range(0, columns + 1, every)]
    lines += [f"M0 {_n(r * height * sy)}H{_n(covered[0] * sx)}" for r in range(0, rows + 1, every)]
    box.append(f'<path d="{"".join(lines)}" stroke="#ffffff" stroke-width="0.7" fill="none"/>')
    if any(layout.margin):
        # that of one patch, the second of the second row where there is one
        start = [
            (n > 1) * p - m for n, p, m in zip((columns, rows), layout.patch, layout.margin, strict=True)
        ]
        reach = [p + 2 * m for p, m in zip(layout.patch, layout.margin, strict=True)]
        look = f'x="{_n(start[0] * sx)}" y="{_n(start[1] * sy)}" fill="none" stroke="{_MARGIN}"'
        box.append(_rect(reach, sx, sy, f'{look} stroke-dasharray="3 2"'))
    box.append(_rect(layout.size, sx, sy, f'fill="none" stroke="{_EDGE}"'))
    texts = [said] if said else []
    if every > 1:
        texts.append(f"a line every {every} patches")
    colours = [_COLOURS[i % len(_COLOURS)] for i in range(len(names))]
    if parts is not None and parts.min(initial=0) < 0:
        names, colours = [*names, "not written"], [*colours, _NONE]
    keys = "".join(
        f'<rect x="0" y="{_n(down + 8 + 15 * i)}" width="10" height="10" fill="{colour}"/>'
        f'<text x="15" y="{_n(down + 17 + 15 * i)}">{escape(name)}</text>'
        for i, (name, colour) in enumerate(zip(names, colours, strict=True))
    )
    below = down + 17 + 15 * len(names)
    captions = "".join(
        f'<text x="0" y="{_n(below + 15 * i)}">{escape(text)}</text>' for i, text in enumerate(texts)
    )
    room = max([across, *(6.2 * len(text) for text in texts), *(15 + 6.2 * len(name) for name in names)])
    full = down + 15 * (len(names) + len(texts)) + 8
    label = escape(said or f"{columns} × {rows} patches")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(room + 4)}" height="{_n(full + 4)}" '
        f'viewBox="-2 -2 {_n(room + 4)} {_n(full + 4)}" role="img" aria-label="{label}">'
        f'{"".join(box)}<g font-family="sans-serif" font-size="11" fill="{_TEXT}">{keys}{captions}</g></svg>'
    )


def _cells(parts: Parts, across: float, down: float, count: int) -> list[str]:
    """One path a split, made of runs of patches in a row; large grids are thinned out."""
    rows, columns = (min(n, _CELLS) for n in parts.shape)
    picked = parts[np.arange(rows) * parts.shape[0] // rows][
        :, np.arange(columns) * parts.shape[1] // columns
    ]
    width, height = across / columns, down / rows
    paths = []
    for part in range(count):
        shape = []
        for r, row in enumerate(picked == part):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], row.astype(np.int8), [0]])))
            for start, stop in edges.reshape(-1, 2).tolist():
                w = (stop - start) * width
                shape.append(f"M{_n(start * width)} {_n(r * height)}h{_n(w)}v{_n(height)}h-{_n(w)}z")
        if shape:
            paths.append(f'<path d="{"".join(shape)}" fill="{_COLOURS[part % len(_COLOURS)]}"/>')
    return paths


def _rect(size: Sequence[float], sx: float, sy: float, look: str) -> str:
    return f'<rect width="{_n(size[0] * sx)}" height="{_n(size[1] * sy)}" {look}/>'


def _html(title: str, rows: Iterable[tuple[str, str]], picture: str = "") -> str:
    cells = "".join(
        f'<tr style="background:none"><th style="{_STYLE}">{escape(name)}</th>'
        f'<td style="{_STYLE}">{escape(text)}</td></tr>'
        for name, text in rows
    )
    return (
        f'<div style="display:flex;gap:24px;flex-wrap:wrap"><div><strong>{escape(title)}</strong>'
        f'<table style="border:none">{cells}</table></div><div>{picture}</div></div>'
    )


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"


def _listed(texts: Sequence[str], most: int) -> str:
    return ", ".join(texts[:most]) + (f", … ({len(texts)} in all)" if len(texts) > most else "")


def _range(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"


def _sizes(pair: tuple[int, int]) -> str:
    low, high = map(size_text, pair)
    return low if low == high else f"{low} to {high}"
