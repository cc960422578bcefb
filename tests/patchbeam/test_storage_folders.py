"""Files and folders that move, go, or cannot be written."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from storage_faults import failing, replace_but_not_from

from patchbeam import storage
from patchbeam.errors import JobError, OutputUnusable, WriteFailed


def test_rename_and_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = str(tmp_path / "a"), str(tmp_path / "new" / "b")
    storage.write_atomic(first, b"data")
    storage.rename(first, second)
    assert not storage.exists(first) and storage.read_bytes(second) == b"data"
    with monkeypatch.context() as patch:
        patch.setattr(storage.local.os, "replace", replace_but_not_from(second))
        storage.rename(second, first)
    assert not storage.exists(second) and storage.read_bytes(first) == b"data"
    with pytest.raises(WriteFailed, match="cannot move"):
        storage.rename(second, first)
    with pytest.raises(JobError, match="one of them is in Cloud Storage"):
        storage.rename(first, "gs://b/a")
    storage.rename(first, first)
    os.link(first, second)  # two names of one file
    storage.rename(second, first)
    assert not storage.exists(second) and storage.read_bytes(first) == b"data"
    storage.delete(first)
    storage.delete(first)
    assert not storage.exists(first)
    with pytest.raises(WriteFailed, match="cannot delete"):
        storage.delete(str(tmp_path / "new"))


def test_delete_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.write_atomic(str(tmp_path / "t" / "a" / "b"), b"")
    storage.write_atomic(str(tmp_path / "t2"), b"")
    storage.delete_tree(f"{tmp_path}/t/")
    storage.delete_tree(f"{tmp_path}/t")
    assert [path.name for path in tmp_path.iterdir()] == ["t2"]
    monkeypatch.chdir(tmp_path)
    for folder in ("", "/", ".", "..", str(tmp_path), str(tmp_path.parent)):
        with pytest.raises(ValueError, match="not deleted"):
            storage.delete_tree(folder)


# --- the destination -------------------------------------------------------------------------------


def test_check_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.check_writable(str(tmp_path / "scene"))
    storage.check_writable(str(tmp_path / "not" / "there" / "yet" / "scene"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputUnusable, match="file is a file, not a folder"):
        storage.check_writable(str(tmp_path / "file" / "deeper" / "scene"))
    (tmp_path / "link").symlink_to(tmp_path / "none")
    with pytest.raises(OutputUnusable, match="a link to nothing"):
        storage.check_writable(str(tmp_path / "link" / "scene"))
    for number, name in ((errno.EACCES, "EACCES"), (errno.EROFS, "EROFS"), (errno.ENOSPC, "ENOSPC")):
        with monkeypatch.context() as patch:
            patch.setattr(storage.local, "open", failing(number), raising=False)
            with pytest.raises(OutputUnusable, match=f"cannot write in .*{name}") as caught:
                storage.check_writable(str(tmp_path / "scene"))
        assert caught.value.exit_status == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write anywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(OutputUnusable, match="EACCES"):
        storage.check_writable(str(tmp_path / "scene"))


def test_free_bytes(tmp_path: Path) -> None:
    free = storage.free_bytes(str(tmp_path / "not" / "there"))
    assert free is not None and free > 0
