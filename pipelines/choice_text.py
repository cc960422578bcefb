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
        guarded = _guarded(plan)
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
        share = f"{plan.keep.minimum:g} of its pixels" if plan.keep.minimum else "one pixel"
        yield ("keep", f"a patch with at least {share} {_counted(plan)}")


def why_dropped(plan: ExportPlan, dropped: int) -> str:
    """Returns why patches were left out: those that place decides are counted, the others share reasons.

    Args:
        plan: the export.
        dropped: patches that have no record.
    """
    guarded = 0 if plan.split is None else _guarded(plan)
    by_place = plan.patches.count - sum(plan.part_counts)
    reasons = []
    if plan.sample is not None and plan.sample.per_class is not None:
        reasons.append("they were not drawn")
    if plan.options.masked_threshold < 1:
        reasons.append(f"more than {plan.options.masked_threshold:g} of their pixels are masked")
    if plan.keep is not None:
        share = f"less than {plan.keep.minimum:g} of their pixels are" if plan.keep.minimum else "no pixel is"
        reasons.append(f"{share} {_counted(plan)}")
    counts = (
        (guarded, "they stand in the guard between splits"),
        (by_place - guarded, "they were not drawn"),
        (dropped - by_place, " or ".join(reasons)),
    )
    told = [(count, why) for count, why in counts if count]
    return told[0][1] if len(told) == 1 else "; ".join(f"{count} because {why}" for count, why in told)


def _guarded(plan: ExportPlan) -> int:
    assert plan.split is not None
    return int(np.count_nonzero(split_parts(plan.split, plan.patches) == GUARDED))


def _counted(plan: ExportPlan) -> str:
    """Returns what the pixels are that count for ``keep``."""
    rule = plan.keep
    assert rule is not None
    if rule.classes is None:
        return f"valid in {rule.band}"
    return f"of class {' or '.join(map(str, rule.classes))} in {rule.band}"
