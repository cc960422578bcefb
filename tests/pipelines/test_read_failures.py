"""Files that fail only when their pixels are read: status 1, the file and the place, nothing published."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import rasterio
from eager import write_tif
from refusals import Place, assert_refused, changed


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setattr("patchbeam.retry.sleep", lambda seconds: None)
    return Place(tmp_path)


def fails(place: Place, name: str, *fragments: str, **change: object) -> str:
    """Exports a source that cannot be read and looks at what is left."""
    job = changed({"sources": name, **change})
    path = place.write(job)
    before = place.files()
    outcome = place.export(job)
    assert_refused(outcome, name, "cannot be read", *fragments, status=1)
    assert "[while running" not in outcome.err and "See previous exception" not in outcome.err
    left = [path for path in place.files() - before if path.is_file()]
    # what may pass by itself keeps what is finished for --resume; a damaged file does not
    assert bool(left) == ("--resume" in outcome.err) == ("(tried 4 times)" in outcome.err), left
    assert path.exists()
    return outcome.err


def values(bands: int = 1) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (bands, 512, 512)).astype(np.uint8)


def damage_tile(path: Path, tile: int) -> None:
    """Overwrites the beginning of a tile's deflate stream, whose place the directory keeps."""
    with rasterio.open(path) as file:
        offset = file.get_tag_item(f"BLOCK_OFFSET_{tile % 4}_{tile // 4}", "TIFF", bidx=1)
    assert offset is not None
    with open(path, "r+b") as raw:
        raw.seek(int(offset))
        raw.write(b"\xff" * 20)


@pytest.mark.parametrize("tile", [0, 6, 15])
def test_damaged_tile(place: Place, tile: int) -> None:
    path = write_tif(
        place.folder / "bad.tif", values(), tiled=True, blockxsize=128, blockysize=128, compress="deflate"
    )
    damage_tile(path, tile)
    # GDAL numbers the block; the rows and columns are those of the window that was read
    where = f"X offset {tile % 4}, Y offset {tile // 4}"
    message = fails(place, "bad.tif", where, "fetch or write the file again", **{"blockBytes": 65536})
    assert "bands [1], columns " in message and ", rows " in message


def test_damaged_tile_of_a_resampled_source(place: Place) -> None:
    path = write_tif(
        place.folder / "bad.tif", values(), tiled=True, blockxsize=128, blockysize=128, compress="deflate"
    )
    damage_tile(path, 6)
    fails(place, "bad.tif", "X offset 2, Y offset 1", **{"grid.scale": 15.0})


@pytest.mark.parametrize(("driver", "name"), [("BMP", "a.bmp"), ("JP2OpenJPEG", "a.jp2"), ("JPEG", "a.jpg")])
def test_truncated_file_of_another_format(place: Place, driver: str, name: str) -> None:
    with rasterio.Env() as env:
        if driver not in env.drivers():
            pytest.skip(f"this GDAL has no {driver}")
    write_tif(place.folder / "whole.tif", values())
    path = place.folder / name
    rasterio.shutil.copy(place.folder / "whole.tif", path, driver=driver)
    whole = path.read_bytes()
    sidecar = Path(f"{path}.aux.xml")
    assert sidecar.exists() or driver != "JPEG"
    path.write_bytes(whole[: len(whole) // 2])
    fails(place, name, "columns ", "rows ", "write the file again")


def test_file_that_goes_away(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines import export_image

    shutil.copy(place.folder / "scene.tif", place.folder / "gone.tif")
    original = export_image.check_destination

    def remove_then_check(*arguments: object, **options: object) -> None:
        (place.folder / "gone.tif").unlink(missing_ok=True)
        original(*arguments, **options)

    monkeypatch.setattr(export_image, "check_destination", remove_then_check)
    outcome = place.export(changed({"sources": "gone.tif"}))
    assert_refused(outcome, "gone.tif cannot be opened any more", "moved or changed", status=1)
    assert not list(place.folder.glob("out/**/*"))


def test_value_beyond_the_type(place: Place) -> None:
    numbers = np.zeros((1, 64, 64), np.float32)
    numbers[0, 40, 50] = 300
    write_tif(place.folder / "f.tif", numbers)
    outcome = place.export(changed({"sources": "f.tif", "bands": [{"band": 1, "type": "uint8"}]}))
    assert_refused(outcome, "f.tif band 1", "column 50, row 40", "300.0", "uint8", "wider type", status=1)
    assert not list(place.folder.glob("out/**/*"))


def test_a_failed_overwrite_keeps_the_earlier_export(place: Place) -> None:
    assert place.export(changed({})).status == 0
    before = {path: path.read_bytes() for path in (place.folder / "out").iterdir()}
    path = write_tif(
        place.folder / "bad.tif", values(), tiled=True, blockxsize=128, blockysize=128, compress="deflate"
    )
    damage_tile(path, 15)
    outcome = place.export(changed({"sources": "bad.tif"}), "--overwrite")
    assert_refused(outcome, "bad.tif", status=1)
    assert {path: path.read_bytes() for path in (place.folder / "out").iterdir()} == before
