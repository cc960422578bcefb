"""Records of image patches straight into a batch: one copy a band.

The headers between the values of one export's records are the same bytes in every record. They are
compared with those of a parsed record; when they are equal, the values lie where they did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
        places: where the values of the copies are, and how they get into the modalities.
    """

    size: int
    gaps: tuple[tuple[int, int, bytes], ...]
    places: tuple[_Place, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """The values of a copy, or of several whose channels lie equally far apart.

    Attributes:
        copy: the first of them, or the only one.
        last: channel of the modality after the last.
        at: first byte in the record.
        dtype: of the values.
        shape: ``(channel, row, col)`` of all.
        strides: bytes from one to the next.
        straight: whether they are copied as they stand: whole, in the type of the target.
    """

    copy: _Copy
    last: int
    at: int
    dtype: np.dtype[Any]
    shape: tuple[int, int, int]
    strides: tuple[int, int, int]
    straight: bool


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
            where: says which record it is.

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
            for place in layout.places:
                copy = place.copy
                source: NDArray[Any] = np.ndarray(place.shape, place.dtype, data, place.at, place.strides)
                target = targets[copy.modality][copy.first : place.last]
                if place.straight:
                    target[...] = source
                else:
                    self._put(copy, source, target, where)
        for number in self._normalized:
            self._modalities[number].normalized(targets[number])

    def fill_rows(self, rows: NDArray[np.uint8], targets: Sequence[NDArray[Any]]) -> bool:
        """Decodes records whose headers are known and the same, a copy a band for all of them.

        Args:
            rows: uint8 ``(record, byte)``, each row the data of a record, its CRC already compared.
            targets: ``(record, channel, row, col)`` of each modality.

        Returns:
            Whether they were; where not, each has to be by :meth:`fill`, which says what is wrong.
        """
        layout = self._known(rows[0].data)
        if layout is None or any((rows[1:, a:b] != rows[0, a:b]).any() for a, b, _ in layout.gaps):
            return False
        between = rows.strides[0]
        for place in layout.places:
            copy = place.copy
            values: NDArray[Any] = np.lib.stride_tricks.as_strided(
                rows[:, place.at : place.at + place.dtype.itemsize].view(place.dtype),
                (len(rows), *place.shape),
                (between, *place.strides),
                writeable=False,
            )
            target = targets[copy.modality][:, copy.first : place.last]
            if place.straight:
                target[...] = values
                continue
            try:
                self._put(copy, values, target, str)
            except DataError:
                return False
        for number in self._normalized:
            self._modalities[number].normalized(targets[number])
        return True

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
            step = dtype.itemsize
            _, rows, columns = copy.shape
            strides = (rows * columns * step, columns * step, step)
            places.append(
                _Place(copy, copy.last, at + copy.start * step, dtype, copy.shape, strides, straight)
            )
        gaps = []
        position = 0
        for start, size in sorted(span for feature in spans.values() for span in feature.spans):
            if start > position:
                gaps.append((position, start, bytes(data[position:start])))
            position = start + size
        if position < len(data):
            gaps.append((position, len(data), bytes(data[position:])))
        layout = _Layout(len(data), tuple(gaps), tuple(_joined(places)))
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
            part = values[copy.start : copy.start + copy.count].reshape(copy.shape)
            self._put(copy, part, targets[copy.modality][copy.first : copy.last], where)

    def _put(self, copy: _Copy, shaped: NDArray[Any], target: NDArray[Any], where: Callable[[], str]) -> None:
        across, down = self._crop
        if across or down:
            shaped = shaped[..., down : copy.shape[1] - down, across : copy.shape[2] - across]
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


def _joined(places: Sequence[_Place]) -> list[_Place]:
    """Joins straight copies of channels that follow one another and lie equally far apart."""
    found: list[_Place] = []
    for place in places:
        last = found[-1] if found else None
        if (
            last is not None
            and place.straight
            and last.straight
            and last.copy.modality == place.copy.modality
            and last.last == place.copy.first
            and place.dtype == last.dtype
            and place.shape[0] == 1
            and place.shape[1:] == last.shape[1:]
            and (last.shape[0] == 1 or place.at - last.at == last.shape[0] * last.strides[0])
        ):
            step = place.at - last.at if last.shape[0] == 1 else last.strides[0]
            shape, strides = (last.shape[0] + 1, *last.shape[1:]), (step, *last.strides[1:])
            found[-1] = replace(last, last=place.last, shape=shape, strides=strides)
        else:
            found.append(place)
    return found


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
