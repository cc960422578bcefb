"""Every kind of damage to the shards is found, and named by file, record and byte."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
from shared import shared_data
from small_export import FORMS, copy_of, flip, found, make, run, shard

from patchbeam.errors import JobError
from patchbeam.records.crc import masked_crc
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.gzip import iter_members, member
from patchbeam.records.tfrecord import frame, read_records
from patchbeam.verify import verify


@pytest.mark.parametrize("form", FORMS)
def test_an_undamaged_export(tmp_path: Path, form: str) -> None:
    prefix = copy_of(form, tmp_path)
    report = run(prefix, sources=4)
    assert report.ok, report.findings
    assert [s.records for s in report.shards] == [3, 3, 3]
    manifest = json.loads(Path(f"{prefix}-manifest.json").read_text())
    assert [s.crc32c for s in report.shards] == [s["crc32c"] for s in manifest["shards"]]
    assert [s.size_bytes for s in report.shards] == [s["uncompressedBytes"] for s in manifest["shards"]]
    due = {"manifest", "mixer", "shards", "stored", "records", "layout", "order", "sources"}
    assert set(report.checked) == due | ({"index"} if form == "indexed" else set())


@pytest.mark.parametrize("form", FORMS)
def test_with_the_mixer_alone(tmp_path: Path, form: str) -> None:
    prefix = copy_of(form, tmp_path)
    Path(f"{prefix}-manifest.json").unlink()
    report = run(prefix)
    assert report.ok, report.findings
    assert {"mixer", "records", "layout", "order"} <= set(report.checked)
    assert "manifest" in report.skipped


def test_a_bit_in_the_data(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    size = shard(prefix, 1).stat().st_size // 3
    flip(shard(prefix, 1), 2 * size + size // 2)
    report = run(prefix)
    (finding,) = report.findings
    assert (finding.about, finding.file) == ("records", str(shard(prefix, 1)))
    assert (finding.record, finding.byte) == (2, 2 * size)
    assert "CRC" in finding.text


@pytest.mark.parametrize("at", [0, 7, 9])
def test_a_bit_in_the_header_of_a_record(tmp_path: Path, at: int) -> None:
    prefix = copy_of("plain", tmp_path)
    size = shard(prefix, 1).stat().st_size // 3
    flip(shard(prefix, 1), size + at)
    (finding,) = run(prefix).findings
    assert (finding.record, finding.byte, finding.about) == (1, size, "records")


def test_a_bit_in_the_first_header(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    flip(shard(prefix, 0), 3)
    (finding, *_) = found(run(prefix), about="records")
    assert (finding.record, finding.byte) == (0, 0)


@pytest.mark.parametrize("at", [0, 17, 24, 40, -6, -2])
def test_a_bit_in_a_gzip_member(tmp_path: Path, at: int) -> None:
    prefix = copy_of("indexed", tmp_path)
    path = shard(prefix, 2)
    place = next(iter_members(path.read_bytes()))
    flip(path, place.offset + (at if at >= 0 else place.size + at))
    findings = found(run(prefix), file=str(path))
    assert any(f.about == "records" and (f.record, f.byte, f.stored_byte) == (0, 0, 0) for f in findings), (
        findings
    )


@pytest.mark.parametrize("at", [5, 12])
def test_a_bit_that_only_our_readers_look_at(tmp_path: Path, at: int) -> None:
    prefix = copy_of("indexed", tmp_path)
    flip(shard(prefix, 2), at)
    findings = found(run(prefix), about="stored", file=str(shard(prefix, 2)))
    assert any("one stream of gzip" in f.text for f in findings)


def test_a_damaged_member_does_not_hide_the_next(tmp_path: Path) -> None:
    prefix = make(
        tmp_path,
        formatOptions={"patchDimensions": [96, 96], "maxFileSize": 1 << 30, "kernelSize": [1, 1]},
        edge="pad",
    )
    path = shard(prefix, 0)
    data = [bytes(r) for r in read_records(path)] * 3
    path.write_bytes(b"".join(member(frame(record)) for record in data))
    places = list(iter_members(path.read_bytes()))
    flip(path, places[0].offset + 100)
    flip(path, places[1].offset + 18, 0x10)  # its size
    report = run(prefix)
    lost = found(report, file=str(path), about="records")
    assert [(f.record, f.stored_byte) for f in lost] == [(0, places[0].offset), (1, places[1].offset)]
    assert found(report, about="shards", file=str(path))[0].text == "holds 3 records, and the manifest says 1"


@pytest.mark.parametrize("at", [0, 200, -5])
def test_a_bit_in_a_stream_of_gzip(tmp_path: Path, at: int) -> None:
    prefix = copy_of("zlib6", tmp_path)
    path = shard(prefix, 1)
    flip(path, at if at >= 0 else path.stat().st_size + at)
    findings = found(run(prefix), about="records", file=str(path))
    assert findings and all(f.record is not None and f.byte is not None for f in findings)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("left", [0, 5, 20, 700, -1])
def test_a_shard_cut_short(tmp_path: Path, form: str, left: int) -> None:
    prefix = copy_of(form, tmp_path)
    path = shard(prefix, 1)
    path.write_bytes(path.read_bytes()[:left])
    report = run(prefix)
    assert found(report, about="stored", file=str(path))
    assert found(report, about="records" if left else "shards", file=str(path))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("with_manifest", [True, False])
def test_a_missing_shard(tmp_path: Path, form: str, with_manifest: bool) -> None:
    prefix = copy_of(form, tmp_path)
    shard(prefix, 1).unlink()
    if not with_manifest:
        Path(f"{prefix}-manifest.json").unlink()
    findings = found(run(prefix), about="shards")
    assert any("00001" in f"{f.file} {f.text}" for f in findings)
    assert any("missing" in f.text for f in findings)


@pytest.mark.parametrize("with_manifest", [True, False])
def test_swapped_shards(tmp_path: Path, with_manifest: bool) -> None:
    prefix = copy_of("indexed", tmp_path)
    one, two = shard(prefix, 0), shard(prefix, 1)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    if not with_manifest:
        Path(f"{prefix}-manifest.json").unlink()
        assert found(run(prefix), about="order")
        return
    findings = found(run(prefix), about="stored")
    assert {(f.file, two.name in f.text) for f in findings} == {(str(one), True), (str(two), False)}


def test_an_extra_record_and_an_extra_shard(tmp_path: Path) -> None:
    prefix = copy_of("indexed", tmp_path)
    path = shard(prefix, 2)
    data = bytes(next(read_records(path)))
    path.write_bytes(path.read_bytes() + member(frame(data)))
    extra = prefix.parent / "scene-00003.tfrecord.gz"
    extra.write_bytes(member(frame(data)))
    texts = {f.file: f.text for f in found(run(prefix), about="shards")}
    assert texts[str(path)] == "holds 4 records, and the manifest says 3"
    assert "not among" in texts[str(extra)]
    Path(f"{prefix}-manifest.json").unlink()
    (finding,) = found(run(prefix), about="shards")
    assert "11 records (3, 3, 4, 1)" in finding.text and "9" in finding.text


def test_bytes_after_the_end(tmp_path: Path) -> None:
    for form in FORMS:
        prefix = copy_of(form, tmp_path)
        path = shard(prefix, 0)
        path.write_bytes(path.read_bytes() + b"\0" * 40)
        assert found(run(prefix), about="records", file=str(path))
        shutil.rmtree(prefix.parent)


def test_records_of_another_layout(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    path = shard(prefix, 1)
    data = [bytes(r) for r in read_records(path)]
    other = ExampleLayout([Feature("red", "float", 576), Feature("NIR", "float", 576)])
    strange = bytes(other.encode([np.zeros(576, np.float32)] * 2))
    path.write_bytes(frame(data[0]) + strange + frame(b"\xff\xff") + frame(data[2]))
    findings = found(run(prefix), about="layout", file=str(path))
    assert [f.record for f in findings] == [1, 2]
    assert "'nir'" in findings[0].text and "'NIR'" in findings[0].text
    assert "no Example" in findings[1].text


def test_nothing_with_this_prefix(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    with pytest.raises(JobError, match=r"the folder has .*scene"):
        verify(f"{prefix}x")
    with pytest.raises(JobError, match="give what stands before"):
        verify(str(tmp_path / "nowhere" / "scene"))


@pytest.mark.parametrize("noise", range(20))
def test_noise_of_any_kind_is_no_traceback(tmp_path: Path, noise: int) -> None:
    generator = np.random.default_rng(noise)
    prefix = copy_of(list(FORMS)[noise % 3], tmp_path)
    paths = sorted(prefix.parent.iterdir())
    path = paths[int(generator.integers(len(paths)))]
    data = bytearray(path.read_bytes())
    for at in generator.integers(0, len(data), 3).tolist():
        data[at] = int(generator.integers(256))
    path.write_bytes(data[: int(generator.integers(len(data) + 1))] if noise % 2 else data)
    verify(str(prefix), threads=1, sources=2)


def test_no_record_file_at_all(tmp_path: Path) -> None:
    prefix = copy_of("indexed", tmp_path)
    shard(prefix, 0).write_bytes(b"<html>not found</html>")
    (finding, *_) = found(run(prefix), about="records")
    assert finding.record == 0 and "no TFRecord file" in finding.text


def test_foreign_gzip_and_large_lengths(tmp_path: Path) -> None:
    prefix = copy_of("zlib6", tmp_path)
    path = shard(prefix, 0)
    length = struct.pack("<Q", 1 << 60)
    header = length + struct.pack("<I", masked_crc(length))
    path.write_bytes(gzip.compress(header + b"x" * 100))
    (finding, *_) = found(run(prefix), about="records", file=str(path))
    assert str(1 << 60) in finding.text


@pytest.mark.skipif(shared_data() is None, reason="no real files on this machine")
def test_exports_of_earth_engine() -> None:
    folder = shared_data()
    assert folder is not None
    report = run(folder / "earth-engine" / "image_2021")
    assert report.ok, report.findings
    assert [(s.records, s.form) for s in report.shards] == [(1, "gzip")]
