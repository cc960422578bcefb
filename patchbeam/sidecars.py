"""What lies beside record files: from a file to its manifest or mixer, from a prefix to all of its files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from patchbeam import storage
from patchbeam.errors import JobError
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer
from patchbeam.records.names import existing_outputs, manifest_name

_MOST_MIXER_BYTES = 1 << 20
"""A mixer is a handful of lines and maybe the text of a CRS."""

_SHARD = re.compile(r"(?P<stem>.*?)-?(?:\d{5,}(?:-of-\d{5,})?)?\.tfrecord(?:\.gz)?", re.S)


def find_sidecar(path: str) -> tuple[Manifest | None, Mixer | None, str | None]:
    """Finds the manifest, else the mixer, of the export that a record file belongs to.

    Raises:
        JobError: there is one and it is damaged.
    """
    folder, name = storage.split(path)
    match = _SHARD.fullmatch(name)
    if match is None:
        return None, None, None
    stem = match["stem"]
    # the shards of a split carry its name: scene-train-00000
    for prefix in (stem, stem.rpartition("-")[0]):
        beside = storage.join(folder, manifest_name(prefix)) if prefix else ""
        if prefix and storage.exists(beside):
            manifest = Manifest.from_text(storage.read_bytes(beside), beside)
            if name in {shard.name for shard in manifest.shards}:
                return manifest, None, storage.split(beside)[1]
    for ending in ("-mixer.json", "mixer.json", ".json"):
        beside = storage.join(folder, stem + ending)
        if stem and storage.exists(beside):
            return None, Mixer.from_text(storage.read_bytes(beside), beside), stem + ending
    return None, None, None


def own_outputs(names: Iterable[str], prefix: str, *, splits: Sequence[str] = ()) -> list[str]:
    """Returns those of ``names`` that an earlier export with this prefix has written, sorted.

    ``PREFIX.json`` is the mixer of an export of one shard in the ``gcs`` naming. Job files, regions and
    features are called so too: only one that reads as a mixer counts, the others are not to be deleted.

    Args:
        names: of files that are there.
        prefix: of the export.
        splits: names of the export's splits.

    Raises:
        ReadFailed: ``PREFIX.json`` cannot be read.
    """
    plain = f"{prefix}.json"
    found = existing_outputs(names, prefix, splits=splits)
    return [name for name in found if name != plain or _is_mixer(plain)]


def _is_mixer(path: str) -> bool:
    if storage.stat(path).size_bytes > _MOST_MIXER_BYTES:
        return False
    try:
        Mixer.from_text(storage.read_bytes(path), path)
    except JobError:
        return False
    return True
