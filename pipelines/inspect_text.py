"""What record files hold, as text for a terminal."""

from __future__ import annotations

import math

from patchbeam.inspect import FoundFeature, Inspection
from pipelines.plan_text import size_text


def inspect_text(found: Inspection) -> str:
    """Returns what one file holds, one fact a line."""
    kind = "SequenceExample" if found.sequence else "Example"
    sizes = f"{size_text(found.size_bytes)} uncompressed, {size_text(found.stored_bytes)} stored"
    rows = [
        ("form", found.form),
        ("records", f"{found.records} {kind}{'' if found.records == 1 else 's'}, {sizes}"),
        ("beside it", found.sidecar or "no manifest and no mixer: shapes are not known"),
    ]
    if found.looked_at < found.records:
        rows.append(("lengths", f"of the first {found.looked_at} records"))
    shapes = {} if found.spec is None else {feature.name: feature.shape for feature in found.spec.features}
    for feature in found.features:
        rows.append((f"feature {feature.name}", _feature(feature, shapes.get(feature.name))))
    width = max(len(name) for name, _ in rows)
    return "\n".join([found.path, *(f"  {name:<{width}}  {text}" for name, text in rows)])


def _feature(feature: FoundFeature, shape: tuple[int | None, ...] | None) -> str:
    unit = "byte" if feature.kind == "bytes" else "number"
    text = f"{feature.kind}, {_range(feature.length)} {unit}{'' if feature.length == (1, 1) else 's'}"
    if feature.steps is not None:
        text += f" in each of {_range(feature.steps)} steps"
    if shape is not None:
        told = f"[{', '.join('own length' if size is None else str(size) for size in shape)}]"
        sizes = [size for size in shape if size is not None]
        fits = feature.kind == "bytes" or len(sizes) < len(shape) or feature.steps is not None
        if fits or feature.length == (math.prod(sizes), math.prod(sizes)):
            text += f", shape {told}"
        else:  # a file of another export in the place of one of this
            text += f", which is not the shape {told} of what lies beside it; patchbeam verify tells more"
    if feature.missing:
        text += f", not in {feature.missing} records"
    return text


def _range(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"
