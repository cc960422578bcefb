"""Records of image patches straight into a batch: one copy a band.

The headers between the values of one export's records are the same bytes in every record. They are
compared with those of a record that has been parsed; when they are equal, the values lie where they did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam.data.errors import DataError
from patchbeam.data.modality import ResolvedModality, cast_into
from patchbeam.errors import nearest
from patchbeam.records.parse import Spans, scan_example, take

_MOST_LAYOUTS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """Some channels of one modality.

    Attributes:
        modality: its position.
        first: first channel.
        last: channel after the last.
        feature: that holds them.
        start: first number of them in the feature.
        count: of numbers.
        length: numbers of the whole feature.
        shape: ``(channel, row, col)`` in the record, margin included.
    """

    modality: int
    first: int
    last: int
    feature: str
    start: int
    count: int
    length: int
    shape: tuple[int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Where the values of records with the same headers lie.

    Attributes:
        size: of the record.
        gaps: ``(start, end, bytes)`` of everything between values.
        places: for each copy the first byte of its values, their type, and whether they are copied as they
            stand: whole, in the type of the target.
    """

    size: int
    gaps: tuple[tuple[int, int, bytes], ...]
    places: tuple[tuple[_Copy, int, np.dtype[Any], bool], ...]


class PatchDecoder:
    """Fills the modalities of an item from its record. Threads may share it."""

    def __init__(self, modalities: Sequence[ResolvedModality], crop: tuple[int, int]) -> None:
        """Decodes into ``modalities``, ``crop`` pixels cut off at the sides and above and below."""
        self._modalities = tuple(modalities)
        self._crop = crop
        self._copies = tuple(_copies(self._modalities))
        self._normalized = [at for at, modality in enumerate(self._modalities) if modality.mean is not None]
        self._layouts: tuple[_Layout, ...] = ()

    def fill(self, data: memoryview, targets: Sequence[NDArray[Any]], where: Callable[[], str]) -> None:
        """Decodes a record.

        Args:
            data: of the record, without framing, its CRC already compared.
            targets: ``(channel, row, col)`` of each modality.
            where: says which record it is, for errors.

        Raises:
            CorruptRecord: it is no Example.
            DataError: a feature is missing or has another length than it should.
        """
        layout = self._known(data)
        if layout is None:
            spans = scan_example(data)
            layout = self._learn(data, spans, where)
        if layout is None:
            self._fill_slowly(data, spans, targets, where)
        else:
            for copy, at, dtype, straight in layout.places:
                source: NDArray[Any] = np.ndarray(copy.shape, dtype, data, at)
                if straight:
                    targets[copy.modality][copy.first : copy.last] = source
                else:
                    self._put(copy, source, targets, where)
        for number in self._normalized:
            self._modalities[number].normalized(targets[number])

    def _known(self, data: memoryview) -> _Layout | None:
        size = len(data)
        for layout in self._layouts:
            if layout.size == size:
                for start, end, gap in layout.gaps:
                    if data[start:end] != gap:
                        break
                else:
                    return layout
        return None

    def _learn(self, data: memoryview, spans: dict[str, Spans], where: Callable[[], str]) -> _Layout | None:
        """Keeps the layout of a record whose values lie each in one piece, varints apart."""
        places = []
        for copy in self._copies:
            found = self._found(copy, spans, where)
            if found.kind == "int64" or len(found.spans) != 1:
                return None
            at, size = found.spans[0]
            dtype = np.dtype("<f4" if found.kind == "float" else "u1")
            if size != copy.length * dtype.itemsize:
                raise self._wrong_length(copy, size // dtype.itemsize, where)
            straight = self._crop == (0, 0) and self._modalities[copy.modality].dtype == dtype
            places.append((copy, at + copy.start * dtype.itemsize, dtype, straight))
        gaps = []
        position = 0
        for start, size in sorted(span for feature in spans.values() for span in feature.spans):
            if start > position:
                gaps.append((position, start, bytes(data[position:start])))
            position = start + size
        if position < len(data):
            gaps.append((position, len(data), bytes(data[position:])))
        layout = _Layout(len(data), tuple(gaps), tuple(places))
        self._layouts = (layout, *self._layouts[: _MOST_LAYOUTS - 1])
        return layout

    def _fill_slowly(
        self,
        data: memoryview,
        spans: dict[str, Spans],
        targets: Sequence[NDArray[Any]],
        where: Callable[[], str],
    ) -> None:
        taken: dict[str, NDArray[Any]] = {}
        for copy in self._copies:
            values = taken.get(copy.feature)
            if values is None:
                found = take(data, self._found(copy, spans, where))
                values = np.frombuffer(b"".join(found), np.uint8) if isinstance(found, list) else found
                if values is None or values.size != copy.length:
                    raise self._wrong_length(copy, 0 if values is None else values.size, where)
                taken[copy.feature] = values
            self._put(copy, values[copy.start : copy.start + copy.count], targets, where)

    def _put(
        self, copy: _Copy, source: NDArray[Any], targets: Sequence[NDArray[Any]], where: Callable[[], str]
    ) -> None:
        target = targets[copy.modality][copy.first : copy.last]
        shaped = source.reshape(copy.shape)
        across, down = self._crop
        if across or down:
            shaped = shaped[:, down : copy.shape[1] - down, across : copy.shape[2] - across]
        if shaped.dtype == target.dtype or target.dtype.kind == "f":
            target[...] = shaped
        else:
            cast_into(target, shaped, f"{where()}, feature {copy.feature!r}")

    def _found(self, copy: _Copy, spans: dict[str, Spans], where: Callable[[], str]) -> Spans:
        found = spans.get(copy.feature)
        if found is None or found.kind is None:
            raise DataError(
                f"{where()}: no feature {copy.feature!r}; it has "
                f"{', '.join(spans)}{nearest(copy.feature, spans)}"
            )
        return found

    def _wrong_length(self, copy: _Copy, length: int, where: Callable[[], str]) -> DataError:
        rows, columns = copy.shape[1:]
        return DataError(
            f"{where()}, feature {copy.feature!r}: {length} values, but {copy.length} are due "
            f"({copy.length // (rows * columns)} × {rows} × {columns})"
        )

    def __getstate__(self) -> tuple[Any, ...]:
        return self._modalities, self._crop

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)  # type: ignore[misc]


def _copies(modalities: Sequence[ResolvedModality]) -> list[_Copy]:
    found: list[_Copy] = []
    for at, modality in enumerate(modalities):
        channel = 0
        for band in modality.bands:
            rows, columns = band.shape[-2:]
            last = found[-1] if found else None
            if (
                last is not None
                and (last.modality, last.feature) == (at, band.feature)
                and last.start + last.count == band.start
            ):
                # collapsed bands that follow one another in the record too
                found.pop()
                first, start = last.first, last.start
            else:
                first, start = channel, band.start
            channel += band.channels
            count = (channel - first) * rows * columns
            shape = (channel - first, rows, columns)
            found.append(_Copy(at, first, channel, band.feature, start, count, band.length, shape))
    return found
