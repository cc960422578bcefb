"""Round trip features → records → features, in every format, for every property type."""

from __future__ import annotations

import csv
import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pytest
from storage_faults import files_end_at
from table_jobs import export_table, import_table, points, write_vector

from patchbeam.errors import CorruptRecord, EncodeError, JobError, OutputExists, WriteFailed
from patchbeam.records.example import ExampleLayout, Feature
from patchbeam.records.tfrecord import write_records
from patchbeam.tables.importing.write import driver_of, write_table

ROWS: dict[str, Any] = {
    "flag": [True, False, None],
    "whole": [1, None, -7],
    "big": [2**60, 2**24, 5],
    "share": [0.1, None, 2.5],
    "text": ["Čertův důl", "", None],
    "day": [dt.date(2024, 2, 29), None, dt.date(1969, 12, 31)],
    "axes": [[1.5, 2.0], [3.25], None],
    "tags": [["a", "é"], ["b"], None],
}
EXPECTED: dict[str, list[Any]] = {
    "flag": [1, 0, None],
    "whole": [1, None, -7],
    "big": [2.0**60, 2.0**24, 5.0],
    "share": [float(np.float32(0.1)), None, 2.5],
    "text": ["Čertův důl", "", None],
    "day": ["2024-02-29", None, "1969-12-31"],
    "axes": [[1.5, 2.0], [3.25], None],
    "tags": [["a", "é"], ["b"], None],
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("round")
    path = folder / "in.geojson"
    rows = [dict(zip(ROWS, values, strict=True)) for values in zip(*ROWS.values(), strict=True)]
    features = [
        {"type": "Feature", "properties": row, "geometry": {"type": "Point", "coordinates": [10 + i, 45]}}
        for i, row in enumerate(rows)
    ]
    path.write_text(
        json.dumps({"type": "FeatureCollection", "features": features}, default=str, ensure_ascii=False)
    )
    report = export_table(folder, features="in.geojson", selectors=list(ROWS), geometry="geojson")
    assert report.rounded == {}
    return folder


def test_geoparquet(exported: Path) -> None:
    report = import_table(exported, records="out/table", output="back.parquet")
    table = pq.read_table(exported / "back.parquet")
    assert table.select(list(EXPECTED)).to_pydict() == EXPECTED
    assert table.column_names == [*EXPECTED, "geometry"] and report.geometry == ".geo"
    assert table.column("geometry").to_pylist() == points([10, 11, 12], [45, 45, 45]).to_pylist()
    geo = json.loads(table.schema.metadata[b"geo"])
    assert geo["primary_column"] == "geometry" and geo["columns"]["geometry"]["crs"]["id"]["code"] == 4326
    assert not list(exported.glob(".back*"))


@pytest.mark.parametrize("suffix", ["gpkg", "geojson"])
def test_vector_formats(exported: Path, suffix: str) -> None:
    import_table(exported, records="out/table.tfrecord.gz", output=f"back.{suffix}")
    meta, table = pyogrio.read_arrow(exported / f"back.{suffix}", datetime_as_string=True)
    assert meta["crs"] == "EPSG:4326"
    found = table.to_pydict()
    for name, values in EXPECTED.items():
        lists = name in ("axes", "tags") and suffix == "gpkg"  # it has no lists: they are JSON text
        given = (
            [None if v is None or not lists else json.loads(v) for v in found[name]] if lists else found[name]
        )
        # GeoJSON writes as many digits as tell one float32 from the next
        numbers = any(isinstance(v, float) for v in given)
        given = [None if v is None else float(np.float32(v)) for v in given] if numbers else given
        assert [str(v) if isinstance(v, dt.date) else v for v in given] == values, name
    assert found[table.column_names[-1]] == points([10, 11, 12], [45, 45, 45]).to_pylist()


def test_csv(exported: Path) -> None:
    import_table(exported, records="out/table", output="back.csv")
    with open(exported / "back.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["text"] == "Čertův důl" and rows[0]["whole"] == "1" and rows[1]["whole"] == ""
    assert float(rows[0]["share"]) == pytest.approx(0.1) and rows[0]["axes"] == "[1.5, 2.0]"
    assert json.loads(rows[2][".geo"])["coordinates"] == [12.0, 45.0]
    # and the empty text is told from the null
    assert (
        '"2024-02-29"' in (exported / "back.csv").read_text()
        and ',"",' in (exported / "back.csv").read_text()
    )


def test_a_round_trip_of_a_round_trip_gives_the_same_records(exported: Path) -> None:
    import_table(exported, records="out/table", output="again.parquet")
    names = list(ROWS)
    export_table(exported, features="again.parquet", selectors=names, geometry="geojson", output="out/again")
    first, second = (exported / "out" / f"{name}.tfrecord.gz" for name in ("table", "again"))
    assert first.read_bytes() == second.read_bytes()


def test_points_from_named_columns(tmp_path: Path) -> None:
    table = pa.table({"east": [500000.0, 500010.0], "north": [5300000.0, 5300000.0], "v": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "t.parquet")
    export_table(tmp_path, features="t.parquet", selectors=["east", "north", "v"])
    import_table(
        tmp_path, records="out/table", output="t.gpkg", xColumn="east", yColumn="north", crs="EPSG:32633"
    )
    meta, found = pyogrio.read_arrow(tmp_path / "t.gpkg")
    assert meta["crs"] == "EPSG:32633" and meta["geometry_type"] == "Point"
    assert found.column("geom").to_pylist() == points([500000, 500010], [5300000, 5300000]).to_pylist()
    import_table(
        tmp_path, records="out/table", output="t.geojson", xColumn="east", yColumn="north", crs="EPSG:32633"
    )
    _, moved = pyogrio.read_arrow(tmp_path / "t.geojson")
    import shapely

    assert np.allclose(
        shapely.get_coordinates(shapely.from_wkb(moved.column("wkb_geometry").to_pylist()))[0],
        [15, 47.854],
        atol=1e-3,
    )
    with pytest.raises(JobError, match=r"yColumn: no record has a feature 'nort' .*did you mean 'north'"):
        import_table(tmp_path, records="out/table", output="u.gpkg", xColumn="east", yColumn="nort")
    report = import_table(
        tmp_path, records="out/table", output="plain.parquet", columns=["v"], integers=False
    )
    assert report.columns == {"v": "float32"} and report.geometry == ""


def example(**values: Any) -> bytes:
    arrays = {
        name: np.frombuffer(v, np.uint8) if isinstance(v, bytes) else np.asarray(v)
        for name, v in values.items()
    }
    kinds = {"u": "bytes", "f": "float", "i": "int64"}
    layout = ExampleLayout([Feature(n, kinds[a.dtype.kind], a.size) for n, a in arrays.items()])  # type: ignore[arg-type]
    return layout.encode(list(arrays.values()))[12:-4]


def test_types_over_the_whole_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbeam.tables.importing.plan._BATCH_RECORDS", 3)
    rows: list[dict[str, Any]] = [
        {"a": [1.0], "c": [3], "z": b"x"},
        {"a": [2.0], "b": [1.5], "c": [2**40]},
        {"a": [2.0], "b": [1.0], "c": [-1]},
        {"a": [4.0, 5.0], "b": [7.0], "z": b"yy"},
    ] * 5
    write_records(
        tmp_path / "r.tfrecord",
        [
            example(
                **{
                    k: v
                    if isinstance(v, bytes)
                    else np.array(v, np.float32 if isinstance(v[0], float) else np.int64)
                    for k, v in row.items()
                }
            )
            for row in rows
        ],
    )
    report = import_table(tmp_path, records="r.tfrecord", output="t.parquet")
    # b comes between a and c although the first record has none
    assert report.columns == {"a": "list of int64", "b": "float32", "c": "int64", "z": "text"}
    table = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert table["a"] == [[1], [2], [2], [4, 5]] * 5 and table["c"] == [3, 2**40, -1, None] * 5
    assert table["b"] == [None, 1.5, 1.0, 7.0] * 5 and table["z"] == ["x", None, None, "yy"] * 5


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    write_records(tmp_path / "r.tfrecord", [example(raw=b"ok"), example(raw=b"\xff\x00")])
    with pytest.raises(
        EncodeError, match=r"feature 'raw' of record 1: its bytes are no UTF-8 text; say binary: \[raw\]"
    ):
        import_table(tmp_path, records="r.tfrecord", output="t.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["r.tfrecord"]
    import_table(tmp_path, records="r.tfrecord", output="t.parquet", binary=["raw"])
    assert pq.read_table(tmp_path / "t.parquet").to_pydict() == {"raw": [b"ok", b"\xff\x00"]}


def test_text_in_one_record_and_numbers_in_another(tmp_path: Path) -> None:
    write_records(tmp_path / "r.tfrecord", [example(v=b"one"), example(v=np.array([1.0], np.float32))])
    with pytest.raises(
        EncodeError, match="feature 'v' holds bytes in record 0 and float numbers in record 1"
    ):
        import_table(tmp_path, records="r.tfrecord", output="t.parquet")


def test_bad_imports(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(JobError, match="does not say the format; end it in one of"):
        import_table(exported, records="out/table", output="t.xlsx")
    with pytest.raises(JobError, match=r"no record has a feature 'shares' .*did you mean 'share'"):
        import_table(exported, records="out/table", output="t.csv", columns=["shares"])
    with pytest.raises(JobError, match="is no file"):
        import_table(exported, records="out/none", output="t.csv")
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(JobError, match="there is no record in them"):
        import_table(tmp_path, records="empty.tfrecord", output="t.csv")
    write_vector(tmp_path / "t.gpkg", pa.table({"v": [1]}), None, "GPKG")
    with pytest.raises(OutputExists, match="--overwrite"):
        import_table(exported, records="out/table", output=str(tmp_path / "t.gpkg"))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    write_records(tmp_path / "r.tfrecord", [example(v=np.array([float(i)], np.float32)) for i in range(5)])
    data = bytearray((tmp_path / "r.tfrecord").read_bytes())
    data[-6] ^= 1
    (tmp_path / "r.tfrecord").write_bytes(data)
    with pytest.raises(CorruptRecord, match=r"r.tfrecord.*record 4"):
        import_table(tmp_path, records="r.tfrecord", output="t.csv")


def test_names_that_stand_twice_and_a_crs_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("x,y,v\n1,2,3\n")
    export_table(tmp_path, features="p.csv", output="out/t")
    job: dict[str, Any] = {"records": "out/t.tfrecord.gz", "output": "back.csv"}
    with pytest.raises(JobError, match=r"columns\[1\]: 'v' stands twice; name each feature once"):
        import_table(tmp_path, **job, columns=["v", "v"])
    with pytest.raises(JobError, match=r"binary\[1\]: 'v' stands twice"):
        import_table(tmp_path, **job, binary=["v", "v"])
    with pytest.raises(JobError, match="crs: 'EPSG:99' is not a coordinate reference system; give a code"):
        import_table(tmp_path, **job, xColumn="x", yColumn="y", crs="EPSG:99")
    with pytest.raises(JobError, match="crs: 'EPSG:0' is not a coordinate reference system; give a code"):
        export_table(tmp_path, features="p.csv", xColumn="x", yColumn="y", crs="EPSG:0", overwrite=True)
    assert not (tmp_path / "back.csv").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "gpkg", "geojson"])
def test_a_table_that_does_not_fit_on_the_disk_is_an_error(tmp_path: Path, suffix: str) -> None:
    table = pa.table({"x": [float(n) for n in range(2000)], "name": [f"n{n}" for n in range(2000)]})
    path = str(tmp_path / f"t.{suffix}")

    def write() -> None:
        driver = driver_of(path, f".{suffix}")
        write_table(table.to_batches(), table.schema, path, driver, geometry=None, layer="t")

    write()
    whole = Path(path).stat().st_size
    Path(path).unlink()
    with (
        files_end_at(whole // 2),
        pytest.raises(WriteFailed, match=r"cannot be written: .*; make room there"),
    ):
        write()
