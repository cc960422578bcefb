"""Small inputs that ask for much: refused by arithmetic, or read in bounded memory, before it is taken."""

from __future__ import annotations

import gzip
import io
import json
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import bounded_memory

from patchbeam.data.errors import DataError
from patchbeam.data.loaders import load
from patchbeam.errors import CorruptRecord, JobError, PatchbeamError, SourceError
from patchbeam.inspect import inspect_file
from patchbeam.manifest import Manifest
from patchbeam.mixer import Mixer
from patchbeam.mosaic.plan import read_sidecar
from patchbeam.npy import read_npy
from patchbeam.rasters.catalog.stac import load as load_stac
from patchbeam.rasters.tiff import check_tiff
from patchbeam.records.crc import masked_crc
from patchbeam.records.memberindex import read_member_index
from patchbeam.records.tfrecord import frame, read_records, record_offsets
from pipelines.jobfile.load import load_job
from pipelines.jobfile.yamltext import parse_yaml
from pipelines.prices import load_prices

LITTLE = 128 << 20
"""Address space that any of these may take."""
DEEP = 100_000


def assert_refused(read: Callable[[], Any], kind: type[PatchbeamError], text: str | None = None) -> None:
    begin = time.process_time()
    with bounded_memory(LITTLE), pytest.raises(kind, match=text):
        read()
    assert time.process_time() - begin < 10


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc(packed))


@pytest.mark.parametrize("length", [1 << 60, (1 << 64) - 1, 1 << 40, (1 << 31) - 1])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_record_length(tmp_path: Path, length: int, compressed: bool) -> None:
    data = frame(b"first") + header(length) + b"some"
    stored = gzip.compress(data) if compressed else data
    assert_refused(lambda: list(read_records(io.BytesIO(stored))), CorruptRecord, "record 1, byte 21")
    if not compressed:
        assert_refused(lambda: record_offsets(data), CorruptRecord)
    path = tmp_path / "a.tfrecord"
    path.write_bytes(stored)
    assert_refused(lambda: inspect_file(str(path)), CorruptRecord)


