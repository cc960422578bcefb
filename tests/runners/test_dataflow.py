"""Submission to Dataflow as a user does it, to a service on loopback that really runs what was staged."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from eager import write_tif
from fake_dataflow import Service, dataflow, staged
from refusals import Outcome, command
from shared import ROOT
from storage_emulator import bucket_in_a_process

from patchbeam import storage
from pipelines import progress
from pipelines.export_image import main

pytest.importorskip("google.cloud.dataflow", reason="needs google-cloud-dataflow-client")

JOB = {
    "job": "export-image",
    "sources": "in/a*.tif",
    "formatOptions": {"patchDimensions": 16, "kernelSize": 8, "maxFileSize": 30_000},
    "output": "out/scene",
}


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with bucket_in_a_process() as url:
        yield url


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project, so that what packaging leaves is not left in it."""
    folder = tmp_path_factory.mktemp("project") / "patchbeam"
    folder.mkdir()
    for name in ("patchbeam", "transforms", "pipelines"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.fixture
def local(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    values = np.random.default_rng(4).integers(1, 9000, (2, 128, 96)).astype("u2")
    write_tif(tmp_path / "in" / "a.tif", values, tiled=True, blockxsize=32, blockysize=32)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    assert command("export-image", str(tmp_path / "job.yaml")).status == 0
    return tmp_path


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam would look for some for 20 s."""
    from apache_beam.internal.gcp import auth

    monkeypatch.setattr(auth._Credentials, "_credentials_init", True)


def submit(place: str, endpoint: str, *more: str) -> Outcome:
    import contextlib

    out, err = io.StringIO(), io.StringIO()
    arguments = [
        "--job",
        f"{place}/job.yaml",
        "--runner=DataflowRunner",
        "--project=p",
        "--region=r",
        f"--temp_location={place}/temp",
        f"--staging_location={place}/staging",
        f"--dataflow_endpoint={endpoint}",
        *more,
    ]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(arguments)
    return Outcome(status, out.getvalue(), err.getvalue())


def upload(local: Path, place: str) -> None:
    storage.write_atomic(f"{place}/in/a.tif", (local / "in" / "a.tif").read_bytes())
    storage.write_atomic(f"{place}/job.yaml", yaml.safe_dump(JOB).encode())


def pipeline_url(service: Service) -> str:
    return str(service.job["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"])


def test_a_job_is_submitted_run_and_published(
    bucket: str, local: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{bucket}/whole"
    upload(local, place)
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.2)
    monkeypatch.setattr(progress, "ASK_EVERY_S", 0.2)
    with dataflow(project) as (endpoint, service):
        service.counters = {"patches_done": 12, "patches_done_bytes": 90_000}
        outcome = submit(
            place,
            endpoint,
            f"--setup_file={project / 'setup.py'}",
            "--labels=team=land",
            "--machine_type=n2-standard-4",
            "--max_num_workers=7",
            "--sdk_container_image=example.org/patchbeam:1",
        )
    assert outcome.status == 0, f"{outcome.err}\n{service.said}"
    # progress by the counters of the service
    assert "12 of 48 patches (25 %), " in outcome.err, outcome.err
    # the same bytes, and nothing else
    names = {path.name for path in (local / "out").iterdir()}
    assert {storage.split(name)[1] for name in storage.list_names(f"{place}/out/")} == names
    assert storage.list_folders(f"{place}/out/") == []
    for name in names - {"scene-manifest.json"}:
        assert storage.read_bytes(f"{place}/out/{name}") == (local / "out" / name).read_bytes()
    # what the service was told
    assert service.size_bytes < 1_000_000
    assert service.job["labels"]["team"] == "land"
    pool = service.job["environment"]["workerPools"][0]
    assert pool["machineType"] == "n2-standard-4"
    assert pool["autoscalingSettings"]["maxNumWorkers"] == 7
    images = {image["containerImage"] for image in pool["sdkHarnessContainerImages"]}
    assert images == {"example.org/patchbeam:1"}
    # the package that workers install holds all three floors and what they read
    packages = {package["name"]: package["location"] for package in pool["packages"]}
    archive = storage.read_bytes(
        "gs://" + packages["workflow.tar.gz"].removeprefix("storage.googleapis.com/")
    )
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        held = {name.partition("/")[2] for name in files.getnames()}
    for name in ("pipelines/cli.py", "transforms/write.py", "patchbeam/schemas/manifest.schema.json"):
        assert name in held


def test_steps_have_stable_unique_names_and_small_pickles(bucket: str, local: Path) -> None:
    graphs = []
    for number in range(2):
        place = f"{bucket}/steps{number}"
        upload(local, place)
        with dataflow(None) as (endpoint, service):
            # nothing runs there, so that nothing is published, which is noticed
            outcome = submit(place, endpoint, "--experiments=use_runner_v2")
        assert outcome.status == 1 and "reports success and has not published" in outcome.err
        graphs.append(staged(pipeline_url(service)))
    steps = [
        [step.unique_name for step in graph.components.transforms.values() if step.spec.urn]
        for graph in graphs
    ]
    assert sorted(steps[0]) == sorted(steps[1])
    assert len(set(steps[0])) == len(steps[0])
    heads = {name.partition("/")[0] for name in steps[0]}
    assert heads >= {"CreateReadBlocks", "ReadWindows", "EncodeExamples", "WriteToTFRecord"}
    # names that Beam makes of functions change with every line; those that are left are inside its own steps
    assert not any(re.search(r"0x|lambda at (?!core\.py|util\.py)", name) for name in steps[0])
    for step in graphs[0].components.transforms.values():
        assert len(step.spec.payload) < 20_000, step.unique_name


@pytest.mark.long
def test_a_job_that_fails_there(bucket: str, local: Path, project: Path) -> None:
    place = f"{bucket}/failing"
    upload(local, place)
    with dataflow(project / "nothing here") as (endpoint, service):
        service._replay = lambda: setattr(service, "_state", "JOB_STATE_FAILED")  # type: ignore[method-assign]
        outcome = submit(place, endpoint)
    assert outcome.status == 1 and "the job failed where it ran: Dataflow pipeline failed" in outcome.err
    assert "Traceback" not in outcome.err and "--resume" in outcome.err
    assert not storage.list_names(f"{place}/out/scene-manifest")
