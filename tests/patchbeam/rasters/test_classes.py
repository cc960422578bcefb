from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from eager import export, plan_of, write_tif

from patchbeam.rasters.classes import read_classes
from patchbeam.scene import write_scene
from patchbeam.scene.spectra import CLASS_COLOURS, CLASSES

VALUES = np.arange(256, dtype=np.uint8).reshape(16, 16) % 4


def coloured(path: Path, table: dict[int, tuple[int, int, int, int]], **tags: str) -> Path:
    write_tif(path, VALUES, photometric="PALETTE")
    with rasterio.open(path, "r+") as file:
        file.write_colormap(1, table)
        file.update_tags(1, **tags)
    return path


def test_sample_scene(tmp_path: Path) -> None:
    path = write_scene(tmp_path / "scene.tif", width=64, height=64)[-1]
    found = read_classes(str(path), 1, 0.0)
    assert found is not None
    assert [(c.value, c.name) for c in found] == list(enumerate(CLASSES))[1:]
    assert [c.colour for c in found] == ["#{:02x}{:02x}{:02x}".format(*c[:3]) for c in CLASS_COLOURS[1:]]


def test_unset_entries_and_nodata_are_no_classes(tmp_path: Path) -> None:
    table = {0: (9, 9, 9, 255), 1: (255, 0, 0, 255), 2: (0, 0, 0, 255), 3: (0, 0, 1, 255)}
    found = read_classes(str(coloured(tmp_path / "a.tif", table, class_2="black")), 1, 0.0)
    assert found is not None
    assert [(c.value, c.name, c.colour) for c in found] == [
        (1, None, "#ff0000"),
        (2, "black", "#000000"),
        (3, None, "#000001"),
    ]
    assert [c.value for c in read_classes(str(tmp_path / "a.tif"), 1, 3.0) or ()] == [0, 1, 2]


CATEGORIES = """<PAMDataset><PAMRasterBand band="1"><CategoryNames>
<Category></Category><Category>sea</Category><Category>land</Category>
</CategoryNames></PAMRasterBand></PAMDataset>"""

ATTRIBUTES = """<PAMDataset><PAMRasterBand band="1"><GDALRasterAttributeTable>
<FieldDefn index="0"><Name>Value</Name><Type>0</Type><Usage>5</Usage></FieldDefn>
<FieldDefn index="1"><Name>Class</Name><Type>2</Type><Usage>2</Usage></FieldDefn>
<Row index="0"><F>1</F><F>sea</F></Row><Row index="1"><F>2</F><F>land</F></Row>
</GDALRasterAttributeTable></PAMRasterBand></PAMDataset>"""


@pytest.mark.parametrize("text", [CATEGORIES, ATTRIBUTES])
def test_names_beside_the_file(tmp_path: Path, text: str) -> None:
    path = write_tif(tmp_path / "a.tif", VALUES)
    Path(f"{path}.aux.xml").write_text(text)
    found = read_classes(str(path), 1)
    assert found is not None
    assert [(c.value, c.name, c.colour) for c in found] == [(1, "sea", None), (2, "land", None)]


@pytest.mark.parametrize("text", ["<PAMDataset><oops", "<!DOCTYPE a [<!ENTITY b 'c'>]><PAMDataset/>", ""])
def test_other_texts_beside_the_file_name_nothing(tmp_path: Path, text: str) -> None:
    path = write_tif(tmp_path / "a.tif", VALUES)
    Path(f"{path}.aux.xml").write_text(text)
    assert read_classes(str(path), 1) is None


def test_what_is_no_class_map(tmp_path: Path) -> None:
    assert read_classes(str(write_tif(tmp_path / "a.tif", VALUES.astype(np.float32))), 1) is None
    assert read_classes(str(tmp_path / "missing.tif"), 1) is None
    assert read_classes(str(write_tif(tmp_path / "b.tif", VALUES)), 2) is None


def test_the_manifest_has_them(tmp_path: Path) -> None:
    table = {1: (255, 0, 0, 255), 2: (0, 255, 0, 255)}
    coloured(tmp_path / "a.tif", table, CLASS_1="sea")
    job = {
        "sources": "a.tif",
        "bands": [{"name": "kept"}, {"name": "changed", "type": "float32"}],
        "formatOptions": {"patchDimensions": [8, 8]},
        "output": "out/a",
    }
    kept, changed = export(plan_of(job, tmp_path)).bands
    assert kept.classes is not None and changed.classes is None
    assert [(c.value, c.name, c.colour) for c in kept.classes] == [
        (1, "sea", "#ff0000"),
        (2, None, "#00ff00"),
    ]
