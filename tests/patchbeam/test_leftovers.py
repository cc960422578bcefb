"""What a failed run has left is taken away, and a failure to do so is told, not raised."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from patchbeam import storage
from patchbeam.errors import WriteFailed
from patchbeam.leftovers import clean_up


def test_a_folder_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "piece").write_bytes(b"x")
    clean_up(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()


def test_a_failure_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: str) -> None:
        failure = WriteFailed(f"{path}: no permission")
        failure.errno = errno.EACCES
        raise failure

    monkeypatch.setattr(storage, "delete_tree", refuse)
    with caplog.at_level(logging.WARNING):
        clean_up(str(tmp_path))
    assert f"temporary files are left, delete them: {tmp_path}: no permission" in caplog.text
