"""What a URL holds of secrets reaches the server, and no message, log, plan, report or manifest."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from eager import write_tif
from range_server import served
from refusals import Outcome, command

from patchbeam import redact
from patchbeam.errors import JobError, ReadFailed, WriteFailed
from patchbeam.redact import without_secrets
from transforms import write as writing

SIGNATURE = "3f9a77c0ffee41"
TOKEN = "hunter2hunter2"
QUERY = f"?X-Goog-Algorithm=GOOG4-RSA-SHA256&X-Goog-Signature={SIGNATURE}&sig=${{MY_TOKEN}}"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    web = tmp_path / "web"
    web.mkdir()
    values = np.random.default_rng(1).integers(1, 900, (2, 64, 64)).astype("u2")
    write_tif(web / "scene.tif", values, names=["red", "nir"])
    with served(web) as address:
        yield address


def job(folder: Path, source: Any) -> str:
    given = {"job": "export-image", "sources": source, "formatOptions": {"patchDimensions": 16}}
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**given, "output": "out/scene"}))
    return str(path)


def nothing_told(folder: Path, *outcomes: Outcome) -> None:
    """Neither secret stands in what was printed, or in any file that a run has left."""
    for outcome in outcomes:
        for secret in (SIGNATURE, TOKEN):
            assert secret not in outcome.out and secret not in outcome.err
    for path in (folder / "out").rglob("*"):
        if path.is_file() and "catalogue-" not in path.name:
            data = path.read_bytes()
            assert SIGNATURE.encode() not in data and TOKEN.encode() not in data, path


def test_an_export_from_a_signed_url(tmp_path: Path, url: str) -> None:
    path = job(tmp_path, f"{url}/scene.tif{QUERY}")
    report = tmp_path / "out" / "report.json"
    done = [
        command("plan", path),
        command("plan", path, "--json"),
        command("export-image", path, "--report", str(report), "--log-json"),
    ]
    assert [outcome.status for outcome in done] == [0, 0, 0], done
    assert f"{url}/scene.tif?…" in done[0].out
    manifest = json.loads((tmp_path / "out" / "scene-manifest.json").read_text())
    assert manifest["sources"][0]["files"][0]["path"] == f"{url}/scene.tif?…"
    again = command("verify", str(tmp_path / "out" / "scene"), "--sources")
    assert "does not hold what the job gave to reach this file" in again.out + again.err
    assert command("verify", str(tmp_path / "out" / "scene")).status == 0
    nothing_told(tmp_path, *done, again, command("export-image", path))


def test_what_an_unfinished_run_leaves(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise WriteFailed(f"cannot write what came of {url}/scene.tif?sig={TOKEN}")

    path = job(tmp_path, f"{url}/scene.tif{QUERY}")
    with monkeypatch.context() as patch:
        patch.setattr(writing, "assemble", fails)
        outcome = command("export-image", path)
    assert outcome.status == 1
    assert list((tmp_path / "out").rglob("plan.json"))
    refused = command("export-image", path, "--set", "formatOptions.patchDimensions=32")
    assert refused.status == 2
    nothing_told(tmp_path, outcome, refused)
    assert command("export-image", path, "--resume").status == 0
    nothing_told(tmp_path)


@pytest.mark.parametrize(
    "source",
    [
        "{url}/nothing.tif{query}",
        ["{url}/scene.tif{query}", "{url}/nothing.tif{query}"],
        "{url}/catalog.json{query}",
        {"s2": {"path": "{url}/scene.tif{query}", "nodata": "no number"}},
        {"s2": {"path": "/vsicurl?header.Authorization=Bearer ${MY_TOKEN}&url={url}/nothing.tif"}},
        {"s2": {"path": "http://me:${MY_TOKEN}@127.0.0.1:9/scene.tif"}},
        "{url}/nothing.tif#sig=${MY_TOKEN}",
        "{url}/catalog.json#sig=3f9a77c0ffee41",
        {"s2": {"stacApi": True, "path": "http://127.0.0.1:9/search?key=${MY_TOKEN}", "collections": ["a"]}},
        {"s2": {"path": "{url}/scene.tif", "resampling": "${MY_TOKEN}"}},
    ],
)
def test_refusals(tmp_path: Path, url: str, source: Any) -> None:
    text = json.dumps(source).replace("{url}", url).replace("{query}", QUERY)
    path = job(tmp_path, json.loads(text))
    done = [command("plan", path), command("export-image", path, "--log-json")]
    assert all(outcome.status in (1, 2) for outcome in done), done
    nothing_told(tmp_path, *done)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://h/a.tif?sig=abc cannot be read", "https://h/a.tif?… cannot be read"),
        ("'https://h/a.tif?sig=abc', and", "'https://h/a.tif?…', and"),
        ("(https://h/a?b=c&d=e).", "(https://h/a?…)."),
        ("https://me:pw@h/a.tif", "https://…@h/a.tif"),
        ("https://me:p@ss@h/a.tif, me@h", "https://…@h/a.tif, me@h"),
        ("/vsicurl?use_head=no&url=https://h/a.tif", "/vsicurl?…"),
        ("/vsicurl/https://h/a.tif?sig=abc", "/vsicurl/https://h/a.tif?…"),
        ("https://h/a.tif#access_token=abc cannot be read", "https://h/a.tif#… cannot be read"),
        ("(https://h/a?b=c#d=e), 'https://h/#/a?b=c'.", "(https://h/a?…), 'https://h/#…'."),
        ("https://me:pw@h/a.tif#abc; fetch it", "https://…@h/a.tif#…; fetch it"),
        ("https://me:p#ss@h/a.tif", "https://…@h/a.tif"),
        ("https://me:p?ss@h/a.tif, 'https://h?'", "https://…@h/a.tif, 'https://h?'"),
        ("/vsicurl/https://h/a.tif#abc", "/vsicurl/https://h/a.tif#…"),
        ("/vsizip//data/a#1.zip and gs://b/a#1.tif", "/vsizip//data/a#1.zip and gs://b/a#1.tif"),
        ("colour #ff0000 of issue #3", "colour #ff0000 of issue #3"),
        ("gs://b/s2/a?.tif", "gs://b/s2/a?.tif"),
        ("/data/a?.tif and a@b", "/data/a?.tif and a@b"),
        ("is it there? no", "is it there? no"),
        ("https://h/a.tif?…", "https://h/a.tif?…"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
    assert without_secrets(expected) == expected
    for kind in (JobError, ReadFailed):
        assert str(kind(text)) == expected


def test_secrets_that_hold_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_known", ())
    secrets = [TOKEN[:size] for size in range(6, 12)] + [TOKEN[size:] for size in range(6)]
    for i, secret in enumerate(secrets):
        redact.note_variable(f"TOKEN_{i}", secret)
    redact.note_variable("TOKEN", "short")
    redact.note_variable("FOLDER", "/data/scenes")
    for secret in secrets:
        assert without_secrets(f"no file {secret}") == "no file …"
    assert without_secrets("short /data/scenes") == "short /data/scenes"


@pytest.mark.parametrize("text", ["a." * 50_000, "a+" * 50_000 + "://", "http:" * 20_000, "http://" * 20_000])
def test_long_texts_take_no_time(text: str) -> None:
    begun = time.process_time()
    assert without_secrets(f"{text} ?@#") == f"{text} ?@#"
    assert time.process_time() - begun < 1


def test_what_libraries_log(capfd: pytest.CaptureFixture[str]) -> None:
    command("--version")
    logging.getLogger("rasterio").warning("GET https://h/a.tif?sig=%s failed", SIGNATURE)
    assert SIGNATURE not in capfd.readouterr().err
