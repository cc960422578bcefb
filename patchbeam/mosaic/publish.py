"""Publishing a map: finished tiles are counted and moved to their places, the completion file last."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

from patchbeam import storage
from patchbeam.errors import CountMismatch, OutputExists
from patchbeam.finished_shards import end_publication
from patchbeam.lock import LockTicket
from patchbeam.mosaic.finished import TileDone, tile_paths
from patchbeam.mosaic.index import stac_collection, stac_items, vrt_text
from patchbeam.mosaic.plan import ImportPlan, number
from patchbeam.mosaic.schema import RecordSchema
from patchbeam.mosaic.tiles import collection_name, existing_maps, import_name, surplus_maps, vrt_name
from patchbeam.patches import Window
from patchbeam.retry import retrying

FORMAT = "patchbeam-import"
VERSION = "1.0"


def begun_publication(plan: ImportPlan) -> set[str]:
    """Returns the files that an attempt of this very import has put in their places before it ended."""
    left = set(storage.list_names(storage.join(plan.temporary_folder, "")))
    tiles, found = plan.tiles, set()
    for tile in range(tiles.count):
        path, mark = tile_paths(plan, tile)
        if mark in left and path not in left:
            found |= {tiles.name(plan.output, tile), tiles.item_name(plan.output, tile)}
    if len(found) == 2 * tiles.count:
        found |= {vrt_name(plan.output), collection_name(plan.output)}
    return found


def is_published(plan: ImportPlan) -> bool:
    """Whether an attempt whose success got lost has published this very import and taken its traces away."""
    left = storage.list_names(storage.join(plan.temporary_folder, ""))
    return not left and _own_report(plan) is not None


def published_report(plan: ImportPlan) -> dict[str, Any] | None:
    """Returns what the completion file of this very import says, if every tile that it lists is there."""
    report, tiles = _own_report(plan), plan.tiles
    if report is None:
        return None
    there = storage.list_stats(plan.output)
    names = [tiles.name(plan.output, tile) for tile in range(tiles.count)]
    try:
        due = [(storage.split(name)[1], there[name].size_bytes) for name in names]
        whole = [(tile["name"], tile["sizeBytes"]) for tile in report["tiles"]] == due
    except (KeyError, TypeError):
        return None
    return report if whole else None


def _own_report(plan: ImportPlan) -> dict[str, Any] | None:
    final = import_name(plan.output)
    if not storage.exists(final):
        return None
    try:
        said = json.loads(retrying(lambda: storage.read_bytes(final)))
    except ValueError:
        return None
    return said if isinstance(said, dict) and said.get("fingerprint") == plan.fingerprint else None


def publish_map(
    plan: ImportPlan,
    schema: RecordSchema,
    done: list[TileDone],
    *,
    overwrite: bool,
    lock: LockTicket | None = None,
) -> str:
    """Counts the tiles and moves them to their places; returns the name of the completion file.

    Args:
        plan: the import.
        schema: what was read of the records.
        done: the tiles, in any order.
        overwrite: whether an earlier map with this prefix is replaced.
        lock: what shows that the run still holds its output; deleted at the end.

    Raises:
        LockHeld: another run has taken the output over; nothing is published.
        CountMismatch: tiles or patches are missing or came twice; nothing is published.
        OutputExists: a map has been published here in the meantime.
        WriteFailed: a file cannot be moved or written.
    """
    tiles = plan.tiles
    done = sorted(done, key=lambda one: one.tile)
    _check(plan, done)
    if lock is not None:
        lock.check()
    there = existing_maps(storage.list_names(plan.output), plan.output)
    others = set(there) - begun_publication(plan)
    if others and not overwrite:
        raise OutputExists(
            f"output: {min(others)} has been published by another run meanwhile; nothing of this run has "
            "been; give another output, or --overwrite"
        )
    final = import_name(plan.output)
    retrying(lambda: storage.delete(final))
    profile = plan.profile(schema)
    when = plan.options.datetime or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    items = stac_items(
        plan.output,
        tiles,
        plan.layout.grid,
        profile,
        schema.type,
        datetime=when,
        sizes=[one.size_bytes for one in done],
    )
    written = {final, vrt_name(plan.output), collection_name(plan.output)}
    for one, item in zip(done, items, strict=True):
        name = tiles.name(plan.output, one.tile)
        retrying(partial(_move, one, name))
        item_name = tiles.item_name(plan.output, one.tile)
        _put(plan, item_name, _text(item))
        written |= {name, item_name}
    for path in surplus_maps(there, written, plan.output):
        retrying(partial(storage.delete, path))
    vrt = vrt_text(plan.output, tiles, plan.layout.grid, profile, schema.type)
    _put(plan, vrt_name(plan.output), vrt.encode())
    collection = stac_collection(plan.output, tiles, plan.layout.grid, datetime=when)
    _put(plan, collection_name(plan.output), _text(collection))
    report = {
        "format": FORMAT,
        "version": VERSION,
        "fingerprint": plan.fingerprint,
        **plan.to_json(),
        "type": schema.type,
        "nodata": number(schema.nodata),
        "bands": list(schema.names),
        "tiles": [
            {
                "name": storage.split(tiles.name(plan.output, one.tile))[1],
                "window": _window(tiles.window(one.tile)),
                "sizeBytes": one.size_bytes,
                "patches": one.patches,
            }
            for one in done
        ],
        "patchesPlaced": sum(one.patches for one in done),
        "records": list(plan.records),
    }
    _put(plan, final, _text(report))
    end_publication(plan.temporary_folder)
    if lock is not None:
        lock.release()
    return final


def _move(one: TileDone, name: str) -> None:
    if storage.exists(one.path):
        storage.rename(one.path, name)
    elif not storage.exists(name) or storage.stat(name).size_bytes != one.size_bytes:
        raise CountMismatch(f"{one.path}: this tile has gone before it was published; run the job again")


def _put(plan: ImportPlan, path: str, data: bytes) -> None:
    if storage.is_remote(path):
        _write(path, data)
        return
    # written where a killed run may leave it, then moved
    temporary = storage.join(plan.temporary_folder, storage.split(path)[1])
    _write(temporary, data)
    retrying(lambda: storage.rename(temporary, path))


def _check(plan: ImportPlan, done: list[TileDone]) -> None:
    numbers = [one.tile for one in done]
    patches = sum(one.patches for one in done)
    if numbers != list(range(plan.tiles.count)) or patches != plan.layout.kept_count:
        raise CountMismatch(
            f"{len(numbers)} tiles ({len(set(numbers))} different) with {patches} patches came out of the "
            "pipeline, and "
            f"{plan.tiles.count} with {plan.layout.kept_count} are due: the runner lost or repeated work; "
            "nothing has "
            "been published. Run the job again"
        )


def _window(window: Window) -> list[int]:
    return [window.col_off, window.row_off, window.width, window.height]


def _text(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


def _write(path: str, data: bytes) -> None:
    retrying(lambda: storage.write_atomic(path, data))