@pytest.mark.parametrize("where", ["records", "idx"])
def test_a_gzip_bomb(where: str) -> None:
    """A quarter of a gigabyte in a megabyte: no record, or a longer array than it says."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    head = {"records": b"", "idx": b"\0\0\x08\x01" + struct.pack(">I", 5)}[where]
    bomb = packer.compress(head) + b"".join(packer.compress(zeros) for _ in range(256)) + packer.flush()
    assert len(bomb) < 1 << 21
    if where == "idx":
        assert_refused(lambda: load(bomb, "idx"), DataError, "more than the 13 bytes")
    elif where == "records":
        assert_refused(lambda: list(read_records(io.BytesIO(bomb))), CorruptRecord, "record 0, byte 0")


def laughs(depth: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, depth)]
    return "\n".join(["job: export-image", *lines])


@pytest.mark.parametrize("depth", [3, 9, 30])
def test_a_billion_laughs(tmp_path: Path, depth: int) -> None:
    """References in YAML that double and double again."""
    path = tmp_path / "job.yaml"
    path.write_text(laughs(depth))
    assert_refused(lambda: load_job(str(path)), JobError)
    assert_refused(lambda: load_prices(str(path)), JobError)


def test_merges_of_merges(tmp_path: Path) -> None:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}" for i in range(1, 12)]
    with bounded_memory(LITTLE):
        try:
            assert parse_yaml("\n".join(lines), "x")["a11"] == {"x": 1}
        except JobError as error:
            assert "keys come of its merges" in str(error)


@pytest.mark.parametrize(
    "text", ["[" * DEEP, "{a: " * DEEP, '{"a":' * DEEP, "- " * DEEP, "a: &a [*a]", "&a {b: *a}"]
)
def test_depth(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    assert_refused(lambda: load_job(str(path)), JobError)
    assert_refused(lambda: load_prices(str(path)), JobError)
    stac = tmp_path / "catalog.json"
    stac.write_text(text)
    assert_refused(lambda: Mixer.from_text(text), JobError)
    assert_refused(lambda: Manifest.from_text(text, "m"), JobError)
    assert_refused(lambda: read_sidecar(str(stac)), JobError)
    assert_refused(lambda: load_stac(str(stac), "sources.s2"), SourceError)


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 100_000, "1e400", "-1e400", "1" + "0" * 300])
def test_numbers(digits: str) -> None:
    mixer = {
        "projection": {"crs": "EPSG:32633", "affine": {"doubleMatrix": [1, 0, 0, 0, 1, 0]}},
        "patchDimensions": [16, 16],
        "patchesPerRow": 1,
        "totalPatches": "HERE",
    }
    assert_refused(lambda: Mixer.from_text(json.dumps(mixer).replace('"HERE"', digits)), JobError)
    mixer["projection"]["affine"]["doubleMatrix"][0] = "HERE"  # type: ignore[index]
    mixer["totalPatches"] = 1
    text = json.dumps(mixer).replace('"HERE"', digits)
    if digits != "1" + "0" * 300:  # that one is finite
        assert_refused(lambda: Mixer.from_text(text), JobError)
    with bounded_memory(LITTLE), suppress(JobError):
        parse_yaml(f"a: {digits}", "x")


def tiff(entries: list[tuple[int, int, int, int]], after: int = 0) -> bytes:
    rows = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(entries)) + rows + struct.pack("<I", after)


def test_a_block_that_claims_terabytes(tmp_path: Path) -> None:
    path = tmp_path / "a.tif"
    side = 1 << 20
    sides = [(256, 4, 1, side), (257, 4, 1, side), (322, 4, 1, side), (323, 4, 1, side)]
    path.write_bytes(tiff([*sides, (258, 3, 1, 32), (324, 4, 1, 8), (325, 4, 1, 4)]))
    assert_refused(
        lambda: check_tiff(str(path), "sources.a"), SourceError, "4398046511104 bytes once decoded"
    )


def test_directories_that_lie_over_each_other(tmp_path: Path) -> None:
    """Each of 4096 directories has 65,535 entries, all in the same bytes."""
    path = tmp_path / "a.tif"
    data = bytearray(1 << 20)
    data[:8] = b"II*\0" + struct.pack("<I", 8)
    for n in range(4096):
        at = 8 + 4 * n
        data[at : at + 2] = b"\xff\xff"
        end = at + 2 + 0xFFFF * 12
        data[end : end + 4] = struct.pack("<I", at + 4)
    path.write_bytes(bytes(data))
    assert_refused(lambda: check_tiff(str(path), "sources.a"), SourceError, "lie over each other")


def npy(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("shape", [(1 << 50,), (1 << 20, 1 << 20), (1 << 62, 1 << 62), (-1,), (1 << 40, 0)])
def test_an_array_that_claims_terabytes(shape: tuple[int, ...]) -> None:
    data = npy(shape)
    if 0 in shape:  # an array of nothing takes nothing
        assert read_npy(io.BytesIO(data)).size == 0
    else:
        assert_refused(lambda: load(data, "npy"), DataError)
    import zipfile

    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in ("shardMembers", "memberBytes", "memberRecords"):
            archive.writestr(f"{name}.npy", data)
    assert_refused(lambda: read_member_index(target.getvalue(), "i.npz"), CorruptRecord)


def test_pictures_that_claim_much() -> None:
    for data, kind in [
        (b"P5 999999 999999 255\n\0", "pnm"),
        (b"P5 " + b"9" * 5000 + b" 1 255\n\0", "pnm"),
        (b"\0\0\x0e\x08" + b"\xff" * 32, "idx"),
        (
            b"BM"
            + struct.pack("<IHHIIiiHHIIiiII", 100, 0, 0, 54, 40, 40_000, 40_000, 1, 24, 0, 0, 0, 0, 0, 0),
            "bmp",
        ),
    ]:
        assert_refused(lambda data=data, kind=kind: load(data, kind), DataError)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", "", "a\\b", "a\0"])
def test_names_that_lead_out_of_the_folder(name: str) -> None:
    from fuzz_targets.sidecars import manifests

    for key in ("shards", "index"):
        document = json.loads(json.dumps(manifests()[0]))
        if key == "shards":
            document["shards"][0]["name"] = name
        else:
            document["index"] = name
        with pytest.raises(JobError, match="is not the name of a file beside the manifest"):
            Manifest.from_text(json.dumps(document), "m")


def test_ranges_of_more_patches_than_there_are() -> None:
    from fuzz_targets.sidecars import manifests

    document = json.loads(json.dumps(manifests()[0]))
    document["keptPatches"] = [[0, 10**15]]
    assert_refused(lambda: Manifest.from_text(json.dumps(document), "m"), JobError, "keptPatches")
    assert np.iinfo(np.int64).max > 10**15
