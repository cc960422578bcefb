"""What training data come as: images, arrays, classic sets, archives, tables, items of converted sets."""

from __future__ import annotations

import gzip
import io
import random
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import archives
import numpy as np
from fuzzing import Target, damaged

from fuzz_targets.places import put
from patchbeam.data.extract import extract
from patchbeam.data.generated import GeneratedShapes
from patchbeam.data.itemcodec import ItemCodec
from patchbeam.data.loaders import load
from patchbeam.data.schema import schema_of
from patchbeam.records.parse import ExampleDecoder
from patchbeam.records.tfrecord import frame, read_records
from patchbeam.tables.readers import open_table, read_batches

PIXELS = np.arange(12 * 9 * 3, dtype=np.uint8).reshape(12, 9, 3)


def _saved(write: Any, *values: Any, **named: Any) -> bytes:
    target = io.BytesIO()
    write(target, *values, **named)
    return target.getvalue()


@cache
def files() -> dict[str, list[bytes]]:
    """Good files by format."""
    numbers = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    idx = archives.idx(PIXELS[..., 0])
    return {
        "idx": [idx, archives.idx(numbers), gzip.compress(idx, mtime=0)],
        "cifar10": [bytes(range(256)) * 24 + bytes(2)],
        "cifar100": [bytes(range(256)) * 24 + bytes(4)],
        "pnm": [
            b"P5 9 12 255\n" + PIXELS[..., 0].tobytes(),
            b"P6 # a comment\n9 12 65535\n" + PIXELS.astype(">u2").tobytes(),
            b"P2 3 2 9\n1 2 3 # more\n4 5 6\n",
            b"P3 1 2 9\n1 2 3 4 5 6\n",
        ],
        "npy": [_saved(np.save, numbers), _saved(np.save, np.asfortranarray(numbers.astype("f4")))],
        "npz": [_saved(np.savez, a=numbers), _saved(np.savez_compressed, a=numbers)],
        "png": [archives.picture(PIXELS), archives.picture(PIXELS[..., 0])],
        "jpeg": [archives.picture(PIXELS, "JPEG")],
        "bmp": [archives.picture(PIXELS, "BMP")],
        "gif": [archives.picture(PIXELS[..., 0], "GIF")],
        "tfrecord": [frame(b"\n\x0e\n\x0c\n\x01a\x12\x07\x12\x05\n\x03abc")],
    }


_PLAIN = ("idx", "cifar10", "cifar100", "pnm", "npy", "npz", "tfrecord")
_PICTURES = ("png", "jpeg", "bmp", "gif")
_HEADERS = (
    b"P5 ",
    b"P6 ",
    b"P2 ",
    b"\0\0\x08\x03",
    b"\0\0\x0e\x04",
    b"P5 99999999 99999999 255\n",
    b"\x93NUMPY\1\0",
)


def plain(chance: random.Random) -> tuple[str, bytes]:
    kind = chance.choice(_PLAIN)
    if chance.random() < 0.05:
        return kind, chance.choice(_HEADERS) + chance.randbytes(chance.randrange(40))
    data = damaged(chance, chance.choice(files()[kind]), files()[kind])
    return kind, gzip.compress(data, 1, mtime=0) if kind == "idx" and chance.random() < 0.2 else data


def picture(chance: random.Random) -> tuple[str, bytes]:
    kind = chance.choice(_PICTURES)
    return kind, damaged(chance, chance.choice(files()[kind]), files()[kind])


def read_loaded(given: tuple[str, bytes]) -> None:
    kind, data = given
    found = load(data, kind)
    assert isinstance(found, np.ndarray) and not found.dtype.hasobject


NAMES = (
    "a.txt",
    "d/",
    "d/b.txt",
    "../up.txt",
    "/etc/x",
    "d/../../up",
    "a.txt/b",
    "é",
    "x" * 200,
    ".",
    "C:\\x",
    "a\0b",
)


def archive(chance: random.Random) -> bytes:
    names = chance.sample(NAMES, chance.randrange(1, 4))
    inside = {name: chance.randbytes(chance.randrange(40)) for name in names}
    made = archives.tgz(inside) if chance.random() < 0.5 else archives.zipped(inside)
    if chance.random() < 0.3 and made[:2] == b"\x1f\x8b":
        return damaged(chance, gzip.decompress(made))
    return damaged(chance, made) if chance.random() < 0.7 else made


def read_archive(data: bytes) -> None:
    path = Path(put("archives", "some.archive", data))
    target = path.parent / "inside"
    try:
        extract(path, target / "deep")
    finally:
        outside = {p.name for p in path.parent.iterdir()}
        outside |= {p.name for p in target.iterdir()} if target.exists() else set()
        assert outside <= {"some.archive", "inside", "deep"}, outside
        shutil.rmtree(target, ignore_errors=True)


TABLES = {
    "csv": b'longitude,latitude,class,name\n15.1,47.2,1,a\n15.2,47.3,2,"b, c"\n15.3,47.4,3,\n',
    "geojson": b'{"type":"FeatureCollection","features":[{"type":"Feature","id":1,"properties":{"n":1,"m":""}'
    b',"geometry":{"type":"Point","coordinates":[15.1,47.2]}},{"type":"Feature","id":2,"properties":{"n":2},'
    b'"geometry":{"type":"Polygon","coordinates":[[[15,47],[15.1,47],[15,47.1],[15,47]]]}}]}',
}


def table(chance: random.Random) -> tuple[str, bytes]:
    kind = chance.choice(sorted(TABLES))
    return kind, damaged(chance, TABLES[kind])


def read_table(given: tuple[str, bytes]) -> None:
    kind, data = given
    source = open_table(put("tables", f"some.{kind}", data))
    names = list(source.columns)
    for batch in read_batches(source, [column.name for column in names], ids=True, geometry=True):
        assert batch.values.num_rows


@cache
def coded() -> tuple[ItemCodec, list[bytes]]:
    shapes = GeneratedShapes(4, size=8, seed=1)
    schema = schema_of(shapes, "packed", shapes={"image": (3, None, None)})
    codec = ItemCodec(schema)
    encoded = codec.encode([shapes.load(i) for i in range(4)], 0)
    return codec, [bytes(data) for data in read_records(io.BytesIO(bytes(encoded.data)))]


def item(chance: random.Random) -> bytes:
    records = coded()[1]
    return damaged(chance, chance.choice(records), records)


_DECODER = ExampleDecoder()


def read_item(data: bytes) -> None:
    codec, _ = coded()
    codec.decode(_DECODER.decode(data), "record 0")


TARGETS = [
    Target(name="arrays", make=plain, read=read_loaded, short=2000, long=120_000),
    Target(name="pictures", make=picture, read=read_loaded, short=600, long=30_000),
    Target(name="archives", make=archive, read=read_archive, short=200, long=6_000),
    Target(name="tables", make=table, read=read_table, short=200, long=6_000),
    Target(name="items", make=item, read=read_item, short=1500, long=80_000),
]
