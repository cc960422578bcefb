"""Which patches an export writes, as text: what a plan says of splits, draws and classes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from patchbeam.plan import ExportPlan
from patchbeam.selection import split_parts
from patchbeam.splits import GUARDED


def choice_rows(plan: ExportPlan) -> Iterator[tuple[str, str]]:
    """Yields what is chosen and what it leaves, one fact a row."""
    total = plan.patches.count
    if plan.split is not None:
        columns, rows = plan.split.block_columns_rows
        yield ("split", f"by blocks of {columns} × {rows} patches, seed {plan.split.seed}")
        guarded = int(np.count_nonzero(split_parts(plan.split, plan.patches) == GUARDED))
        for name, fraction, count in zip(
            plan.split.names, plan.split.fractions, plan.part_counts, strict=True
        ):
            yield (f"split {name}", f"{count} patches ({count / total:.1%}) of {fraction:g} asked for")
        across, down = plan.split.guard_columns_rows(plan.patches)
        why = (
            f"{across} across and {down} down at each border between splits, whose margins would overlap"
            if guarded
            else "no margins overlap between splits"
        )
        yield ("split guard", f"{guarded} patches ({guarded / total:.1%}) are lost: {why}")
    if plan.sample is not None and plan.sample.patches is not None:
        yield ("sample", f"{plan.sample.patches} patches of {total}, drawn with seed {plan.sample.seed}")
    elif plan.sample is not None:
        yield (
            "sample",
            f"{plan.sample.per_class} patches of each class of {plan.sample.band} at the least, where so "
            f"many hold it; drawn with seed {plan.sample.seed} after a first pass over that band",
        )
    if plan.keep is not None:
        yield ("keep", f"patches with {_enough(plan)} only")


def why_dropped(plan: ExportPlan) -> str:
    """Returns the reasons for which a patch can have been left out."""
    reasons = []
    if plan.split is not None:
        reasons.append("they stand in the guard between splits")
    if plan.sample is not None:
        reasons.append("they were not drawn")
    if plan.options.masked_threshold < 1:
        reasons.append(f"more than {plan.options.masked_threshold:g} of their pixels are masked")
    if plan.keep is not None:
        reasons.append(f"they do not have {_enough(plan)}")
    return ", or ".join(reasons)


def _enough(plan: ExportPlan) -> str:
    rule = plan.keep
    assert rule is not None
    share = f"{rule.minimum:g} of their pixels" if rule.minimum else "one pixel"
    if rule.classes is None:
        return f"{share} at the least valid in {rule.band}"
    return f"{share} at the least of class {', '.join(map(str, rule.classes))} in {rule.band}"
