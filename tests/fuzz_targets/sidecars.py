"""Small files beside outputs: mixers, manifests, descriptors of pieces and shards, locks, marks of tiles."""

from __future__ import annotations

import json
import os
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import Target, changed, damaged, json_text
from small_export import make

from fuzz_targets.places import folder, put
from patchbeam.blocks import BlockGrid
from patchbeam.data.recordset import _place
from patchbeam.data.schema import SetSchema
from patchbeam.errors import JobError, LockHeld
from patchbeam.finished import find_finished, from_text, to_text
from patchbeam.finished_shards import find_shard, published_names
from patchbeam.lock import OutputLock
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.plan import read_sidecar
from patchbeam.patches import PatchGrid
from patchbeam.shards import Shard

MIXER = {
    "projection": {"crs": "EPSG:32633", "affine": {"doubleMatrix": [10.0, 0.0, 5e5, 0.0, -10.0, 5.3e6]}},
    "patchDimensions": [16, 16],
    "patchesPerRow": 3,
    "totalPatches": 9,
}
JOBS: tuple[dict[str, Any], ...] = (
    {},
    {"gzip": "zlib6", "formatOptions": {"maskedThreshold": 0.05}},
    {"split": {"train": 0.5, "test": 0.5, "block": [1, 1], "seed": 1}},
    {"formatOptions": {"sequenceData": True, "patchDimensions": 8, "kernelSize": 1}, "maskBand": None},
)


@cache
def manifests() -> list[Any]:
    """Manifests of exports of several kinds."""
    with tempfile.TemporaryDirectory() as name:
        found = []
        for number, job in enumerate(JOBS):
            place = Path(name) / str(number)
            place.mkdir()
            prefix = make(place, **{"maskBand": "valid", **json.loads(json.dumps(job))})
            found.append(json.loads(Path(f"{prefix}-manifest.json").read_text()))
        return found


def mixer(chance: random.Random) -> bytes:
    return json_text(chance, MIXER)


def read_mixer(data: bytes) -> None:
    read = Mixer.from_text(data)
    assert Mixer.from_text(read.to_text()) == read
    layout = MapLayout.from_mixer(read)
    assert layout.kept_count == read.total_patches


def manifest(chance: random.Random) -> bytes:
    return json_text(chance, chance.choice(manifests()))


def read_manifest(data: bytes) -> None:
    read = Manifest.from_text(data, "scene-manifest.json")
    # NaN is written and read as a text, so that equal texts are equal manifests
    assert Manifest.from_text(read.to_text(), "again").to_text() == read.to_text()
    layout = MapLayout.from_manifest(read)
    layout.records_of(0, 3)


def sidecar(chance: random.Random) -> bytes:
    return json_text(chance, chance.choice([MIXER, *manifests()]))


def read_either(data: bytes) -> None:
    read_sidecar(put("sidecars", "scene-manifest.json", data))


SET = {
    "profile": "typed",
    "modalities": [
        {"name": "image", "dtype": "uint8", "container": "uint8", "shape": [3, 8, 8], "layout": "CHW", "wire": "bytes", "encoding": "packed"},  # noqa: E501
        {"name": "label", "dtype": "int64", "container": "int64", "shape": [], "wire": "int64", "encoding": "list"},  # noqa: E501
    ],
    "place": {"columnsRows": [3, 3], "patchDimensions": [16, 16], "margin": [4, 4], "crs": "EPSG:32633", "affine": [10.0, 0.0, 5e5, 0.0, -10.0, 5.3e6], "ranges": [[0, 9]]},  # noqa: E501
}  # fmt: skip


def dataset(chance: random.Random) -> Any:
    return changed(chance, SET)


def read_dataset(value: Any) -> None:
    schema = SetSchema.from_json(value, "scene")
    json.dumps(schema.to_json())
    for field in schema.fields:
        assert field.channels >= 0
    if isinstance(value, dict):
        _place(value, 0, 9, 9)


PATCHES = PatchGrid(width=48, height=48, patch_width_height=(16, 16))
BLOCKS = BlockGrid(patches=PATCHES, columns_rows=(3, 1), run_patches=3)


