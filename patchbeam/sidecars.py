"""From a record file to what lies beside it: the manifest of its export, else the mixer."""

from __future__ import annotations

import re

from patchbeam import storage
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer
from patchbeam.records.names import manifest_name

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
