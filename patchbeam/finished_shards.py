"""Shards that an earlier attempt has assembled, and what it has begun to publish.

A shard's descriptor says of which bytes it is made. It is taken up again only when it would be made of the
same bytes now, and when its own are still those that were written.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from patchbeam import storage
from patchbeam.errors import WriteFailed
from patchbeam.finished import DAMAGE, from_text, to_text
from patchbeam.retry import retrying
from patchbeam.shards import AssembledShard, Shard

_LOG = logging.getLogger(__name__)
_PUBLISHING = "publishing"


def write_shard(folder: str, shard: Shard, profile: str | None, done: AssembledShard) -> None:
    """Writes the descriptor of a shard that stands under its temporary name.

    Args:
        folder: the temporary prefix.
        shard: what it is made of.
        profile: how it is compressed.
        done: the shard.
    """
    value = {field.name: getattr(done, field.name) for field in fields(done)}
    value["members"] = base64.b64encode(np.ascontiguousarray(done.members, "<i8").tobytes()).decode("ascii")
    text = to_text([_made_of(shard, profile), value])
    storage.write_atomic(_path(folder, shard.number), text)


def find_shard(folder: str, shard: Shard, profile: str | None) -> AssembledShard | None:
    """Returns the shard that an earlier attempt has left, whole; ``None`` if there is none.

    It may have got its final name already; its temporary file is gone then.
    """
    path = _path(folder, shard.number)
    if not storage.exists(path):
        return None
    try:
        made_of, value = from_text(storage.read_bytes(path))
        members = np.frombuffer(base64.b64decode(value["members"]), "<i8").astype(np.int64).reshape(-1, 2)
        done = AssembledShard(**{**value, "members": members})
    except DAMAGE:
        return None
    if made_of != _made_of(shard, profile) or not isinstance(done.path, str):
        return None
    place = done.path
    if not storage.exists(place):
        names = published_names(folder)
        if names is None or shard.number >= len(names) or not storage.exists(names[shard.number]):
            return None
        place = names[shard.number]
    stat = storage.stat(place)
    if stat.size_bytes != done.stored_bytes or (stat.crc32c or storage.crc32c_of(place)) != done.crc32c:
        return None
    return done


def begin_publication(folder: str, names: Sequence[str]) -> None:
    """Notes under the temporary prefix that shards are now getting their final names."""
    retrying(lambda: storage.write_atomic(storage.join(folder, _PUBLISHING), to_text(list(names))))


def end_publication(folder: str) -> None:
    """Deletes the temporary prefix; the note that publication has begun goes last.

    What cannot be deleted is warned of: it must not fail a run that has published everything.
    """
    note = storage.join(folder, _PUBLISHING)
    failure: WriteFailed | None = None
    for path in storage.list_names(storage.join(folder, "")):
        if path != note:
            try:
                retrying(partial(storage.delete, path))
            except WriteFailed as error:
                failure = failure or error
    try:
        if failure is not None:
            raise failure
        retrying(partial(storage.delete_tree, folder))
    except WriteFailed as error:
        _LOG.warning("everything is published, but temporary files are still at %s: %s", folder, error)


def published_names(folder: str) -> list[str] | None:
    """Returns the final names of the shards once their publication has begun, else ``None``."""
    path = storage.join(folder, _PUBLISHING)
    if not storage.exists(path):
        return None
    try:
        names = from_text(storage.read_bytes(path))
    except DAMAGE:
        return None
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _path(folder: str, number: int) -> str:
    return storage.join(folder, f"shard-{number:05d}.done")


def _made_of(shard: Shard, profile: str | None) -> str:
    spans: list[Any] = [[int(n) for n in (s.stored, s.skip, s.take, s.crc)] for s in shard.spans]
    state = [profile, shard.first_record, shard.records, shard.size_bytes, spans]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()
