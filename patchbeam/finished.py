"""What an interrupted export has finished: descriptors beside the pieces under its temporary prefix.

The prefix is named by the plan's fingerprint, so that whatever lies there belongs to the same plan, the
same sources and the same encoders. A run's descriptor is written after its pieces; a block is finished
when every one of its runs has one and every piece is there with its size and, where the store tells it,
its checksum. Elsewhere the checksum is compared when the piece goes into a shard.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from crc32c import crc32c as crc_of

from patchbeam import storage
from patchbeam.blocks import BlockGrid
from patchbeam.elements import Ints, Piece
from patchbeam.pool import Pool
from patchbeam.retry import retrying
from patchbeam.statistics import Moments
from patchbeam.storage import FileStat

_THREADS = 16
_RUN = ".run"

DAMAGE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
"""What comes of a descriptor that is damaged, or was written by other hands."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finished:
    """The finished blocks of an export.

    Attributes:
        blocks: their numbers, ascending.
        pieces: all of their pieces.
    """

    blocks: Ints
    pieces: tuple[Piece, ...]


def write_run(folder: str, pieces: Sequence[Piece]) -> None:
    """Writes the descriptor of a run whose pieces have all been written.

    Args:
        folder: the temporary prefix.
        pieces: the run's, in order.
    """
    path = _run_path(folder, pieces[0].order[0])
    retrying(lambda: storage.write_atomic(path, to_text([_piece_to_json(piece) for piece in pieces])))


def forget_run(folder: str, first_patch: int) -> None:
    """Deletes the descriptor of a run, so that a resumed run makes it anew.

    Args:
        folder: the temporary prefix.
        first_patch: of the run.
    """
    storage.delete(_run_path(folder, first_patch))


def find_finished(folder: str, blocks: BlockGrid) -> Finished:
    """Looks for finished blocks.

    Args:
        folder: the temporary prefix.
        blocks: of the plan.
    """
    files = storage.list_stats(storage.join(folder, ""))
    numbers, pieces = [], []
    with Pool(_THREADS) as pool:
        candidates = [
            (block, [_run_path(folder, run.first) for run in blocks.runs(block)])
            for block in range(blocks.count)
        ]
        whole = [(block, paths) for block, paths in candidates if all(path in files for path in paths)]
        for block, found in pool.map(lambda one: (one[0], _pieces_of(one[1], files)), whole):
            if found is not None:
                numbers.append(block)
                pieces.extend(found)
    return Finished(blocks=np.array(numbers, np.int64), pieces=tuple(pieces))


def save_finished(path: str, finished: Finished) -> None:
    """Writes what has been found as one file, for the workers."""
    value = [finished.blocks.tolist(), [_piece_to_json(piece) for piece in finished.pieces]]
    retrying(lambda: storage.write_atomic(path, to_text(value)))


def load_finished(path: str) -> Finished:
    """Reads what :func:`save_finished` wrote.

    Raises:
        ReadFailed: it is not there.
        ValueError: it is damaged.
    """
    blocks, pieces = from_text(retrying(lambda: storage.read_bytes(path)))
    return Finished(blocks=np.array(blocks, np.int64), pieces=tuple(map(_piece_from_json, pieces)))


def to_text(value: Any) -> bytes:
    """Returns JSON after a line with its checksum."""
    text = json.dumps(value, separators=(",", ":")).encode()
    return b"%08x\n%s" % (crc_of(text), text)


def from_text(data: bytes) -> Any:
    """Returns the value that :func:`to_text` wrote.

    Raises:
        ValueError: it is damaged.
    """
    head, _, text = data.partition(b"\n")
    if head != b"%08x" % crc_of(text):
        raise ValueError(f"the checksum is not that of the {len(text)} bytes that follow")
    return json.loads(text)


def _run_path(folder: str, first_patch: int) -> str:
    return storage.join(folder, f"{first_patch:012d}{_RUN}")


def _pieces_of(paths: Iterable[str], files: Mapping[str, FileStat]) -> list[Piece] | None:
    """Returns the pieces of a block's runs, or ``None`` unless all are there."""
    pieces: list[Piece] = []
    for path in paths:
        try:
            pieces.extend(map(_piece_from_json, from_text(storage.read_bytes(path))))
        except (OSError, *DAMAGE):
            return None
    try:
        return pieces if all(_is_whole(piece, files) for piece in pieces) else None
    except DAMAGE:
        return None


def _is_whole(piece: Piece, files: Mapping[str, FileStat]) -> bool:
    if not piece.records:
        return True
    # a path elsewhere is that of a descriptor that was copied from another plan's folder: not among them
    stat = files.get(piece.path)
    size = int(piece.members[:, 2].sum())
    if piece.start is not None:
        return stat is not None and stat.size_bytes >= piece.start + size
    return (
        stat is not None
        and stat.size_bytes == size
        and stat.crc32c in (None, storage.crc32c_text(int(piece.sums[-1])))
    )


def _piece_to_json(piece: Piece) -> dict[str, Any]:
    return {
        "path": piece.path,
        "order": piece.order,
        "patches": piece.patches,
        "kept": _ints_to_json(piece.kept),
        "recordSize": piece.record_size,
        "members": _ints_to_json(piece.members),
        "sums": _ints_to_json(piece.sums),
        "moments": [asdict(moments) for moments in piece.moments],
        "rounded": piece.rounded,
        "start": piece.start,
    }


def _piece_from_json(value: Any) -> Piece:
    first, part = value["order"]
    return Piece(
        path=value["path"],
        order=(first, part),
        patches=value["patches"],
        kept=_ints_from_json(value["kept"], 2),
        record_size=value["recordSize"],
        members=_ints_from_json(value["members"], 3),
        sums=_ints_from_json(value["sums"], 1).reshape(-1),
        moments=tuple(Moments(**moments) for moments in value["moments"]),
        rounded=tuple(value["rounded"]),
        start=value["start"],
    )


def _ints_to_json(values: Ints) -> str:
    return base64.b64encode(np.ascontiguousarray(values, "<i8").tobytes()).decode("ascii")


def _ints_from_json(text: str, columns: int) -> Ints:
    return np.frombuffer(base64.b64decode(text), "<i8").astype(np.int64).reshape(-1, columns)
