"""Pictures of maps: the pixels of the raster, classes with names and colours, no data in grey."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin
from small_export import copy_of

from patchbeam.errors import JobError, ReadFailed, SourceError
from patchbeam.look import LookOptions, look, look_page, png
from patchbeam.look.canvas import MASKED
from patchbeam.look.maps import MapView, find_map
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.tfrecord import write_records
from pipelines.cli import main

CLASSES = [
    {"value": 1, "name": "water", "color": "#0000ff"},
    {"value": 2, "name": "land", "color": "#00c000"},
]


def write(path: Path, values: np.ndarray, **more: Any) -> str:
    """A raster of bands ``(band, row, col)``."""
    colours, names, tags = (more.pop(key, None) for key in ("colours", "names", "tags"))
    options = {
        "driver": "GTiff",
        "count": values.shape[0],
        "height": values.shape[1],
        "width": values.shape[2],
        "dtype": values.dtype,
        "crs": "EPSG:32633",
        "transform": from_origin(400_000, 5_300_000, 10, 10),
        **more,
    }
    with rasterio.open(path, "w", **options) as file:
        file.write(values)
        if colours:
            file.write_colormap(1, colours)
        for i, name in enumerate(names or (), 1):
            file.set_band_description(i, name)
        if tags:
            file.update_tags(1, **tags)
    return str(path)


def inside(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """The map in a picture: below the title and its two paddings."""
    pad = max(8, min(24, width // 40))
    left = (picture.shape[1] - width) // 2
    assert left == pad
    top = next(
        y for y in range(picture.shape[0]) if y > pad and (picture[y, left:-left] != picture[0, 0]).all()
    )
    return picture[top : top + height, left : left + width]


def test_classes_have_their_colours_and_names_and_no_data_is_grey(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 3, (1, 40, 60)).astype(np.uint8)
    colours = {0: (9, 9, 9, 255), 1: (0, 0, 255, 255), 2: (0, 192, 0, 255)}
    tags = {"CLASS_1": "water", "CLASS_2": "land"}
    path = write(tmp_path / "map.tif", values, nodata=0, colours=colours, tags=tags)
    shown = inside(look(path), 120, 180)  # small maps are enlarged
    due = np.array([MASKED, (0, 0, 255), (0, 192, 0)], np.uint8)[values[0]]
    np.testing.assert_array_equal(shown, due.repeat(3, axis=0).repeat(3, axis=1))
    found = find_map(path)
    assert found is not None
    with MapView(found) as view:
        painter = view.painter(None, percentiles=(2, 98), classes=False)
        assert [entry.text for entry in view.entries(painter)] == ["water", "land"]
        view.draw(painter, 60, 40)
        assert [entry.text for entry in view.entries(painter)] == ["water", "land", "no data"]
        assert view.facts() == "60 × 40 pixels, EPSG:32633"


def test_a_large_map_is_drawn_small_and_in_strips(tmp_path: Path) -> None:
    values = np.zeros((1, 1400, 700), np.uint8)
    values[0, 700:] = 2
    values[0, :, 350:] += 1
    colours = {n: (50 * n + 5, 0, 200 - 50 * n, 255) for n in range(4)}
    path = write(tmp_path / "map.tif", values, colours=colours, tiled=True)
    shown = inside(look(path, LookOptions(size=700)), 700, 350)
    due = np.array([colours[n][:3] for n in range(4)], np.uint8)[values[0, ::2, ::2]]
    np.testing.assert_array_equal(shown, due)


def test_numbers_are_stretched_and_nan_is_no_data(tmp_path: Path) -> None:
    values = np.linspace(0, 1, 1000 * 10, dtype=np.float32).reshape(1, 10, 1000)
    values[0, :5, :100] = np.nan
    path = write(tmp_path / "map.tif", values)
    shown = inside(look(path, LookOptions(percentiles=(0, 100))), 10, 1000)
    assert (shown[:5, :100] == MASKED).all()
    assert (np.diff(shown[:, 100:, 0].astype(int), axis=1) >= 0).all() and shown[-1, -1].tolist() == [255] * 3


def test_bands_by_name_number_and_colour(tmp_path: Path) -> None:
    values = np.stack([np.full((8, 8), n, np.uint8) for n in (10, 20, 30)])
    values[:, :4] = 0
    path = write(tmp_path / "map.tif", values, names=["blue", "green", "red"])
    found = find_map(path)
    assert found is not None
    with MapView(found) as view:
        assert view.painter(None, percentiles=(2, 98), classes=False).bands == ("red", "green", "blue")
    assert look(path, LookOptions(bands=("green",))).size
    with pytest.raises(JobError, match=r"--bands: 'gren' is not a band \(did you mean 'green'\?\)"):
        look(path, LookOptions(bands=("gren",)))
    twice = write(tmp_path / "twice.tif", values, names=["a", "a", "b"])
    assert look(twice, LookOptions(bands=("B2",))).size


def test_the_tiles_of_an_import(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    layout = ExampleLayout([Feature("label", "int64", 16 * 16)])
    records = [bytes(layout.encode([np.full(256, n % 3)]))[12:-4] for n in range(9)]
    write_records(str(tmp_path / "labels-00000.tfrecord"), records, "none")
    job = {
        "job": "import-image",
        "records": "labels-00000.tfrecord",
        "manifest": f"{prefix}-manifest.json",
        "type": "uint8",
        "nodata": 0,
        "tileSize": 256,
        "classes": CLASSES,
        "output": "map/label",
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert main(["import-image", str(tmp_path / "job.json")]) == 0
    map_prefix = str(tmp_path / "map" / "label")
    shown = inside(look(map_prefix), 144, 144)[::3, ::3]
    due = np.array([MASKED, (0, 0, 255), (0, 192, 0)], np.uint8)
    for n in range(9):
        row, col = divmod(n, 3)
        assert (shown[row * 16 : row * 16 + 16, col * 16 : col * 16 + 16] == due[n % 3]).all()
    np.testing.assert_array_equal(look(f"{map_prefix}-import.json"), look(map_prefix))
    page = look_page(map_prefix)
    data = json.loads(page.partition('id="export">')[2].partition("</script>")[0])
    assert data["tiles"] == [["label.tif", 0, 0, 48, 48]] and data["size"] == [48, 48]
    assert data["classes"] == [[0, 0, 255, "water"], [0, 192, 0, "land"]]
    assert "no data</li>" in page
    for option, name in (({"patch": 1}, "patch"), ({"sheet": 2}, "sheet"), ({"margins": True}, "margins")):
        with pytest.raises(JobError, match=f"--{name}: label is a map and has no patches"):
            look(map_prefix, LookOptions(**option))  # type: ignore[arg-type]
    Path(f"{map_prefix}.tif").unlink()
    with pytest.raises(
        SourceError, match=r"label: .*label\.vrt is made of .*label\.tif, which does not exist"
    ):
        look(map_prefix)
    Path(f"{map_prefix}-import.json").write_text("{}")
    with pytest.raises(JobError, match=r"label-import\.json: is not what an import writes"):
        look(map_prefix)


def test_a_prefix_of_an_export_and_a_map(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = str(copy_of("plain", tmp_path))
    patches = look(prefix)
    with pytest.raises(
        JobError, match=r"--show map: .*scene: there is no complete map .*; leave the option out"
    ):
        look(prefix, LookOptions(show="map"))
    assert main(["import-image", prefix, "--output", prefix]) == 0
    capsys.readouterr()

    def drawn(*options: str) -> tuple[bytes, str]:
        picture = tmp_path / "p.png"
        assert main(["look", prefix, "-o", str(picture), *options]) == 0
        return picture.read_bytes(), capsys.readouterr().err

    whole, said = drawn()
    assert "scene is the name of a map and of an export; the map is shown: --show export shows the" in said
    assert drawn("--show", "map") == (whole, "")
    assert drawn("--show", "export") == (bytes(png(patches)), "")
    # an option that only patches have says which is meant, and so does the name of a file
    for option in (["--patch", "1"], ["--sheet", "2"], ["--margins"]):
        assert drawn(*option)[1] == ""
    np.testing.assert_array_equal(look(f"{prefix}-manifest.json"), patches)
    look(f"{prefix}-import.json")
    look(f"{prefix}.vrt")
    assert capsys.readouterr().err == ""
    assert "the map is shown" not in drawn("--html", "--show", "export", "-o", str(tmp_path / "p.html"))[1]


def test_what_an_argmax_found_has_colours_though_nobody_named_them(tmp_path: Path) -> None:
    prefix = copy_of("plain", tmp_path)
    assert (
        main(["import-image", str(prefix), "--set", "argmax=true", "--output", str(tmp_path / "m" / "a")])
        == 0
    )
    found = find_map(str(tmp_path / "m" / "a"))
    assert found is not None and found.categorical
    with MapView(found) as view:
        assert view.painter(None, percentiles=(2, 98), classes=False).classes is not None


def test_a_damaged_raster_is_named(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(0, 255, (1, 64, 64)).astype(np.uint8)
    path = Path(write(tmp_path / "map.tif", values, compress="deflate"))
    data = bytearray(path.read_bytes())
    data[600:900] = bytes(300)
    path.write_bytes(data)
    with pytest.raises((ReadFailed, SourceError), match=r"map\.tif"):
        look(str(path))
    with pytest.raises(JobError, match=r"none\.tif: does not exist; give a raster, or the prefix"):
        look(str(tmp_path / "none.tif"))
