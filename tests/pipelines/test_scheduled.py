"""What a schedule needs: placeholders, a report, JSON logs, the lock's exit status, local paths refused."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from refusals import Place, command
from shared import ROOT

from patchbeam.errors import JobError
from patchbeam.lock import OutputLock
from pipelines.beam_options import beam_options
from pipelines.jobfile.placeholders import fill_placeholders
from pipelines.local_paths import refuse_local_paths, runs_elsewhere


def test_placeholders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_DATE", "2026-11-03")
    monkeypatch.setenv("BUCKET", "gs://b/${x}{date}")
    job = {
        "a": ["{date}", "x-{date:%Y%m%d}-{date:%d}", 3, None],
        "b": {"{date}": "${BUCKET}/s"},
        "c": "$${BUCKET} {name} {update} {}",
    }
    assert fill_placeholders(job, "job.yaml") == {
        "a": ["2026-11-03", "x-20261103-03", 3, None],
        "b": {"{date}": "gs://b/${x}{date}/s"},  # what a variable holds is taken as it is
        "c": "${BUCKET} {name} {update} {}",
    }
    monkeypatch.delenv("PATCHBEAM_DATE")
    assert fill_placeholders("{date}", "j") in {str(datetime.now(UTC).date()), str(datetime.now().date())}


@pytest.mark.parametrize(
    ("text", "day", "fragment"),
    [
        ("${PATCHBEAM_NOT_SET}", None, r"job\.yaml: a\[0\]: \$\{PATCHBEAM_NOT_SET\}: .* is not set"),
        ("{date}", "3.11.2026", "PATCHBEAM_DATE is '3.11.2026', which is no day"),
        ("out/{dte}/scene", None, r"a\[0\]: \{dte\}: is no placeholder; write \{date\} or"),
        ("${HOME}/{ Date:%Y}", None, r"\{ Date:%Y\}: is no placeholder"),
        ("{dates}", None, "is no placeholder"),
    ],
)
def test_placeholders_that_cannot_be_filled(
    monkeypatch: pytest.MonkeyPatch, text: str, day: str | None, fragment: str
) -> None:
    if day:
        monkeypatch.setenv("PATCHBEAM_DATE", day)
    with pytest.raises(JobError, match=fragment):
        fill_placeholders({"a": [text]}, "job.yaml")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


JOB = {
    "job": "export-image",
    "sources": "${SCENE}.tif",
    "formatOptions": {"patchDimensions": 32},
    "output": "out/{date:%Y}/scene",
}


def test_report_and_json_logs(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHBEAM_DATE", "2026-11-03")
    monkeypatch.setenv("SCENE", "scene")
    report = place.folder / "reports" / "r.json"
    assert place.export(JOB, "--report", str(report), "--log-json").status == 0
    done = json.loads(report.read_text())
    assert (done["status"], done["exitStatus"], done["error"]) == ("done", 0, None)
    assert done["patches"] == {"planned": 9, "written": 9, "dropped": 0}
    assert done["output"] == str(place.folder / "out" / "2026" / "scene")
    assert Path(done["manifest"]).exists() and done["shards"] == 1 and done["records"] == 9
    outcome = place.export(JOB, "--report", str(report), "--log-json")
    assert outcome.status == 2
    failed = json.loads(report.read_text())
    assert (failed["status"], failed["exitStatus"]) == ("failed", 2)
    lines = [json.loads(line) for line in outcome.err.splitlines()]
    assert lines[-1]["severity"] == "ERROR" and lines[-1]["message"] == failed["error"]
    # the next command logs as people read it
    assert place.export(JOB).err.startswith("patchbeam: output: ")


def test_a_report_that_cannot_be_written_is_refused_before_the_work(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCENE", "scene")
    for report, said in (
        ("folder", "--report: {}/folder is a folder; give the name of a file"),
        (
            "file/r.json",
            "--report: {}/file/r.json: cannot write here: {}/file is a file, not a folder; choose",
        ),
    ):
        outcome = place.export({**JOB, "output": "out/scene"}, "--report", str(place.folder / report))
        assert outcome.status == 2 and said.format(place.folder, place.folder) in outcome.err
        assert not (place.folder / "out").exists()
    picture = command("look", str(place.folder / "scene.tif"), "-o", str(place.folder / "file" / "p.png"))
    assert picture.status == 2 and "-o: " in picture.err and "; choose another output" in picture.err


def test_status_3_while_another_run_holds_the_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCENE", "scene")
    job = {**JOB, "output": "out/scene"}
    report = place.folder / "r.json"
    with OutputLock(str(place.folder / "out" / "scene"), take_over=False):
        outcome = place.export(job, "--report", str(report))
        assert outcome.status == 3 and "another run (process" in outcome.err
        assert json.loads(report.read_text())["exitStatus"] == 3
        assert [path.name for path in (place.folder / "out").iterdir()] == [".scene.lock"]
    assert place.export(job).status == 0


def test_two_jobs_to_one_prefix_at_once(place: Place) -> None:
    """One wins whole, the other says so."""
    alone = {}
    for patch in (4, 5):
        job = {
            **JOB,
            "sources": "scene.tif",
            "formatOptions": {"patchDimensions": patch},
            "blockBytes": 65536,
        }
        place.write({**job, "output": f"alone{patch}/scene"}, "alone.yaml")
        assert command("export-image", str(place.folder / "alone.yaml")).status == 0
        alone[patch] = {p.name: p.read_bytes() for p in (place.folder / f"alone{patch}").iterdir()}
        place.write({**job, "output": "out/scene"}, f"job{patch}.yaml")
    runs = {
        patch: subprocess.Popen(
            [sys.executable, "-m", "pipelines", "export-image", str(place.folder / f"job{patch}.yaml")],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for patch in alone
    }
    said = {patch: run.communicate(timeout=120)[1] for patch, run in runs.items()}
    statuses = {patch: run.returncode for patch, run in runs.items()}
    winner = next(patch for patch, status in statuses.items() if status == 0)
    loser = 9 - winner
    assert statuses[loser] in (2, 3), said
    assert "another run" in said[loser] or "files of an earlier export stand at" in said[loser]
    assert {p.name: p.read_bytes() for p in (place.folder / "out").iterdir()} == alone[winner]


@pytest.mark.parametrize(
    ("arguments", "elsewhere"),
    [
        ([], False),
        (["--runner=DataflowRunner"], True),
        (["--runner=FlinkRunner"], False),
        (["--runner=FlinkRunner", "--flink_master=[local]"], False),
        (["--runner=FlinkRunner", "--flink_master=localhost:8081"], False),
        (["--runner=FlinkRunner", "--flink_master=127.0.0.1:8081"], False),
        (["--runner=FlinkRunner", "--flink_master=flink.example.org:8081"], True),
        (["--runner=PortableRunner", "--job_endpoint=localhost:8099"], False),
        (["--runner=PortableRunner", "--job_endpoint=embed"], False),
        (["--runner=PortableRunner", "--job_endpoint=jobs.example.org:8099"], True),
        (["--runner=FlinkRunner", "--flink_master=localhost.example.org:8081"], True),
    ],
)
def test_which_runners_work_elsewhere(arguments: list[str], elsewhere: bool) -> None:
    options, _ = beam_options(arguments)
    assert runs_elsewhere(options) == elsewhere
    refuse_local_paths(options, [("output", "gs://b/x"), ("sources.a", "https://x/a.tif")])
    if elsewhere:
        with pytest.raises(JobError, match=r"sources\.a: /data/a\.tif is a local path"):
            refuse_local_paths(options, [("output", "gs://b/x"), ("sources.a", "/data/a.tif")])


def test_local_paths_are_refused_at_once(place: Place) -> None:
    arguments = ["--", "--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t"]
    begin = time.monotonic()
    job = yaml.safe_load(yaml.safe_dump({**JOB, "sources": "scene.tif", "output": "out/scene"}))
    place.refused(job, "output: ", "is a local path", "DataflowRunner", arguments=arguments)
    assert time.monotonic() - begin < 20
