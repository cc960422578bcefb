"""Any database to records: the plan of a conversion, and the writing of ranges of items."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from patchbeam import __version__, storage
from patchbeam.data.database import Database
from patchbeam.data.errors import DataError, EmptyDatabase
from patchbeam.data.itemcodec import ItemCodec
from patchbeam.data.order import Ints
from patchbeam.data.places import PatchPlace, patch_places
from patchbeam.data.schema import Profile, SetSchema, Shape, schema_of
from patchbeam.elements import Piece, RecordRun
from patchbeam.errors import CountMismatch, EncodeError, JobError, OutputExists, OutputUnusable
from patchbeam.options import GIB
from patchbeam.pieces import PieceWriter
from patchbeam.pool import Pool
from patchbeam.sidecars import own_outputs

Gzip = Literal["indexed", "zlib6"]
OpenDatabase = Callable[[], Database]
"""Called on each worker: a function or a partial one, never data."""

_RANGE_BYTES = 8 << 20
_MOST_ITEMS = 4096


@dataclass(frozen=True, kw_only=True)
class SetPlan:
    """One conversion, resolved and checked.

    Attributes:
        open_database: opens the database.
        schema: what records hold.
        count: number of items.
        range_items: items a range; depends on the items alone, so that the bytes of shards do too.
        output: prefix of what is written.
        gzip: how shards are compressed, or ``None``.
        max_file_size_bytes: largest uncompressed shard.
        place: how items lie on the map, where they are patches.
        patch_indices: the patch of each item, then.
        data_fingerprint: of the database.
    """

    open_database: OpenDatabase
    schema: SetSchema
    count: int
    range_items: int
    output: str
    gzip: Gzip | None
    max_file_size_bytes: int
    place: PatchPlace | None = None
    patch_indices: Ints | None = field(default=None, compare=False)
    data_fingerprint: str = ""

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """``(first, count)`` of every range of items."""
        step = self.range_items
        return [(first, min(step, self.count - first)) for first in range(0, self.count, step)]

    @property
    def piece_gzip(self) -> bool:
        """Whether pieces are made of gzip members."""
        return self.gzip == "indexed"

    @property
    def statistics(self) -> int:
        """Number of statistics: channels of all modalities."""
        return sum(f.channels for f in self.schema.fields)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that decides what is written."""
        said = (__version__, self.schema, self.count, self.range_items, self.gzip, self.max_file_size_bytes)
        return hashlib.sha256(repr((*said, self.data_fingerprint)).encode()).hexdigest()

    @property
    def temporary_folder(self) -> str:
        """Where unfinished files lie: beside the output, named by the fingerprint."""
        folder, name = storage.split(self.output)
        return storage.join(folder, f".{name}-{self.fingerprint[:12]}.tmp")

    @property
    def writes_mixer(self) -> bool:
        """Whether the items are all patches of a grid in order, so that predictions can become a map."""
        if self.place is None or self.patch_indices is None or self.schema.profile != "ee":
            return False
        columns, rows = self.place.columns_rows
        return np.array_equal(self.patch_indices, np.arange(columns * rows))


def plan_set(
    open_database: OpenDatabase,
    output: str,
    *,
    profile: Profile = "typed",
    dtypes: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    gzip: Gzip | None = "indexed",
    max_file_size_bytes: int = GIB,
    overwrite: bool = False,
) -> SetPlan:
    """Opens the database, looks at its first item, and checks everything that can be checked.

    Args:
        open_database: opens the database.
        output: prefix of what is written, local or ``gs://``.
        profile: ``ee``, ``typed`` or ``packed``.
        dtypes: modality → a narrower type.
        shapes: modality → shape, with ``None`` for sizes that differ.
        gzip: ``indexed``, ``zlib6`` or ``None``.
        max_file_size_bytes: largest uncompressed shard.
        overwrite: whether an earlier set with this prefix may be replaced.

    Raises:
        JobError: an argument is none, or the output cannot be used.
        EmptyDatabase: there are no items.
    """
    database = open_database()
    if not len(database):
        raise EmptyDatabase("database: it has no items; there is nothing to write")
    schema = schema_of(database, profile, dtypes=dtypes, shapes=shapes)
    size = int(ItemCodec(schema).encode([database[0]], 0).sizes[0])
    if size > max_file_size_bytes:
        raise JobError(
            f"maxFileSize: {max_file_size_bytes} is less than one record, {size} bytes; give at least {size}"
        )
    place: PatchPlace | None
    indices: Ints | None
    try:
        place, indices = patch_places(database)
    except DataError:
        place = indices = None
    _check_output(output, overwrite=overwrite)
    return SetPlan(
        open_database=open_database,
        schema=schema,
        count=len(database),
        range_items=max(1, min(_MOST_ITEMS, _RANGE_BYTES // size)),
        output=output,
        gzip=gzip,
        max_file_size_bytes=max_file_size_bytes,
        place=place,
        patch_indices=indices,
        data_fingerprint=database.fingerprint,
    )


def _check_output(output: str, *, overwrite: bool) -> None:
    if not storage.split(output)[1]:
        raise OutputUnusable(
            f"output: {output} ends in a folder; add the beginning of the file names, {output}train"
        )
    storage.check_writable(output)
    there = own_outputs(storage.list_names(output), output)
    if there and not overwrite:
        raise OutputExists(
            f"output: {len(there)} files of an earlier run stand at {output} "
            f"({storage.split(there[0])[1]}, …); "
            "give another output, or --overwrite to replace them"
        )


class RangeWriter:
    """Writes ranges of items as pieces; one a worker."""

    def __init__(self, plan: SetPlan, pool: Pool) -> None:
        """Opens the database."""
        self._plan = plan
        self._pool = pool
        self._database = plan.open_database()
        if len(self._database) != plan.count:
            raise CountMismatch(
                f"the database has {len(self._database)} items here and had {plan.count} when the run was "
                f"planned"
            )
        self._codec = ItemCodec(plan.schema)
        self._writer = PieceWriter(
            plan.temporary_folder,
            gzip=plan.piece_gzip,
            records_per_shard=None,
            records_per_patch=1,
            pool=pool,
        )

    def write(self, first: int, count: int) -> Iterator[Piece]:
        """Reads, encodes and writes one range.

        Raises:
            EncodeError: an item cannot be read or written; names it.
        """
        try:
            items = list(self._pool.map(self._database.__getitem__, range(first, first + count)))
            encoded = self._codec.encode(items, first)
        except DataError as error:
            notes = "; ".join(getattr(error, "__notes__", ()))
            raise EncodeError(f"{error}{f' ({notes})' if notes else ''}") from error
        sizes = encoded.sizes
        equal = bool((sizes == sizes[0]).all())
        run = RecordRun(
            block=0,
            first_patch=first,
            patches=count,
            kept=np.array([[first, count]], np.int64),
            data=encoded.data,
            record_size=int(sizes[0]) if equal else 0,
            sizes=None if equal else sizes,
            moments=encoded.moments,
            rounded=(0,) * len(encoded.moments),
        )
        yield from self._writer.write(run)
