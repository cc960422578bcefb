"""The plan of an import: everything that is known before a record is opened."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from patchbeam import __version__, storage
from patchbeam.affines import affine6
from patchbeam.errors import CorruptRecord, JobError, ReadFailed
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer, crs_text
from patchbeam.mosaic.geotiff import TileProfile, crs_of
from patchbeam.mosaic.layout import Ints, MapLayout
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.schema import RecordSchema
from patchbeam.mosaic.tiles import TileGrid
from patchbeam.mosaic.validity import SourceMask
from patchbeam.records.memberindex import read_member_index
from patchbeam.records.names import manifest_name
from patchbeam.retry import retrying

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportPlan:
    """One import, resolved as far as headers and sidecars say.

    Attributes:
        layout: where records lie.
        records: the record files in order.
        options: of the import.
        output: prefix of every file written, local or ``gs://``.
        source_mask: the exported rasters, with ``mask: sources``.
        members: for each record file, where the export's index tells its gzip members; empty without one.
        run: tells apart imports whose records are not in files yet.
    """

    layout: MapLayout
    records: tuple[str, ...]
    options: ImportOptions
    output: str
    source_mask: SourceMask | None = None
    members: tuple[MemberRange | None, ...] = ()
    run: str = ""

    @property
    def tiles(self) -> TileGrid:
        """The tiles of the map."""
        width, height = self.layout.width_height
        return TileGrid(width=width, height=height, tile_size=self.options.tile_size)

    def profile(self, schema: RecordSchema) -> TileProfile:
        """Returns what all tiles share."""
        classes = self.options.classes
        if not classes and len(schema.names) == 1:
            known = {band.name: band.classes for band in self.layout.bands}
            classes = known.get(schema.names[0], ())
        return TileProfile(
            nodata=schema.nodata,
            names=schema.names,
            compress=self.options.compress,
            categorical=schema.categorical or bool(classes),
            classes=classes,
        )

    @cached_property
    def temporary_folder(self) -> str:
        """Folder of unfinished work: beside the output, named by the plan's fingerprint."""
        folder, name = storage.split(self.output)
        return storage.join(folder, f".{name}-{self.fingerprint[:12]}.tmp")

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all that decides a pixel of the map: layout, records, options."""
        stats = []
        for path in self.records:
            stat = storage.stat(path)
            stats.append([path, stat.size_bytes, stat.modified])
        state = {"plan": self.to_json(), "records": stats, "version": __version__, "run": self.run}
        if self.layout.kept is not None:
            state["kept"] = hashlib.sha256(np.ascontiguousarray(self.layout.kept).tobytes()).hexdigest()
        if self.source_mask is not None:
            state["mask"] = [
                [f.path, f.size_bytes, f.modified] for s in self.source_mask.sources for f in s.files
            ]
        return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Returns the plan as the completion file holds it."""
        layout, patches = self.layout, self.layout.patches
        width, height = layout.width_height
        options = asdict(self.options)
        options["depths"] = dict(self.options.depths)
        options["nodata"] = number(self.options.nodata)
        # as a job file has it: false, true for all bands, or a list
        options["argmax"] = True if self.options.argmax is None else list(self.options.argmax) or False
        return {
            "grid": {
                "crs": crs_text(crs_of(layout.grid).proj),
                "transform": list(affine6(layout.export_grid)),
                "width": width,
                "height": height,
            },
            "patches": {
                "widthHeight": list(patches.patch_width_height),
                "margin": list(patches.margin_width_height),
                "perRow": patches.columns,
                "total": patches.count,
                "kept": layout.kept_count,
            },
            "layout": layout.source,
            "options": {_camel(key): value for key, value in options.items()},
        }


def number(value: float | None) -> float | str | None:
    """Returns a number as JSON can hold it."""
    return "NaN" if value is not None and math.isnan(value) else value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def read_sidecar(path: str) -> tuple[MapLayout, Manifest | None]:
    """Reads a mixer or a manifest, whichever the file is.

    Raises:
        JobError: it is neither, or contradicts itself.
    """
    try:
        text = retrying(lambda: storage.read_bytes(path))
    except ReadFailed as error:
        raise JobError(str(error)) from None
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise JobError(
            f"{path}: neither a mixer nor a manifest, because it is not JSON: {error}; give "
            "the -mixer.json or -manifest.json of the export"
        ) from None
    if isinstance(root, dict) and "projection" not in root and "format" in root:
        manifest = Manifest.from_text(text, path)
        return MapLayout.from_manifest(manifest, path), manifest
    return MapLayout.from_mixer(Mixer.from_text(text, path), path), None


def find_sidecar(prefix: str) -> str:
    """Returns the manifest of an export, else its mixer.

    Raises:
        JobError: there is neither.
    """
    candidates = (manifest_name(prefix), f"{prefix}-mixer.json", f"{prefix}mixer.json", f"{prefix}.json")
    for name in candidates:
        if storage.exists(name):
            return name
    raise JobError(
        f"records: there is no mixer or manifest beside {prefix}: looked for {', '.join(candidates)}; "
        "give one as mixer: or manifest:"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRange:
    """Which rows of an export's index are the gzip members of one shard.

    Attributes:
        index: the index file (``PREFIX-index.npz``).
        start: first row.
        stop: the row after the last.
    """

    index: str
    start: int
    stop: int


def known_members(
    manifest: Manifest | None, sidecar: str, records: tuple[str, ...]
) -> tuple[MemberRange | None, ...]:
    """Says where an export's index tells the gzip members of its own shards among ``records``."""
    if manifest is None or manifest.index is None:
        return ()
    folder, _ = storage.split(sidecar)
    index = storage.join(folder, manifest.index)
    shards = {storage.join(folder, shard.name): (i, shard) for i, shard in enumerate(manifest.shards)}
    if not any(path in shards for path in records) or not storage.exists(index):
        return ()
    try:
        ends = np.concatenate([[0], np.cumsum(_index_columns(index)[0])]).tolist()
    except CorruptRecord as error:
        _LOG.warning("%s; shards are walked instead", error)
        return ()
    if len(ends) != len(shards) + 1:
        return ()
    found: list[MemberRange | None] = []
    for path in records:
        i, shard = shards.get(path, (-1, None))
        if shard is None or storage.stat(path).size_bytes != shard.stored_bytes:
            found.append(None)  # replaced since: it is walked
        else:
            found.append(MemberRange(index=index, start=ends[i], stop=ends[i + 1]))
    return tuple(found)


def read_members(members: MemberRange | None) -> tuple[Ints, Ints] | None:
    """Returns bytes and records of each member of a shard.

    Raises:
        CorruptRecord: the index is damaged.
    """
    if members is None:
        return None
    _, sizes, records = _index_columns(members.index)
    part = slice(members.start, members.stop)
    return sizes[part], records[part]


def _index_columns(path: str) -> tuple[Ints, Ints, Ints]:
    """Returns members of each shard, and bytes and records of each member."""
    stat = storage.stat(path)
    return _columns_of(path, stat.size_bytes, stat.modified)


@lru_cache(maxsize=4)  # every shard of an export asks for the one index
def _columns_of(path: str, size_bytes: int, modified: str) -> tuple[Ints, Ints, Ints]:
    return read_member_index(retrying(lambda: storage.read_bytes(path)), path)


__all__ = [
    "ImportPlan",
    "MemberRange",
    "find_sidecar",
    "known_members",
    "number",
    "read_members",
    "read_sidecar",
]
