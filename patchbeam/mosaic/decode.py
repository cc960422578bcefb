"""Records to the arrays of patches, read by range: whole patch rows, each record once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import CorruptRecord, nearest
from patchbeam.mosaic.layout import Ints, MapLayout
from patchbeam.mosaic.pixels import PixelTable
from patchbeam.mosaic.schema import RecordSchema, wrong_length
from patchbeam.records.example import ExampleDecoder
from patchbeam.records.files import RecordFiles
from patchbeam.records.parse import Values, scan_example

Array = NDArray[Any]
Mask = NDArray[np.bool_]


class PatchPixels(NamedTuple):
    """The numbers of one patch.

    Attributes:
        patch: its index.
        bands: one ``(row, col)`` a band, in the type of the records.
        valid: ``(row, col)``, false where the mask band is 0; ``None`` without one.
        with_margin: whether the arrays have the stored size, else the patch's own.
    """

    patch: int
    bands: list[Array]
    valid: Mask | None
    with_margin: bool


class Part(NamedTuple):
    """Consecutive patches of one patch row that are read together.

    Attributes:
        patches: their indexes.
        first: number of the first one's record among patches that have records.
    """

    patches: Ints
    first: int


class PatchSource:
    """Patches by index, from record files. Threads may share one.

    Args:
        files: the records.
        layout: where they lie.
        schema: what is read of them.
        order: for each patch that has records, in order, the number of its record in ``files``; ``None``
            when files have them in that order.
    """

    def __init__(
        self, files: RecordFiles, layout: MapLayout, schema: RecordSchema, order: Ints | None = None
    ) -> None:
        self._files = files
        self._layout = layout
        self._schema = schema
        self._order = order
        self._local = threading.local()
        width, height = layout.patches.patch_width_height
        self._per_patch = width * height if schema.per_pixel else 1

    @property
    def bands(self) -> int:
        """Bands read of each patch."""
        return len(self._schema.bands)

    def parts(self, row: int, cols: range) -> list[Part]:
        """Returns the parts of a patch row between two patch columns; dropped patches are left out."""
        columns = self._layout.patches.columns
        patches, first = self._layout.records_of(row * columns + cols.start, row * columns + cols.stop)
        if not patches.size:
            return []
        if self._order is not None or self._per_patch > 1:
            return [Part(patches[i : i + 1], first + i) for i in range(len(patches))]
        parts = self._files.parts(first, len(patches))
        return [Part(patches[at - first : at - first + count], at) for at, count in parts]

    def read(self, part: Part) -> Iterator[PatchPixels]:
        """Yields the patches of a part.

        Raises:
            CorruptRecord: damaged, without a feature that is read, or with a length that fits no form.
        """
        schema = self._schema
        for patch, arrays, with_margin in self.read_features(part):
            valid = None if schema.mask is None else arrays[schema.mask][0] != 0
            bands = [arrays[band.feature][band.channel] for band in schema.bands]
            yield PatchPixels(patch, bands, valid, with_margin)

    def read_features(self, part: Part) -> Iterator[tuple[int, dict[str, Array], bool]]:
        """Yields patch, ``(channel, row, col)`` of each feature, and whether margins are in them.

        Raises:
            CorruptRecord: as :meth:`read`.
        """
        if self._per_patch > 1:
            yield self._read_pixels(int(part.patches[0]), part.first * self._per_patch)
        elif self._order is not None:
            record = int(self._order[part.first])
            yield self._decoded(int(part.patches[0]), record, self._files[record])
        else:
            for i, data in enumerate(self._files.read_range(part.first, len(part.patches))):
                yield self._decoded(int(part.patches[i]), part.first + i, data)

    def _decoded(self, patch: int, record: int, data: memoryview) -> tuple[int, dict[str, Array], bool]:
        decoder = getattr(self._local, "decoder", None)
        if decoder is None:
            decoder = self._local.decoder = ExampleDecoder(list(self._schema.depths))
        try:
            values = decoder.decode(data)
            arrays = {
                name: self._shaped(name, depth, values, data) for name, depth in self._schema.depths.items()
            }
        except CorruptRecord as error:
            raise self._at(error, record, patch) from None
        margins = {with_margin for _, with_margin in arrays.values()}
        if len(margins) > 1:
            arrays = {name: (self._cropped(*pair), False) for name, pair in arrays.items()}
        return patch, {name: array for name, (array, _) in arrays.items()}, margins == {True}

    def _shaped(
        self, name: str, depth: int, values: dict[str, Values], data: memoryview
    ) -> tuple[Array, bool]:
        found = values.get(name)
        if found is None:
            there = list(scan_example(data))
            raise CorruptRecord(f"has no feature {name!r}{nearest(name, there)}; it has {', '.join(there)}")
        array: Array
        if isinstance(found, list):
            array = np.frombuffer(found[0] if len(found) == 1 else b"".join(found), np.uint8)
        else:
            array = found
        width, height = self._layout.patches.patch_width_height
        stored_width, stored_height = self._layout.patches.stored_width_height
        if array.size == depth * stored_width * stored_height:
            margin = (stored_width, stored_height) != (width, height)
            return array.reshape(depth, stored_height, stored_width), margin
        if array.size == depth * width * height:
            return array.reshape(depth, height, width), False
        raise CorruptRecord(wrong_length(name, array.size, self._layout, depth))

    def _cropped(self, array: Array, with_margin: bool) -> Array:
        if not with_margin:
            return array
        x, y = self._layout.patches.margin_width_height
        width, height = self._layout.patches.patch_width_height
        return array[:, y : y + height, x : x + width]

    def _read_pixels(self, patch: int, first: int) -> tuple[int, dict[str, Array], bool]:
        table = PixelTable(self._schema.depths, self._per_patch)
        try:
            table.fill(list(self._files.read_range(first, self._per_patch)))
        except CorruptRecord as error:
            if error.file is not None:
                raise
            raise self._at(error, first + (error.record or 0), patch) from None
        width, height = self._layout.patches.patch_width_height
        columns = table.columns()
        return patch, {name: c.reshape(-1, height, width) for name, c in columns.items()}, False

    def _at(self, error: CorruptRecord, record: int, patch: int) -> CorruptRecord:
        number, own = self._files.locate(record)
        what = f"patch {patch}: {error.what}"
        return CorruptRecord(what, file=self._files.files[number].name, record=own, byte=error.byte)
