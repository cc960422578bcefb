"""Everything in Cloud Storage, or on a web server: the same bytes as from and to local files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import yaml
from eager import write_tif
from range_server import served
from refusals import Outcome, command
from storage_emulator import bucket_in_a_process

from patchbeam import storage


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with bucket_in_a_process() as url:
        yield url


REGION = {
    "type": "Polygon",
    "coordinates": [[[500_000, 5_299_000], [500_900, 5_299_000], [500_500, 5_300_000], [500_000, 5_299_000]]],
}
JOB: dict[str, Any] = {
    "job": "export-image",
    "sources": {"a": "in/a*.tif", "b": {"path": "in/b.tif", "resampling": "bilinear"}},
    "grid": {"region": "in/region.json", "regionCrs": "EPSG:32633"},
    "formatOptions": {"patchDimensions": 8, "kernelSize": 4, "maxFileSize": 40_000},
    "maskBand": "valid",
    "blockBytes": 1 << 16,
    "output": "out/scene",
}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("local")
    (folder / "in").mkdir()
    values = np.random.default_rng(4).integers(0, 9000, (2, 100, 90)).astype("u2")
    options = {"nodata": 0, "tiled": True, "blockxsize": 16, "blockysize": 16, "compress": "deflate"}
    left, right = values[:, :, :48], values[:, :, 48:]
    write_tif(folder / "in" / "a1.tif", left, names=["p", "q"], **options)
    east = rasterio.Affine(10, 0, 500_480, 0, -10, 5_300_000)
    write_tif(folder / "in" / "a2.tif", right, names=["p", "q"], transform=east, **options)
    coarse = rasterio.Affine(30, 0, 499_900, 0, -30, 5_300_100)
    write_tif(folder / "in" / "b.tif", values[0, :40, :40].astype("f4"), transform=coarse, names=["h"])
    (folder / "in" / "region.json").write_text(json.dumps(REGION))
    (folder / "job.yaml").write_text(yaml.safe_dump(JOB))
    assert command("export-image", str(folder / "job.yaml")).status == 0
    return folder


def upload(local: Path, place: str, job: dict[str, Any]) -> str:
    for path in (local / "in").iterdir():
        storage.write_atomic(f"{place}/in/{path.name}", path.read_bytes())
    storage.write_atomic(f"{place}/job.yaml", yaml.safe_dump(job).encode())
    return f"{place}/job.yaml"


def export(path: str, *arguments: str) -> Outcome:
    outcome = command("export-image", path, "--workers", "2", *arguments)
    assert outcome.status == 0, outcome.err
    return outcome


def differing(place: str, local: Path) -> set[str]:
    """Names of the files that differ; the manifest names its sources, so it is another."""
    names = {path.name for path in (local / "out").iterdir()}
    assert {storage.split(name)[1] for name in storage.list_names(f"{place}/out/")} == names
    return {n for n in names if storage.read_bytes(f"{place}/out/{n}") != (local / "out" / n).read_bytes()}


def test_from_bucket_to_bucket(bucket: str, local: Path) -> None:
    place = f"{bucket}/first"
    export(upload(local, place, JOB))
    assert differing(place, local) == {"scene-manifest.json"}
    # no lock, no piece, nothing half-written; only what belongs there
    assert storage.list_folders(f"{place}/out/") == []
    from google.cloud.storage import Client

    names = [blob.name for blob in Client(project="p").list_blobs("bucket", prefix="first/out/")]
    assert len(names) == len(list((local / "out").iterdir()))
    verified = command("verify", f"{place}/out/scene")
    assert verified.status == 0, verified.err


def test_an_object_that_changed_is_noticed(bucket: str, local: Path) -> None:
    place = f"{bucket}/second"
    path = upload(local, place, JOB)
    before = yaml.safe_load(command("plan", path, "--json").out)
    files = [file for source in before["sources"] for file in source["files"]]
    assert [storage.split(file["path"])[1] for file in files] == ["a1.tif", "a2.tif", "b.tif"]
    for file in files:
        stat = storage.stat(file["path"])
        assert (file["sizeBytes"], file["modified"]) == (stat.size_bytes, stat.modified)


def test_more_pieces_than_a_compose_call_takes(
    bucket: str, local: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patchbeam.storage import gcs_write

    calls: list[int] = []
    original = gcs_write._compose

    def counted(sources: Any, destination: str) -> str:
        calls.append(len(sources))
        return original(sources, destination)

    monkeypatch.setattr(gcs_write, "_compose", counted)
    place = f"{bucket}/third"
    job = {
        **JOB,
        "sources": {"a": "in/a*.tif"},
        "grid": {},
        "formatOptions": {"patchDimensions": [8, 2], "maxFileSize": 1 << 20},
    }
    export(upload(local, place, job))
    assert calls == [32, 18, 2]  # 50 rows of patches, one shard
    (local / "one.yaml").write_text(yaml.safe_dump({**job, "output": "one/scene"}))
    export(str(local / "one.yaml"))
    name = "scene-00000.tfrecord.gz"
    assert storage.read_bytes(f"{place}/out/{name}") == (local / "one" / name).read_bytes()


def test_patterns_of_objects(bucket: str, local: Path) -> None:
    place = f"{bucket}/fourth"
    upload(local, place, JOB)
    for pattern, fragment in (
        (f"{place}/in/z*.tif", "no object matches"),
        (f"{place}/*/a.tif", "only the last"),
    ):
        storage.write_atomic(f"{place}/job.yaml", yaml.safe_dump({**JOB, "sources": pattern}).encode())
        outcome = command("export-image", f"{place}/job.yaml")
        assert outcome.status == 2 and fragment in outcome.err


def test_sources_of_a_web_server(local: Path, tmp_path: Path) -> None:
    with served(local / "in") as url:
        sources = {
            "a": [f"{url}/a1.tif", f"{url}/a2.tif"],
            "b": {"path": f"{url}/b.tif", "resampling": "bilinear"},
        }
        region = str(local / "in" / "region.json")
        job = {**JOB, "sources": sources, "grid": {**JOB["grid"], "region": region}}
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        export(str(tmp_path / "job.yaml"))
        plan = yaml.safe_load(command("plan", str(tmp_path / "job.yaml"), "--json").out)
        file = plan["sources"][0]["files"][0]
        assert file["sizeBytes"] == (local / "in" / "a1.tif").stat().st_size and file["modified"]
        assert differing(str(tmp_path), local) == {"scene-manifest.json"}
