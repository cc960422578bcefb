"""Parts joined into one local file. Called through :mod:`patchbeam.storage`."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from patchbeam.pool import Pool
from patchbeam.storage.base import (
    TEMPORARY,
    FileRange,
    FileStat,
    Piece,
    ReadChunks,
    is_remote,
    read_failed,
    write_failed,
)
from patchbeam.storage.local import stat
from patchbeam.storage.replace import UNSUPPORTED, Replacing
from patchbeam.storage.steps import writing


def concat(
    pieces: Sequence[Piece], destination: str, *, consume: bool, fetch: ReadChunks, threads: int
) -> FileStat:
    """Joins parts into one file; ``fetch`` reads the paths that are not local."""
    pieces = _merged(pieces)
    if consume and len(pieces) == 1 and not isinstance(pieces[0], np.ndarray):
        whole = _whole_file(pieces[0])
        if whole is not None and _take_over(whole, destination):
            return stat(destination)
    with Pool(threads) as pool, Replacing(destination) as target:
        for piece in pieces:
            if isinstance(piece, np.ndarray):
                target.write(piece)
            elif is_remote(path := piece if isinstance(piece, str) else piece.path):
                start, length = (0, None) if isinstance(piece, str) else (piece.start, piece.length)
                for data in fetch(path, start, length):
                    target.write(data)
            else:
                target.copy(piece, pool)
    return replace(stat(destination), crc32c=target.sum.text)


def _merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Makes one range of those that follow each other in one file: the whole of it perhaps."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if (
            isinstance(piece, FileRange)
            and isinstance(last, FileRange)
            and piece.path == last.path
            and piece.start == last.start + last.length
        ):
            merged[-1] = replace(last, length=last.length + piece.length)
        else:
            merged.append(piece)
    return merged


def _whole_file(piece: str | FileRange) -> str | None:
    if isinstance(piece, str):
        return None if is_remote(piece) else piece
    if piece.start or is_remote(piece.path) or stat(piece.path).size_bytes != piece.length:
        return None
    return piece.path


def _take_over(piece: str, destination: str) -> bool:
    """Makes the piece the destination; false where only a copy can do it.

    A hard link is tried first: the piece then stays where it is, so that a task that is run twice finds
    it again, and no byte moves. Pieces are not changed any more by then, so sharing one is safe.
    """
    with writing(destination, "create"):
        os.makedirs(os.path.dirname(destination) or ".", exist_ok=True)
    temporary = os.path.join(os.path.dirname(destination), f"{TEMPORARY}{secrets.token_hex(8)}.tmp")
    try:
        os.link(piece, temporary)
        os.replace(temporary, destination)
        # When both were one file already, replace has done nothing and the extra name is still there.
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        return True
    except FileNotFoundError as error:
        raise read_failed(piece, "move", error) from error
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary)
        if error.errno not in UNSUPPORTED:
            raise write_failed(destination, f"move {piece} here", error) from error
    try:
        os.replace(piece, destination)
    except OSError as error:
        if error.errno == errno.EXDEV:
            return False
        raise write_failed(destination, f"move {piece} here", error) from error
    return True
