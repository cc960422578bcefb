"""The plan of a table export: what follows from the job and the headers of what it names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from patchbeam import __version__, storage
from patchbeam.errors import JobError, OutputExists, OutputUnusable, nearest
from patchbeam.sidecars import own_outputs
from patchbeam.tables.columns import Column
from patchbeam.tables.geometry import GEOMETRY_KEYS, GeometryForm
from patchbeam.tables.sampling.plan import SamplePlan
from patchbeam.tables.source import INDEX, TableSource

Gzip = Literal["indexed", "zlib6"]


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """One table export, resolved and checked.

    Attributes:
        source: the table.
        selectors: features that hold properties, in wire order; ``system:index`` may be among them.
        output: prefix of what is written, local or ``gs://``.
        geometry: how geometries are held; ``None``: they are left out.
        gzip: how files are compressed.
        strict: whether integers that float32 rounds, and features outside the rasters, are errors.
        sample: the raster values to add, or ``None``.
    """

    source: TableSource
    selectors: tuple[str, ...]
    output: str
    geometry: GeometryForm | None = None
    gzip: Gzip = "indexed"
    strict: bool = False
    sample: SamplePlan | None = None

    def __post_init__(self) -> None:
        source = self.source
        if self.geometry is not None or self.sample is not None:
            key = "geometry" if self.geometry is not None else "sample"
            if not source.has_geometry:
                raise JobError(
                    f"{key}: {source.path} has no geometry; name the columns that hold coordinates with "
                    "xColumn, "
                    "yColumn and crs"
                )
            if source.crs is None:
                raise JobError(f"{key}: {source.path} does not say the CRS of its geometry; give it with crs")
        names = [
            *self.selectors,
            *self.geometry_keys,
            *(self.sample.names if self.sample is not None else ()),
        ]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise JobError(
                f"selectors: two features would be called {twice!r} (properties, geometry and sampled "
                "bands share "
                "one record); leave the property out with selectors, or rename the band with bands"
            )

    @property
    def geometry_keys(self) -> tuple[str, ...]:
        """Features that hold the geometry."""
        return () if self.geometry is None else GEOMETRY_KEYS[self.geometry]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The properties to read, in wire order, without ``system:index``."""
        known = {column.name: column for column in self.source.columns}
        return tuple(known[name] for name in self.selectors if name != INDEX)

    @property
    def needs_geometry(self) -> bool:
        """Whether geometries are read."""
        return self.geometry is not None or self.sample is not None

    @property
    def chips(self) -> bool:
        """Whether records are image-like: chips, in shards."""
        return self.sample is not None and self.sample.patch is not None

    @property
    def piece_gzip(self) -> bool:
        """Whether pieces are made of gzip members; with ``zlib6`` the file is compressed as a whole."""
        return self.gzip == "indexed"

    @cached_property
    def fingerprint(self) -> str:
        """A digest of everything that decides what is written."""
        said = repr(
            (__version__, self.source, self.selectors, self.geometry, self.gzip, self.strict, self.sample)
        )
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def temporary_folder(self) -> str:
        """Where unfinished files lie: beside the output, named by the fingerprint."""
        folder, name = storage.split(self.output)
        return storage.join(folder, f".{name}-{self.fingerprint[:12]}.tmp")

    def outputs_there(self) -> list[str]:
        """Returns the files of an earlier export with this prefix."""
        return own_outputs(storage.list_names(self.output), self.output)


def select(source: TableSource, selectors: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the features that hold properties, in wire order.

    Args:
        source: the table.
        selectors: names asked for; ``None`` for ``system:index`` and all properties in source order.

    Raises:
        JobError: a name is not known (with near matches), stands twice, or is of a type that no
            feature holds.
    """
    unheld = dict(source.unheld)
    if selectors is None:
        bad = [(name, of) for name, of in unheld.items() if of != "geometry"]
        if bad:
            raise JobError(
                f"features: property {bad[0][0]!r} is of type {bad[0][1]}, which no feature can hold; name "
                "the "
                "properties to export with selectors"
            )
        return (INDEX, *(name for name in source.names if name != INDEX))
    known = (INDEX, *source.names)
    for i, name in enumerate(selectors):
        key = f"selectors[{i}]"
        if name in unheld:
            raise JobError(
                f"{key}: {name!r} is of type {unheld[name]}, which no feature can hold; leave it out"
            )
        if name == source.geometry:
            raise JobError(
                f"{key}: {name!r} is the geometry; it is exported with geometry: geojson, wkb or lonlat"
            )
        if name not in known:
            raise JobError(
                f"{key}: {name!r} is not a property of {source.path}{nearest(name, known)}; properties are "
                f"{', '.join(source.names)}"
            )
        if list(selectors).count(name) > 1:
            raise JobError(f"{key}: {name!r} stands twice; name each property once")
    if not selectors:
        raise JobError("selectors: the list is empty; name properties, or leave selectors out for all")
    return tuple(selectors)


def check_destination(plan: TablePlan, *, overwrite: bool) -> None:
    """Refuses a destination that cannot take the export.

    Raises:
        OutputUnusable: it cannot be written.
        OutputExists: files of an earlier export are there and ``overwrite`` is false.
    """
    if not storage.split(plan.output)[1]:
        raise OutputUnusable(
            f"output: {plan.output} ends in a folder; add the beginning of the file names, "
            f"{plan.output}samples"
        )
    storage.check_writable(plan.output)
    there = plan.outputs_there()
    if there and not overwrite:
        raise OutputExists(
            f"output: {storage.split(there[0])[1]} of an earlier export stands there already; give another "
            "output, or --overwrite to replace it"
        )
