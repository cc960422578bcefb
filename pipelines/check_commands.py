"""Commands for what has been exported: ``verify`` and ``look``."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import click


class _Pair(click.ParamType):
    """Two numbers with a comma between them."""

    name = "A,B"

    def __init__(self, kind: Callable[[str], Any]) -> None:
        self._kind = kind

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Returns the numbers."""
        if isinstance(value, tuple):
            return value
        try:
            first, second = (self._kind(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not two numbers with a comma between them", param, ctx)
        return first, second


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


@click.command("look")
@click.argument("prefix", type=click.Path())
@click.option("-o", "--output", required=True, type=click.Path(), help="a .png, or with --html an .html file")
@click.option(
    "--show",
    type=click.Choice(["export", "map"]),
    help="which, where both have this prefix; default: the map",
)
@click.option("--bands", metavar="B4,B3,B2", help="one band, or three for red, green and blue")
@click.option(
    "--stretch", type=_Pair(float), default="2,98", show_default=True, help="percentiles from black to white"
)
@click.option("--classes", is_flag=True, help="the band is a class map, though the manifest does not say so")
@click.option(
    "--margins", is_flag=True, help="draw each patch with its margin, and a line round what is inside"
)
@click.option("--sheet", type=int, metavar="N", help="draw N patches side by side instead of the map")
@click.option("--patch", type=int, metavar="N", help="draw patch N and each of its bands instead of the map")
@click.option("--html", "as_html", is_flag=True, help="write a page for a browser that needs no network")
@click.option(
    "--size", type=int, metavar="N", help="most pixels across and down; default 1600, of a page 4096"
)
@click.option("--colours", type=int, metavar="N", help="reduce the picture to so many, for a small file")
@click.option("--kernel-size", "kernel", type=_Pair(int), help="kernelSize, where there is only a mixer")
@click.option("--workers", type=click.IntRange(min=1), help="threads; default: all cores")
def look_command(
    prefix: str,
    output: str,
    show: Literal["export", "map"] | None,
    bands: str | None,
    stretch: tuple[float, float],
    classes: bool,
    margins: bool,
    sheet: int | None,
    patch: int | None,
    as_html: bool,
    size: int | None,
    colours: int | None,
    kernel: tuple[int, int] | None,
    workers: int | None,
) -> None:
    """Draw the patches of an export at their place, or a map of an import.

    PREFIX is what the names of the files begin with, of a map also its .vrt or .tif. For an export a mixer
    beside the shards is enough.
    """
    from patchbeam import storage
    from patchbeam.look import LookOptions, look, look_page, png
    from pipelines.report import check_file

    check_file(output, "-o")
    options = LookOptions(
        show=show,
        bands=None if bands is None else tuple(name.strip() for name in bands.split(",")),
        percentiles=stretch,
        classes=classes,
        size=size,
        margins=margins,
        sheet=sheet,
        patch=patch,
        colours=colours,
        kernel=kernel,
        threads=workers,
    )
    if as_html or output.endswith(".html"):
        if sheet is not None or patch is not None or margins or colours is not None:
            raise click.UsageError(
                "--html shows the map; leave --sheet, --patch, --margins and --colours out"
            )
        data = look_page(prefix, options).encode()
    else:
        if not output.lower().endswith(".png"):
            raise click.UsageError(f"-o: {output} is not a .png; pictures are PNG, and --html makes a page")
        data = png(look(prefix, options))
    storage.write_atomic(output, data)
    click.echo(output)
