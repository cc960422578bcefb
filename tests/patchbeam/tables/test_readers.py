"""One table in every format gives the same features; what cannot be read is refused before any work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
from table_jobs import points, write_vector

from patchbeam.errors import JobError, ReadFailed
from patchbeam.tables.libraries import vector_errors
from patchbeam.tables.plan import select
from patchbeam.tables.readers import open_table, read_batches
from patchbeam.tables.source import INDEX

N = 23
TABLE = pa.table(
    {
        "count": pa.array([None if i == 3 else i for i in range(N)], pa.int32()),
        "share": np.arange(N) / 8,
        "name": [None if i == 5 else f"Grünau {i}" for i in range(N)],
    }
)
X, Y = np.linspace(10, 12, N), np.linspace(45, 50, N)


def write(folder: Path, suffix: str) -> Path:
    path = folder / f"t{suffix}"
    if suffix == ".csv":
        # by hand: a null and an empty text differ in quotes alone
        rows = TABLE.append_column("lon", pa.array(X)).append_column("lat", pa.array(Y)).to_pylist()
        lines = [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
        path.write_text("\n".join(["count,share,name,lon,lat", *lines]) + "\n", encoding="utf-8")
        return path
    if suffix == ".parquet":
        geo = {
            "version": "1.1.0",
            "primary_column": "geometry",
            "columns": {"geometry": {"encoding": "WKB", "geometry_types": ["Point"]}},
        }
        table = TABLE.append_column("geometry", points(X, Y)).replace_schema_metadata(
            {"geo": json.dumps(geo)}
        )
        pq.write_table(table, path, row_group_size=7)
        return path
    drivers = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".shp": "ESRI Shapefile", ".fgb": "FlatGeobuf"}
    more = {"layer_options": {"SPATIAL_INDEX": "NO"}} if suffix == ".fgb" else {}
    return write_vector(path, TABLE, points(X, Y), drivers[suffix], **more)


@pytest.mark.parametrize("suffix", [".gpkg", ".geojson", ".shp", ".fgb", ".parquet", ".csv"])
def test_formats_agree(tmp_path: Path, suffix: str) -> None:
    source = open_table(str(write(tmp_path, suffix)))
    assert source.rows == N and source.has_geometry and source.crs is not None
    assert source.names[:3] == ("count", "share", "name")
    # another order than the file's, in batches that end anywhere
    batches = list(read_batches(source, ["name", "count"], ids=True, geometry=True, batch_rows=5))
    assert [batch.first for batch in batches] == np.cumsum([0, *(b.rows for b in batches)])[:-1].tolist()
    values = pa.Table.from_batches([batch.values for batch in batches])
    assert values.column("count").to_pylist() == TABLE.column("count").to_pylist()
    assert values.column("name").to_pylist() == TABLE.column("name").to_pylist()
    ids = [name for batch in batches for name in batch.ids.to_pylist()]
    first = 1 if suffix == ".gpkg" else 0
    assert ids == [str(i + first) for i in range(N)]
    wkb = pa.concat_arrays([batch.wkb for batch in batches])
    assert wkb.to_pylist() == points(X, Y).to_pylist()
    # from the middle on
    part = pa.Table.from_batches(
        [b.values for b in read_batches(source, ["share"], first=9, rows=10, batch_rows=4)]
    )
    assert part.column("share").to_pylist() == (np.arange(9, 19) / 8).tolist()


def test_ranges_of_a_format_that_starts_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_table(str(write(tmp_path, ".gpkg")))
    monkeypatch.setattr("patchbeam.tables.source.RANGE_ROWS", 10)
    assert list(source.ranges()) == [(0, 10), (10, 10), (20, 3)]
    found = [
        v
        for first, rows in source.ranges()
        for b in read_batches(source, ["share"], first=first, rows=rows)
        for v in b.values.column(0).to_pylist()
    ]
    assert found == (np.arange(N) / 8).tolist()
    assert list(open_table(str(write(tmp_path, ".csv"))).ranges()) == [(0, N)]


def test_ids_of_geojson_that_are_text(tmp_path: Path) -> None:
    features = [
        {"type": "Feature", "id": f"a{i}", "properties": {"v": i}, "geometry": None} for i in range(3)
    ]
    path = tmp_path / "f.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    source = open_table(str(path))
    (batch,) = read_batches(source, ["v"], ids=True)
    assert batch.ids.to_pylist() == ["a0", "a1", "a2"]


def test_selectors(tmp_path: Path) -> None:
    source = open_table(str(write(tmp_path, ".gpkg")))
    assert select(source, None) == (INDEX, "count", "share", "name")
    assert select(source, ["share", INDEX]) == ("share", INDEX)
    with pytest.raises(JobError, match=r"selectors\[1\]: 'nmae' is not a property .*did you mean 'name'"):
        select(source, ["share", "nmae"])
    with pytest.raises(JobError, match=r"selectors\[0\]: 'share' stands twice"):
        select(source, ["share", "share"])
    with pytest.raises(JobError, match="'geometry' is the geometry; it is exported with geometry:"):
        select(open_table(str(write(tmp_path, ".parquet"))), ["geometry"])


def test_missing_empty_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="there is no such file"):
        open_table(str(tmp_path / "none.gpkg"))
    (tmp_path / "t.gpkg").write_bytes(b"no table")
    with pytest.raises(JobError, match="not a table that can be read"):
        open_table(str(tmp_path / "t.gpkg"))
    (tmp_path / "t.parquet").write_bytes(b"no table")
    with pytest.raises(JobError, match="not a Parquet file"):
        open_table(str(tmp_path / "t.parquet"))
    empty = write_vector(tmp_path / "empty.gpkg", TABLE.slice(0, 0), points([], []), "GPKG", layer="sites")
    with pytest.raises(JobError, match="layer 'sites' is empty"):
        open_table(str(empty))
    (tmp_path / "head.csv").write_text("a,b\n")
    with pytest.raises(JobError, match="is empty"):
        open_table(str(tmp_path / "head.csv"))


def test_several_layers(tmp_path: Path) -> None:
    path = tmp_path / "two.gpkg"
    for i, name in enumerate(("sites", "plots")):
        write_vector(path, TABLE, points(X, Y), "GPKG", layer=name, append=bool(i))
    assert len(pyogrio.list_layers(path)) == 2
    with pytest.raises(JobError, match="has 2 layers; name one with layer: sites, plots"):
        open_table(str(path))
    with pytest.raises(JobError, match=r"layer: 'sits' is not in .*did you mean 'sites'"):
        open_table(str(path), layer="sits")
    assert open_table(str(path), layer="plots").layer == "plots"
    with pytest.raises(JobError, match="one table without layers"):
        open_table(str(write(tmp_path, ".csv")), layer="x")


CSV = [
    ("n,t\n1,a\n2,b\n", {}, {"n": [1, 2], "t": ["a", "b"]}),
    ('n\n1\n""\n', {"n": "string"}, {"n": ["1", ""]}),
    ("z\n00501\n10001\n", {}, {"z": ["00501", "10001"]}),
    ("b,f\ntrue,1e3\nFalse,-.5\n", {}, {"b": [True, False], "f": [1000.0, -0.5]}),
    ('i,t\n9007199254740993,""\n,\n', {}, {"i": [9007199254740993, None], "t": ["", None]}),
]


@pytest.mark.parametrize(("text", "types", "expected"), CSV)
def test_types_of_csv(
    tmp_path: Path, text: str, types: dict[str, str], expected: dict[str, list[object]]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    source = open_table(str(path), types=types)
    (batch,) = read_batches(source, source.names)
    assert batch.values.to_pydict() == expected


def test_csv_columns_of_numbers_and_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    # far beyond the first block, where types would usually be settled
    path.write_text("v\n" + "1.5\n" * 1_100_000 + "N/A\n")
    with pytest.raises(
        JobError, match=r"property 'v' holds values of several types: '1.5', and 'N/A' in row 1100000"
    ):
        open_table(str(path))
    assert open_table(str(path), null_values=["N/A"]).columns[0].kind == "number"
    assert open_table(str(path), types={"v": "string"}).columns[0].kind == "text"
    with pytest.raises(JobError, match=r"types\.w: is not a column"):
        open_table(str(path), types={"w": "string"})


def test_csv_coordinates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("east,north\n1,2\n,4\n")
    source = open_table(str(path), xy=("east", "north"), crs="EPSG:32633")
    (batch,) = read_batches(source, ["north"], geometry=True)
    assert batch.wkb.to_pylist() == points([1, np.nan], [2, 4]).to_pylist()
    assert batch.values.column_names == ["north"]
    with pytest.raises(JobError, match=r"yColumn: 'nort' is not a column .*did you mean 'north'"):
        open_table(str(path), xy=("east", "nort"))


def test_a_table_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("v\n1\n2\n3\n")
    source = open_table(str(path))
    path.write_text("v\n1\n2\n")
    with pytest.raises(ReadFailed, match="2 features came from feature 0 on and 3 are due"):
        list(read_batches(source, ["v"]))


@pytest.mark.parametrize("number", range(5))
def test_whatever_the_vector_library_raises_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = str(write(tmp_path, ".gpkg"))
    source = open_table(path)
    kind = vector_errors()[number]
    error = UnicodeDecodeError("utf-8", b"x", 0, 1, "bad") if kind is UnicodeDecodeError else kind("bad")

    def fails(*_: Any, **__: Any) -> None:
        raise error

    for name, message in (
        ("list_layers", r"t\.gpkg: not a table that can be read .*; give GeoJSON"),
        ("open_arrow", r"t\.gpkg: layer 't' cannot be read: .*; ogrinfo"),
    ):
        with monkeypatch.context() as patch, pytest.raises(JobError, match=message):
            patch.setattr(pyogrio, name, fails)
            open_table(path)
    monkeypatch.setattr(pyogrio, "open_arrow", fails)
    with pytest.raises(ReadFailed, match=r"t\.gpkg: features from number 0 on cannot be read: "):
        list(read_batches(source, ["count"]))
