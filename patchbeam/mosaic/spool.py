"""Predictions that are not in files yet: arrays to pieces, so that only their locations travel."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchbeam import storage
from patchbeam.errors import EncodeError, JobError
from patchbeam.mosaic.layout import Ints, MapLayout
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.files import RecordFiles
from patchbeam.records.index import FileIndex
from patchbeam.retry import retrying

PIECE_BYTES = 32 << 20
DEFAULT_NAME = "prediction"
Arrays = Mapping[str, NDArray[Any]] | NDArray[Any]
"""``(row, col)`` or ``(channel, row, col)`` a band name; an array alone is called ``prediction``."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SpoolPiece:
    """Where the arrays of some patches lie.

    Attributes:
        path: a plain record file.
        patches: the patches in it, in file order.
        sizes: bytes of each framed record.
        depths: channels of each band.
    """

    path: str
    patches: Ints
    sizes: Ints
    depths: Mapping[str, int]


class PatchSpool:
    """Collects the arrays of patches and writes them as pieces.

    Args:
        folder: the temporary prefix, local or ``gs://``.
        layout: where patches lie.
    """

    def __init__(self, folder: str, layout: MapLayout) -> None:
        self._folder = folder
        self._layout = layout
        self._clear()

    def _clear(self) -> None:
        self._records: list[bytes] = []
        self._patches: list[int] = []
        self._bytes = 0
        self._depths: dict[str, int] = {}

    def add(self, patch: int, arrays: Arrays) -> SpoolPiece | None:
        """Takes one patch; returns a piece when enough has come together.

        Raises:
            EncodeError: an array has no shape or type of a patch, or there is no such patch.
        """
        patch = int(patch)
        if not 0 <= patch < self._layout.patches.count:
            raise EncodeError(f"patch {patch} is not in 0..{self._layout.patches.count - 1}")
        named = arrays if isinstance(arrays, Mapping) else {DEFAULT_NAME: arrays}
        features, values = [], []
        depths: dict[str, int] = {}
        for name, given in named.items():
            value, depths[name] = self._checked(patch, str(name), np.asarray(given))
            kind = {"f": "float", "i": "int64", "u": "bytes"}[value.dtype.kind]
            features.append(Feature(str(name), kind, value.size))  # type: ignore[arg-type]
            values.append(value)
        if self._depths and depths != self._depths:
            raise EncodeError(f"patch {patch}: bands {depths} where other patches have {self._depths}")
        self._depths = depths
        self._records.append(ExampleLayout(features).encode(values))
        self._patches.append(patch)
        self._bytes += len(self._records[-1])
        return self.finish() if self._bytes >= PIECE_BYTES else None

    def finish(self) -> SpoolPiece | None:
        """Writes what has not been written yet.

        Raises:
            WriteFailed: it cannot be written.
        """
        if not self._records:
            return None
        path = storage.join(self._folder, f"patches-{uuid.uuid4().hex}.tfrecord")
        retrying(lambda: storage.write_parts(path, self._records))
        piece = SpoolPiece(
            path=path,
            patches=np.array(self._patches, np.int64),
            sizes=np.array([len(record) for record in self._records], np.int64),
            depths=self._depths,
        )
        self._clear()
        return piece

    def _checked(self, patch: int, name: str, array: NDArray[Any]) -> tuple[NDArray[Any], int]:
        sizes = (self._layout.patches.patch_width_height, self._layout.patches.stored_width_height)
        if array.ndim not in (2, 3) or (array.shape[-1], array.shape[-2]) not in sizes:
            texts = sorted({f"({height}, {width})" for width, height in sizes})
            raise EncodeError(
                f"patch {patch}, band {name!r}: an array of shape {array.shape}; expected "
                f"{' or '.join(texts)}, or "
                "channels before these"
            )
        if array.dtype == np.bool_:
            array = array.astype(np.uint8)
        if array.dtype.kind == "f":
            array = array.astype(np.float32, copy=False)
        elif array.dtype.kind in "iu" and array.dtype != np.uint8:
            if array.dtype == np.uint64 and array.max(initial=0) > np.uint64(2**63 - 1):
                raise EncodeError(f"patch {patch}, band {name!r}: {array.max()} is above 2**63 - 1")
            array = array.astype(np.int64, copy=False)
        elif array.dtype != np.uint8:
            raise EncodeError(f"patch {patch}, band {name!r}: numbers of type {array.dtype} make no map")
        return array, array.shape[0] if array.ndim == 3 else 1


def join_pieces(
    pieces: Sequence[SpoolPiece], layout: MapLayout, *, allow_missing: bool
) -> tuple[RecordFiles, Ints, MapLayout, Mapping[str, int]]:
    """Puts pieces in order.

    Args:
        pieces: all of them, in any order.
        layout: where patches lie.
        allow_missing: whether patches that did not come are left without data.

    Returns:
        The records, the record of each patch that has one, the layout with just these patches, and the
        channels of each band.

    Raises:
        JobError: a patch came twice, did not come, or was dropped by the export.
    """
    pieces = sorted(pieces, key=lambda piece: piece.path)
    if not pieces:
        raise JobError("predictions: there are none; give at least one a patch")
    files = RecordFiles([_index(piece) for piece in pieces])
    came = np.concatenate([piece.patches for piece in pieces])
    order = np.argsort(came, kind="stable").astype(np.int64)
    came = came[order]
    twice = np.unique(came[1:][came[1:] == came[:-1]])
    if twice.size:
        raise JobError(f"predictions: {len(twice)} patches came twice: {_some(twice)}; give each once")
    due, _ = layout.records_of(0, layout.patches.count)
    unknown = np.setdiff1d(came, due)
    if unknown.size:
        raise JobError(
            f"predictions: {len(unknown)} patches were dropped by the export: {_some(unknown)}; "
            "leave them out"
        )
    missing = np.setdiff1d(due, came)
    if missing.size and not allow_missing:
        raise JobError(
            f"predictions: {len(missing)} of {len(due)} patches are missing: {_some(missing)}; predict them, "
            "or set "
            "allow_missing for a map without data there"
        )
    if missing.size:
        starts = np.flatnonzero(np.concatenate([[True], np.diff(came) > 1]))
        counts = np.diff(np.concatenate([starts, [len(came)]]))
        layout = replace(layout, kept=np.stack([came[starts], counts], axis=1))
    different = [piece for piece in pieces if dict(piece.depths) != dict(pieces[0].depths)]
    if different:
        raise JobError(
            f"predictions: patch {int(different[0].patches[0])} has bands {dict(different[0].depths)}, "
            "others have "
            f"{dict(pieces[0].depths)}"
        )
    return files, order, layout, pieces[0].depths


def _index(piece: SpoolPiece) -> FileIndex:
    offsets = np.concatenate([[0], np.cumsum(piece.sizes)]).astype(np.int64)
    return FileIndex(
        name=piece.path,
        path=piece.path,
        size_bytes=int(offsets[-1]),
        gzip=False,
        records=len(piece.sizes),
        offsets=offsets,
    )


def _some(patches: Ints) -> str:
    text = ", ".join(map(str, patches[:8].tolist()))
    return text if len(patches) <= 8 else f"{text}, …"
