"""Job files that are no job files, and command lines that ask for the impossible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import JOB, Place, assert_refused, changed, command

from pipelines.export_image import main as export_module
from pipelines.jobfile import load_job, read_job_mapping

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("jobs"))


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("job: export-image\nsources: [a, b\noutput: x\n", ("line 3, column 7: not YAML", "expected ','")),
        ("job: export-image\nsources:\n\ta: b\n", ("line 3, column 1: not YAML", r"'\t'")),
        ("job: export-image\nsources: a: b\n", ("line 2, column 11: not YAML",)),
        ("sources: a.tif\nsources: b.tif\n", ("line 2, column 1: the key 'sources' stands twice; keep",)),
        ("sources: {a: a.tif, a: b.tif}\n", ("line 1, column 21: the key 'a' stands twice; keep one",)),
        ("job: !!python/object/apply:os.system [ls]\n", ("line 1, column 6", "tag", "give plain values")),
        ("job: *x\n", ("line 1, column 6: not YAML: found undefined alias",)),
        ("sources: &a [*a]\n", ("not YAML: lists or maps too deep in each other",)),
        ("? [a]\n: b\n", ("line 1, column 3: not YAML: found unhashable key",)),
        ("job: export-image\n---\njob: x\n", ("line 2, column 1: not YAML",)),
        ("blockBytes: " + "9" * 5000, ("line 1, column 13: not YAML", "4300 digits")),
        ("[" * 5000, (": not YAML: ",)),
        ("", ("a job file is a map of keys to values, this is nothing; begin with job:",)),
        ("# only this\n", ("this is nothing; begin with job:",)),
        ("- a\n", ("this is a list; begin with job:",)),
        ("hello\n", ("this is a text; begin with job:",)),
        (bytes(range(256)), ("byte 128: not UTF-8 text", "saved as UTF-8")),
        ("output: ü\n".encode("latin-1"), ("byte 8: not UTF-8 text", "saved as UTF-8")),
        ("job: export-image\n".encode("utf-16"), ("byte 0: not UTF-8 text",)),
        (b"job: a\x07b\n", ("line 1, column 7: the character U+0007", "take it out")),
        (b"\0" * 50, ("line 1, column 1: the character U+0000", "take it out")),
        ('output: "a\\ud800"\n', (r"output: 'a\ud800' holds half of a character",)),
        ('{"job": "export-image" "sources": 3}', ("line 1, column 24: not YAML",)),
        (json.dumps({**JOB, "sources": "none.tif"}), ("sources.image: ", "none.tif does not exist")),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_malformed_files(place: Place, text: str | bytes, fragments: tuple[str, ...]) -> None:
    place.refused(text, *fragments)


@pytest.mark.parametrize(
    ("name", "fragment"),
    [
        ("none.yaml", "none.yaml: this job file is not there; give the path"),
        ("folder", "folder: this job file is a folder; give the path"),
        ("scene.tif", "scene.tif, byte "),
    ],
)
def test_missing_files(place: Place, name: str, fragment: str) -> None:
    assert_refused(command("export-image", str(place.folder / name)), fragment)


def test_odd_paths() -> None:
    assert_refused(command("plan", ""), "the name of the job file is empty; give one")
    assert_refused(command("plan", "http://a/job.yaml"), "http://a/job.yaml: http:// is not a place")


def test_unreadable_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("pipelines.jobfile.load.read_bytes", refuse)
    place.refused(JOB, "job.yaml: this job file cannot be read: Permission denied", "permissions")


def test_numbers_are_those_of_json(tmp_path: Path) -> None:
    # YAML 1.1 would make text of 1e3, eight of 010, ninety of 1:30 and a date of the last
    text = "a: [1e3, 1.5E-7, -2, +3, .5, 1., 0x10, .inf, 0, -0.0]\nb: [010, 1:30, 2024-01-01, 1_000]\n"
    (tmp_path / "job.yaml").write_text(text)
    mapping = read_job_mapping(str(tmp_path / "job.yaml"))
    assert mapping["a"] == [1000.0, 1.5e-7, -2, 3, 0.5, 1.0, 16, float("inf"), 0, 0.0]
    assert mapping["b"] == ["010", "1:30", "2024-01-01", "1_000"]


def test_anchors_merge_keys_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = "job: export-image\nsources:\n  a: &a {path: x.tif, nodata: 0}\n  b: {<<: *a, path: y.tif}\n"
    text += "output: o\n"
    (tmp_path / "job.yaml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    job = load_job(str(tmp_path / "job.yaml"))
    assert [(s.path, s.nodata) for s in job.sources.values()] == [(["x.tif"], 0.0), (["y.tif"], 0.0)]


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["--set", "x"], ("--set x: give KEY=VALUE",)),
        (["--set", "=3"], ("--set =3: give KEY=VALUE",)),
        (["--set", "grid..x=3"], ("--set grid..x=3: a name in 'grid..x' is empty",)),
        (
            ["--set", "sources.x=3"],
            (
                "--set sources.x: sources is a text and has no keys",
                "set it as a whole",
            ),
        ),
        (["--set", "edge=["], ("--set edge, line 1, column 2: not YAML",)),
        (["--set", "edge="], ("edge: null is not drop or pad",)),
        (["--set", "formatOption.x=3"], ("formatOption: unknown key", "'formatOptions'?")),
        (["--set", "formatOptions.patchDimension=3"], ("formatOptions.patchDimension: unknown", "'patch")),
        (["--set"], ("'--set' requires an argument",)),
        (["--workers", "0"], ("'--workers': 0 is not in the range", "--help")),
        (["--workers", "x"], ("'--workers': 'x' is not a valid", "--help")),
        (["--owerwrite"], ("No such option '--owerwrite'", "--help")),
        (["extra"], ("extra: is neither an option of this command nor of Beam",)),
        (["--", "--ruunner=x"], ("--ruunner=x: is neither", "'--runner'?")),
        (["--", "--runner"], ("--runner: expected one argument",)),
        (["--", "--runner=Nope"], ("--runner=Nope: ", "leave --runner out")),
        (["--", "--runner=no.such.Runner"], ("--runner=no.such.Runner: ", "leave --runner out")),
        (["--", "--runner=DataflowRunner"], ("output: ", "is a local path", "DataflowRunner", "gs://")),
        (["--", "--direct_running_mode=x"], ("--direct_running_mode: invalid choice: 'x'",)),
        (["--", "--direct_num_workers=x"], ("--direct_num_workers: invalid int value: 'x'",)),
        (
            ["--", "--direct_running_mode=multi_threading"],
            ("--direct_running_mode=multi_threading: ", "loses elements", "multi_processing"),
        ),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_bad_arguments(place: Place, arguments: list[str], fragments: tuple[str, ...]) -> None:
    place.refused(JOB, *fragments, arguments=arguments)


def test_unknown_commands() -> None:
    assert_refused(command("exportimage"), "'exportimage' is not a command", "'export-image'?", "--help")
    assert_refused(command("export-image"), "Missing argument 'JOB'", "--help")
    assert_refused(command("schema", "export"), "'export' is not a job", "export-image")


def test_the_module_for_python_submitters(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert export_module([]) == 2
    assert "--job: give the job file" in capsys.readouterr().err
    path = place.write(changed({"edge": "dorp"}))
    assert export_module([f"--job={path}", "--runner=FnApiRunner"]) == 2
    assert 'edge: "dorp" is not drop or pad' in capsys.readouterr().err


def test_normal_runs_are_quiet(tmp_path: Path) -> None:
    here = Place(tmp_path)
    path = here.write(JOB)
    for arguments in (["plan", str(path)], ["export-image", str(path)]):
        done = subprocess.run(
            [sys.executable, "-m", "pipelines", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONWARNINGS": ""},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_nodata_that_never_matches_is_said_once(tmp_path: Path) -> None:
    here = Place(tmp_path)
    (tmp_path / "a.vrt").write_text(
        "<VRTDataset rasterXSize='64' rasterYSize='64'><SRS>EPSG:32633</SRS>"
        "<GeoTransform>0,10,0,0,0,-10</GeoTransform><VRTRasterBand dataType='UInt16' band='1'>"
        "<NoDataValue>-1</NoDataValue><SimpleSource><SourceFilename relativeToVRT='1'>scene.tif"
        "</SourceFilename><SourceBand>1</SourceBand></SimpleSource></VRTRasterBand></VRTDataset>"
    )
    outcome = here.export(changed({"sources": "a.vrt"}))
    assert outcome.status == 0
    assert outcome.err.splitlines() == [
        f"warning: sources.image: {tmp_path / 'a.vrt'}: band 1 has nodata -1.0, which uint16 cannot hold: no "
        "pixel is masked by it; give the right one with nodata: under the source"
    ]
