"""Commands for what has been exported: ``verify``."""

from __future__ import annotations

import json

import click


@click.command("verify")
@click.argument("prefix", type=click.Path())
@click.option("--sources", is_flag=True, help="read random patches again from the sources and compare them")
@click.option(
    "--patches",
    type=click.IntRange(min=1),
    default=16,
    show_default=True,
    help="how many patches --sources reads",
)
@click.option("--seed", type=int, default=0, show_default=True, help="of the choice of patches")
@click.option("--workers", type=click.IntRange(min=1), help="threads; default: all cores")
@click.option("--json", "as_json", is_flag=True, help="print the report as JSON")
def verify_command(
    prefix: str, sources: bool, patches: int, seed: int, workers: int | None, as_json: bool
) -> None:
    """Check an export: every checksum, count and size, its sidecars against its shards.

    PREFIX is what the names of its files begin with. Exit status: 0 all right, 1 something is wrong.
    """
    from patchbeam.verify import verify
    from pipelines.verify_text import verify_text

    report = verify(prefix, sources=patches if sources else 0, seed=seed, threads=workers)
    click.echo(json.dumps(report.to_json(), indent=2) if as_json else verify_text(report))
    if not report.ok:
        raise click.exceptions.Exit(1)
