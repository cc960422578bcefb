"""The sample scene: options, paths and disks that do not do are refused, and nothing is left behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from storage_faults import files_end_at

from patchbeam.errors import JobError, OutputExists, WriteFailed
from patchbeam.scene import write_scene


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, r"width: 0 is not between 1 and"),
        ({"height": 2.5}, r"height: 2\.5 is not a whole number"),
        ({"bands": 14}, r"bands: 14 is not between 1 and 13"),
        ({"seed": -1}, r"seed: -1"),
        ({"dates": True}, r"dates: True"),
        ({"block_size": 100}, r"block_size: 100 is not a multiple of 16.*96 and 112"),
        ({"compress": "deflat"}, r"compress: 'deflat' .*did you mean 'deflate'"),
        ({"dtype": "uint8"}, r"dtype: 'uint8' is not one of uint16, float32"),
        ({"compress": "lzw", "level": 3}, r"level: compress 'lzw' has no levels"),
        ({"level": 0}, r"level of deflate: 0 is not between 1 and 12"),
        ({"scale_m": float("nan")}, r"scale_m: nan"),
        ({"cloud_fraction": 1.5}, r"cloud_fraction: 1\.5 is not between 0 and 0\.9"),
        ({"origin": (1.0, float("inf"))}, r"origin"),
        ({"crs": "EPSG:999999"}, r"crs: 'EPSG:999999' is not known"),
        ({"crs": "EPSG:4978"}, r"crs: 'EPSG:4978' is neither projected nor geographic"),
    ],
)
def test_wrong_options_are_refused_by_name(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=message):
        write_scene(tmp_path / "s.tif", **({"width": 8, "height": 8} | changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [("gs://bucket/s.tif", "local file"), ("s.jpg", "GeoTIFF"), ("plain/sub/s.tif", "cannot be made")],
)
def test_wrong_paths_are_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "plain").write_text("a file, not a folder")
    path = name if "://" in name else os.fspath(tmp_path / name)
    with pytest.raises(JobError, match=message):
        write_scene(path, width=8, height=8)


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    standing = tmp_path / "new" / "s-classes.tif"
    standing.parent.mkdir()
    standing.write_text("mine")
    with pytest.raises(OutputExists, match=r"s-classes\.tif is there already"):
        write_scene(tmp_path / "new" / "s.tif", width=8, height=8)
    assert standing.read_text() == "mine" and [p.name for p in standing.parent.iterdir()] == [standing.name]
    write_scene(tmp_path / "new" / "s.tif", width=8, height=8, overwrite=True)
    assert sorted(p.name for p in standing.parent.iterdir()) == ["s-classes.tif", "s.tif"]


def test_a_failure_on_the_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("patchbeam.scene.write.os.replace", fail)
    with pytest.raises(WriteFailed, match=r"s\.tif: writing the scene failed: no space left"):
        write_scene(tmp_path / "s.tif", width=8, height=8)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("compress", ["deflate", "none"])
@pytest.mark.parametrize("layout", ["tiled", "striped"])
def test_a_scene_that_does_not_fit_on_the_disk_is_an_error(
    tmp_path: Path, layout: str, compress: str
) -> None:
    """GDAL alone reports success for most of these sizes."""
    options: dict[str, Any] = {"width": 300, "height": 200, "layout": layout, "compress": compress}
    path, _ = write_scene(tmp_path / "whole.tif", **options)
    whole = path.stat().st_size
    (tmp_path / "out").mkdir()
    for share in (0.001, 0.1, 0.5, 0.9, 0.99):
        with files_end_at(int(whole * share)), pytest.raises(WriteFailed, match="make room there, or write"):
            write_scene(tmp_path / "out" / "s.tif", **options)
        assert not list((tmp_path / "out").iterdir())


def test_a_disk_that_takes_nothing_away_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("patchbeam.scene.write._fill", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(WriteFailed, match="Read-only file system; make room there, or write elsewhere"):
        write_scene(tmp_path / "s.tif", width=64, height=64)
