"""An estimate as text for a terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from patchbeam.estimate import Estimate, Total, estimate_export
from patchbeam.plan import ExportPlan
from pipelines.pace import clock_text
from pipelines.plan_text import size_text
from pipelines.prices import Cost, Prices, costs, load_prices


def estimated(
    plan: ExportPlan, *, blocks: int, seed: int, threads: int | None, prices: str | None
) -> tuple[dict[str, Any], str]:
    """Measures a sample of an export's blocks; returns what follows, for programs and for people.

    Args:
        plan: the export.
        blocks: how many to sample.
        seed: decides which.
        threads: threads to work on a block with; ``None`` for all cores.
        prices: file of prices; ``None`` for the one that comes with the package.

    Raises:
        JobError: the file of prices is none.
        PatchbeamError: a block cannot be read or encoded.
    """
    listed = load_prices(prices)
    found = estimate_export(plan, blocks=blocks, seed=seed, threads=threads)
    table = costs(listed, found.cpu_seconds.value, plan.memory_bytes, found.blocks_in_all)
    return estimate_json(found, listed, table), estimate_text(plan, found, listed, table)


def estimate_text(plan: ExportPlan, estimate: Estimate, prices: Prices, table: list[Cost]) -> str:
    """Returns what an export will take, one fact a line, and what it costs elsewhere."""
    count = len(estimate.blocks)
    least, most = estimate.seconds_per_block
    sure = plan.bounds.exact or estimate.is_all
    threads = f"{estimate.threads} thread{'s' * (estimate.threads != 1)}"
    rows = [
        (
            "measured",
            f"{count} of {estimate.blocks_in_all} read blocks (seed {estimate.seed}, {threads}): "
            f"{f'{least:.3g} s' if count == 1 else f'{least:.3g} to {most:.3g} s each'}; {_parts(estimate)}",
        ),
        ("time", f"{_between(estimate.seconds, _time)} on this machine"),
        ("records", _between(estimate.records, lambda n: f"{n:.0f}", sure=sure)),
        ("uncompressed", _between(estimate.uncompressed_bytes, size_text, sure=sure)),
        (
            "on disk",
            _between(estimate.stored_bytes, size_text, sure=estimate.is_all) + _ratio(plan, estimate),
        ),
    ]
    if estimate.all_of_class_draw:
        rows.append(
            ("draw", "classes decide which patches are written; all are counted here, so these are bounds")
        )
    rows.append(
        ("assumed", "the other blocks are like these; ranges hold 95 % of what chance in the draw does")
    )
    rows.append(("left out", "writing, storage that slows down when many read it, the start of the pipeline"))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {text}" for name, text in rows]
    lines += ["", f"Dataflow, {prices.workers} workers, prices of {prices.as_of} in {prices.region}:"]
    lines += _table(prices, table)
    lines += [
        "Assumed: a worker's core is as fast as one here and reads as fast; one process a core;",
        f"{prices.startup_minutes:g} minutes of start are paid for each worker.",
        f"Prices are {_origin(prices)}; --prices FILE takes others.",
    ]
    return "\n".join(lines)


def estimate_json(estimate: Estimate, prices: Prices, table: list[Cost]) -> dict[str, Any]:
    """Returns an estimate in plain values; ranges are ``[least, most]``, ``null`` where there is no bound."""
    return {
        "blocks": {"measured": len(estimate.blocks), "total": estimate.blocks_in_all},
        "patches": estimate.patches_in_all,
        "seed": estimate.seed,
        "threads": estimate.threads,
        "boundOnly": estimate.all_of_class_draw,
        "measures": [
            {
                "block": one.block,
                "patches": one.patches,
                "records": one.records,
                "readSeconds": one.read_s,
                "encodeSeconds": one.encode_s,
                "compressSeconds": one.compress_s,
                "cpuSeconds": one.cpu_s,
                "uncompressedBytes": one.uncompressed_bytes,
                "storedBytes": one.stored_bytes,
            }
            for one in estimate.blocks
        ],
        "seconds": _total(estimate.seconds),
        "coreSeconds": _total(estimate.cpu_seconds),
        "records": _total(estimate.records),
        "uncompressedBytes": _total(estimate.uncompressed_bytes),
        "storedBytes": _total(estimate.stored_bytes),
        "compressionRatio": estimate.ratio,
        "prices": prices.model_dump(mode="json", by_alias=True),
        "dataflow": [
            {
                "workerType": one.type.name,
                "workers": prices.workers,
                "minutes": one.minutes,
                "cost": one.cost,
                "memoryFits": one.fits,
            }
            for one in table
        ],
    }


def _origin(prices: Prices) -> str:
    return f"those of {prices.source}, to be looked up again" if prices.source else "those of your file"


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else clock_text(seconds)


def _parts(estimate: Estimate) -> str:
    total = sum(one.seconds for one in estimate.blocks) or 1.0
    parts = (
        ("read", sum(one.read_s for one in estimate.blocks)),
        ("encode", sum(one.encode_s for one in estimate.blocks)),
        ("compress", sum(one.compress_s for one in estimate.blocks)),
    )
    return ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in parts)


def _ratio(plan: ExportPlan, estimate: Estimate) -> str:
    if not plan.options.compressed:
        return ", not compressed"
    return "" if estimate.ratio is None else f", compressed {estimate.ratio:.2f} to 1"


def _between(total: Total, text: Callable[[float], str], *, sure: bool = False) -> str:
    value, least = text(total.value), text(total.least)
    if sure and least == value:
        return value
    if math.isinf(total.most):
        return f"about {value} (one block says nothing of the spread)"
    most = text(total.most)
    return f"about {value}" + ("" if least == most == value else f" ({least} to {most})")


def _total(total: Total) -> dict[str, Any]:
    return {"value": total.value, "range": [total.least, None if math.isinf(total.most) else total.most]}


def _table(prices: Prices, table: list[Cost]) -> list[str]:
    rows = [("worker type", "cores", "memory", "time", f"cost ({prices.currency})", "")]
    rows += [
        (
            one.type.name,
            str(one.type.vcpus),
            f"{one.type.memory_gib:g} GiB",
            clock_text(60 * one.minutes),
            f"{one.cost:.2f}",
            "" if one.fits else "too little memory: give a smaller blockBytes",
        )
        for one in table
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    return [
        "  "
        + "  ".join(
            [row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, 5)), row[5]]
        ).rstrip()
        for row in rows
    ]