@cache
def piece_folder() -> Path:
    made = folder("pieces")
    (made / "000000000000-0000").write_bytes(bytes(30))
    return made


def run_file(chance: random.Random) -> bytes:
    """The descriptor of a run; what is changed has a checksum all the same, most times."""
    members = np.array([[3, 60, 30]], "<i8")
    value = [
        {
            "path": str(piece_folder() / "000000000000-0000"),
            "order": [0, 0],
            "patches": 3,
            "kept": _b64(np.array([[0, 3]], "<i8")),
            "recordSize": 20,
            "members": _b64(members),
            "sums": _b64(np.array([[7]], "<i8")),
            "moments": [{"count": 3, "minimum": 0.0, "maximum": 1.0, "mean": 0.5, "m2": 0.1}],
            "rounded": [],
        }
    ]
    try:
        data = to_text(changed(chance, value))
    except UnicodeEncodeError:
        data = b""
    return damaged(chance, data) if chance.random() < 0.1 else data


def _b64(values: Any) -> str:
    import base64

    return base64.b64encode(values.tobytes()).decode()


def read_run(data: bytes) -> None:
    place = piece_folder()
    (place / "000000000000.run").write_bytes(data)
    found = find_finished(str(place), BLOCKS)
    for piece in found.pieces:
        assert not piece.records or piece.path == str(place / "000000000000-0000")
    from_text_or_refuse(data)


def from_text_or_refuse(data: bytes) -> None:
    try:
        from_text(data)
    except ValueError as error:
        raise JobError(f"refused: {error}") from None


SHARD = Shard(number=0, first_record=0, records=3, size_bytes=60, spans=())


def shard_file(chance: random.Random) -> bytes:
    from patchbeam.finished_shards import _made_of

    value = {
        "number": 0,
        "path": str(piece_folder() / "000000000000-0000"),
        "records": 3,
        "first_record": 0,
        "size_bytes": 60,
        "stored_bytes": 30,
        "crc32c": "AAAAAA==",
        "members": _b64(np.array([[30, 3]], "<i8")),
    }
    whole = [_made_of(SHARD, "indexed"), value]
    tree = changed(chance, whole) if chance.random() < 0.5 else [whole[0], changed(chance, value)]
    return to_text(tree)


def read_shard(data: bytes) -> None:
    place = folder("shards")
    (place / "shard-00000.done").write_bytes(data)
    (place / "publishing").write_bytes(data if len(data) % 2 else to_text(["a", data.decode("latin-1")]))
    names = published_names(str(place))
    assert names is None or all(isinstance(name, str) for name in names)
    if find_shard(str(place), SHARD, "indexed") is None and names is None:
        raise JobError("refused")


LOCK = {
    "token": "ab" * 16,
    "machine": "m|b|n",
    "process": 1,
    "started": "2026-01-01T00:00:00+00:00",
    "born": "1",
}


def lock(chance: random.Random) -> bytes:
    return json_text(chance, LOCK)


def read_lock(data: bytes) -> None:
    path = put("locks", ".scene.lock", data)
    os.utime(path, (0, 0))  # nobody has renewed it for years
    try:
        with OutputLock(str(folder("locks") / "scene"), take_over=True):
            pass
    except LockHeld as error:
        assert "another run" in str(error)
        raise


TARGETS = [
    Target(name="mixers", make=mixer, read=read_mixer, short=1500, long=50_000),
    Target(name="manifests", make=manifest, read=read_manifest, short=500, long=20_000),
    Target(name="sidecars", make=sidecar, read=read_either, short=300, long=6_000),
    Target(name="set-schemas", make=dataset, read=read_dataset, short=1500, long=50_000),
    Target(name="run-descriptors", make=run_file, read=read_run, short=300, long=8_000),
    Target(name="shard-descriptors", make=shard_file, read=read_shard, short=300, long=8_000),
    Target(name="locks", make=lock, read=read_lock, short=150, long=6_000),
]
