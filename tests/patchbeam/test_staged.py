"""Catalogues of many scenes: planned in seconds, staged as a file, read block by block."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from eager import plan_of
from exports import run_job
from stac_items import collection_of, item, make, write_json

from patchbeam import staged
from patchbeam.errors import ReadFailed
from patchbeam.plan import ExportPlan
from patchbeam.rasters.pieces import Rect
from patchbeam.rasters.reader import ImageReader
from patchbeam.staged import stage_catalogues

SCENES = 10_000


def synthetic() -> list:
    """A hundred by a hundred scenes in two zones, none of which exists."""
    items = []
    for n in range(SCENES):
        row, col = divmod(n, 100)
        left, top = 300_000 + col % 50 * 9000, 5_500_000 - row * 9000
        told = {
            name: {
                "href": f"https://none.example/{n}_{name}.tif",
                "proj:epsg": 32633 + col // 50,
                "proj:shape": [10_000 // size, 10_000 // size],
                "proj:transform": [size, 0, left, 0, -size, top],
                "raster:bands": [{"data_type": dtype, "nodata": 0}],
            }
            for name, size, dtype in (("B04", 10, "uint16"), ("SCL", 20, "uint8"))
        }
        items.append(item(f"s{n}", "2024-05-01T10:00:00Z", told))
    return items


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> ExportPlan:
    folder = tmp_path_factory.mktemp("many")
    write_json(folder / "items.json", collection_of(synthetic()))
    mask = {"band": "SCL", "keep": [4, 5]}
    job = {
        "sources": {"s2": {"path": "items.json", "assets": "B04", "mask": mask, "compose": "median"}},
        "grid": {"crs": "EPSG:32633", "scale": 10, "region": [300_000, 4_600_000, 1_200_000, 5_500_000]},
        "output": "out/x",
    }
    return plan_of(job, folder)


def test_ten_thousand_scenes(plan: ExportPlan) -> None:
    """No file is opened to plan; a block comes near no more scenes than touch it."""
    source = plan.sources[0]
    assert 9000 < len(source.files) <= SCENES and len(source.quality.files) == len(source.files)
    assert plan.bands[0].type == "float32" and plan.patches.count == 351**2
    reader = ImageReader(plan.sources, plan.bands, plan.grid)
    index = reader._index("s2")
    # in the first zone scenes are 1000 pixels wide and stand every 900
    found = index.touching(Rect(950, 950, 1000, 1000))
    assert [Path(p.file.path).name for p in found] == [f"{n}_B04.tif" for n in (0, 1, 100, 101)]
    assert len(index.touching(Rect(200, 200, 300, 300))) == 1


def test_messages_are_small(plan: ExportPlan, tmp_path: Path) -> None:
    small = stage_catalogues(plan, str(tmp_path))
    assert len(pickle.dumps(small)) < 10_000 < 1_000_000 < len(pickle.dumps(plan))
    assert small.fingerprint == plan.fingerprint
    staged._loaded.clear()
    again = pickle.loads(pickle.dumps(small))
    assert tuple(again.sources[0].files) == plan.sources[0].files
    assert tuple(again.sources[0].quality.files) == plan.sources[0].quality.files
    assert again.sources[0].files[3] == plan.sources[0].files[3]
    assert replace(again).fingerprint == plan.fingerprint  # worked out anew from the staged headers
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    staged._loaded.clear()
    with pytest.raises(ReadFailed, match=r"catalogue-.*its digest is"):
        len(pickle.loads(pickle.dumps(small)).sources[0].files[0].path)


def test_few_files_travel_themselves(tmp_path: Path) -> None:
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    job = {"sources": {"s": {"path": "c.json", "assets": "B04"}}, "output": "out/x"}
    job["formatOptions"] = {"patchDimensions": 10}
    plan = plan_of(job, tmp_path)
    assert stage_catalogues(plan, str(tmp_path / "none")) is plan


def test_an_export_with_a_staged_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bytes, and nothing left behind."""
    write_json(tmp_path / "c.json", collection_of(make(tmp_path)))
    source = {"path": "c.json", "assets": "B04", "compose": "mean", "mask": {"band": "SCL", "drop": [3]}}
    job = {"sources": {"s": source}, "formatOptions": {"patchDimensions": 10}}
    plain = run_job(tmp_path, job)
    staged._loaded.clear()
    monkeypatch.setattr(staged, "FEW", 2)
    loaded = []
    own = staged.stage_files
    monkeypatch.setattr(staged, "stage_files", lambda *a: loaded.append(a) or own(*a))
    other = run_job(tmp_path, job)
    assert len(loaded) == 2
    assert [p.read_bytes() for p in plain.shards] == [p.read_bytes() for p in other.shards]
    assert not list(other.prefix.parent.glob(".*"))
