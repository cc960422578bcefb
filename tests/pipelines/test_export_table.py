"""``export-table``: features of every kind become the records that they should, in one file, in order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
from table_jobs import export_table, f32, points, records_of, write_vector

from patchbeam.errors import EncodeError, JobError, OutputExists
from patchbeam.records.gzip import iter_members
from pipelines.cli import main

N = 50


@pytest.fixture()
def layer(tmp_path: Path) -> Path:
    table = pa.table(
        {
            "B2": np.linspace(0, 1, N),
            "landcover": pa.array([i % 3 for i in range(N)], pa.int32()),
            "site": [None if i % 5 == 0 else f"Höhe {i}" for i in range(N)],
        }
    )
    return write_vector(tmp_path / "samples.gpkg", table, points(np.arange(N) / 10, np.arange(N) / 5), "GPKG")


def test_one_file_of_one_example_a_feature_in_source_order(layer: Path, tmp_path: Path) -> None:
    report = export_table(tmp_path, features="samples.gpkg")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["table.tfrecord.gz"]
    assert report.files == (str(tmp_path / "out/table.tfrecord.gz"),) and report.records == N
    found = records_of(report)
    _, table = pyogrio.read_arrow(layer, read_geometry=False)
    rows = table.to_pylist()
    assert [list(record) for record in found] == [
        ["system:index", "B2", "landcover", *(["site"] if row["site"] is not None else [])] for row in rows
    ]
    for i, (record, row) in enumerate(zip(found, rows, strict=True)):
        assert record["system:index"] == [str(i + 1)]
        assert record["B2"] == f32([row["B2"]]) and record["landcover"] == [row["landcover"]]
        assert record.get("site", [None]) == [row["site"]]


def test_selectors_say_which_and_in_which_order(layer: Path, tmp_path: Path) -> None:
    as_list = records_of(export_table(tmp_path, features="samples.gpkg", selectors=["landcover", "B2"]))
    as_text = records_of(
        export_table(tmp_path, features="samples.gpkg", selectors="landcover, B2", overwrite=True)
    )
    assert as_list == as_text and {tuple(record) for record in as_list} == {("landcover", "B2")}


@pytest.mark.parametrize("form", ["geojson", "wkb", "lonlat"])
def test_geometry_is_in_longitude_and_latitude(layer: Path, tmp_path: Path, form: str) -> None:
    import shapely

    _, table = pyogrio.read_arrow(layer)
    moved = tmp_path / "utm.gpkg"
    lonlat = np.arange(N) / 10, np.arange(N) / 5
    from pyproj import Transformer

    x, y = Transformer.from_crs("EPSG:4326", "EPSG:32631", always_xy=True).transform(*lonlat)
    write_vector(moved, table.drop_columns(["geom"]), points(x, y), "GPKG", crs="EPSG:32631")
    report = export_table(tmp_path, features="utm.gpkg", selectors=["B2"], geometry=form)
    from patchbeam.records.parse import parse_example
    from patchbeam.records.tfrecord import read_records

    found = [parse_example(data) for data in read_records(report.files[0])]
    if form == "lonlat":
        at = np.array([[r["longitude"][0], r["latitude"][0]] for r in found])
    elif form == "wkb":
        at = shapely.get_coordinates([shapely.from_wkb(r["geometry"][0]) for r in found])
    else:
        at = shapely.get_coordinates([shapely.from_geojson(r[".geo"][0]) for r in found])
    assert np.abs(at - np.stack(lonlat, axis=1)).max() < 1e-6


@pytest.mark.parametrize("profile", ["indexed", "zlib6"])
def test_profiles_hold_the_same_records(layer: Path, tmp_path: Path, profile: str) -> None:
    report = export_table(tmp_path, features="samples.gpkg", gzip=profile)
    stored = Path(report.files[0]).read_bytes()
    assert len(gzip.decompress(stored)) == report.uncompressed_bytes and len(stored) == report.stored_bytes
    if profile == "indexed":
        assert sum(member.records for member in iter_members(stored)) == N
    else:
        assert stored[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"


def test_the_same_bytes_from_many_batches_and_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    n = 5000
    names = pa.array([None if i % 11 == 0 else "x" * (i % 40) for i in range(n)])
    pq.write_table(pa.table({"v": random.random(n), "s": names}), tmp_path / "t.parquet", row_group_size=900)
    whole = gzip.decompress(Path(export_table(tmp_path, features="t.parquet").files[0]).read_bytes())
    monkeypatch.setattr("patchbeam.tables.source.RANGE_ROWS", 1300)
    processes = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    report = export_table(tmp_path, features="t.parquet", beam=processes, overwrite=True)
    assert gzip.decompress(Path(report.files[0]).read_bytes()) == whole


def test_rounded_integers_are_reported_or_refused(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([2**24 + 1, 2**24, 2**53 + 1, None], pa.int64()), "ok": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "t.parquet")
    report = export_table(tmp_path, features="t.parquet")
    assert report.rounded == {"id": 2}
    with pytest.raises(EncodeError, match="property 'id': 2 integers of the features 0 to 3 are not exact"):
        export_table(tmp_path, features="t.parquet", strict=True, output="out/other")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["table.tfrecord.gz"]


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"selectors": ["B2", "lancover"]},
        r"selectors\[1\]: 'lancover' is not a property .*did you mean 'landcover'",
    ),
    ({"selectors": []}, "selectors: the list is empty"),
    ({"layer": "other"}, "layer: 'other' is not in"),
    ({"types": {"B2": "string"}}, "types, nullValues: are for CSV"),
    ({"xColumn": "B2"}, "yColumn: is missing"),
    ({"features": None}, "features: this key is missing"),
    ({"features": "none.gpkg"}, "there is no such file"),
    ({"output": "out/"}, "names a folder; add the beginning of the file names"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_jobs_are_refused_before_any_work(
    layer: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        export_table(tmp_path, **{"features": "samples.gpkg", **change})
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_geometry_that_is_not_there_or_not_a_point(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1.0]}), tmp_path / "t.parquet")
    with pytest.raises(JobError, match=r"geometry: .*t.parquet has no geometry; name the columns"):
        export_table(tmp_path, features="t.parquet", geometry="lonlat")
    pq.write_table(pa.table({"longitude": [1.0], "latitude": [2.0]}), tmp_path / "p.parquet")
    with pytest.raises(JobError, match="two features would be called 'longitude'"):
        export_table(tmp_path, features="p.parquet", geometry="lonlat")
    line = {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}
    features = [{"type": "Feature", "properties": {"v": 1}, "geometry": line}]
    (tmp_path / "l.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(
        EncodeError, match="feature 0: its geometry is a LineString, and geometry: lonlat holds points"
    ):
        export_table(tmp_path, features="l.geojson", geometry="lonlat")
    assert records_of(export_table(tmp_path, features="l.geojson", selectors="v")) == [{"v": [1.0]}]


def test_mixed_types_name_property_and_feature(tmp_path: Path) -> None:
    features = [{"type": "Feature", "properties": {"m": v}, "geometry": None} for v in (1, 2, "many")]
    (tmp_path / "m.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(
        JobError, match="property 'm' holds values of several types: '1', and 'many' in feature 2"
    ):
        export_table(tmp_path, features="m.geojson")


def test_commands(layer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "job.yaml"
    job.write_text("job: export-table\nfeatures: samples.gpkg\nselectors: B2,landcover\noutput: out/t\n")
    assert main(["export-table", str(job)]) == 0
    assert f"{N} records, one a feature" in capsys.readouterr().out
    assert main(["export-table", str(job)]) == OutputExists.exit_status
    assert "--overwrite" in capsys.readouterr().err
    back = tmp_path / "back.yaml"
    back.write_text("job: import-table\nrecords: out/t\noutput: out/t.csv\n")
    assert main(["import-table", str(back)]) == 0
    assert f"{N} rows, 2 columns" in capsys.readouterr().out
    assert len((tmp_path / "out/t.csv").read_text().splitlines()) == N + 1
    assert main(["schema", "export-table"]) == 0
    assert '"perClass"' in capsys.readouterr().out
