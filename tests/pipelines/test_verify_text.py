"""What ``verify`` prints: never ok for what damage has left in the dark, and never a hundred lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_export import copy_of, flip, make, run, shard

from patchbeam.records.layout import ExampleLayout, Feature
from patchbeam.records.tfrecord import write_records
from patchbeam.verify import Finding, Report, verify
from pipelines.cli import main
from pipelines.verify_text import verify_text


def test_a_damaged_file_is_not_ok(tmp_path: Path) -> None:
    prefix = copy_of("indexed", tmp_path)
    path = shard(prefix, 1)
    flip(path, path.stat().st_size // 2)
    report = run(prefix)
    assert {f.about for f in report.findings} == {"records"}
    lines = verify_text(report).splitlines()
    assert not [line for line in lines if line.split()[:2] in (["ok", "stored"], ["ok", "index"])]
    assert [line for line in lines if line.startswith("  -      stored    1 file not what the manifest says")]
    assert [line for line in lines if line.startswith("  -      index     1 file not compared")]


def test_records_without_sidecars_hold_what_they_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [
        ExampleLayout([Feature("x", "float", 1 + i % 3)] + [Feature("name", "bytes", i)] * (i % 2)).encode(
            [np.zeros(1 + i % 3, np.float32)] + [np.zeros(i, np.uint8)] * (i % 2)
        )
        for i in range(100)
    ]
    name = tmp_path / "table.tfrecord.gz"
    write_records(name, [memoryview(record)[12:-4] for record in records], "indexed")
    assert main(["verify", str(tmp_path / "table")]) == 0
    out = capsys.readouterr().out
    assert "layout    a table or records without sidecars: framing and checksums only" in out
    assert "ok     records   100 records" in out
    flip(name, name.stat().st_size // 2)
    assert not verify(str(tmp_path / "table")).ok


def test_records_with_a_broken_manifest_must_still_be_alike(tmp_path: Path) -> None:
    prefix = make(tmp_path, formatOptions={"maskedThreshold": 0.99})
    Path(f"{prefix}-manifest.json").write_text("{")
    assert "layout" in run(prefix).checked


def test_ten_findings_are_enough_for_a_terminal() -> None:
    findings = tuple(Finding(about="records", text=f"wrong {i}") for i in range(102))
    report = Report(prefix="p", shards=(), checked={}, skipped={}, findings=findings)
    lines = verify_text(report).splitlines()
    assert "wrong 9" in lines and "wrong 10" not in lines
    assert lines[-2:] == ["… and 92 more; --json lists them all", "102 findings"]
