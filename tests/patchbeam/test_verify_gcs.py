"""Exports in Cloud Storage are checked and looked at where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_export import FORMS, copy_of, found, run
from storage_emulator import emulated_bucket

from patchbeam import storage
from patchbeam.look import look
from patchbeam.verify import verify


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with emulated_bucket() as name:
        yield name


@pytest.mark.parametrize("form", FORMS)
def test_there_as_here(bucket: str, tmp_path: Path, form: str) -> None:
    prefix = copy_of(form, tmp_path)
    for path in prefix.parent.iterdir():
        storage.write_atomic(f"{bucket}/{form}/{path.name}", path.read_bytes())
    there = f"{bucket}/{form}/scene"
    report = verify(there, sources=3, threads=2)
    assert report.ok, report.findings
    assert [s.crc32c for s in report.shards] == [s.crc32c for s in run(prefix).shards]
    np.testing.assert_array_equal(look(there), look(str(prefix)))
    name = next(s.path for s in report.shards)
    data = bytearray(storage.read_bytes(name))
    data[-3] ^= 1
    storage.write_atomic(name, bytes(data))
    findings = found(verify(there, threads=2), about="records", file=name)
    assert findings and findings[0].record is not None
