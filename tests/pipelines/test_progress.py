"""Progress as a user sees it: live on a terminal, plain lines elsewhere, nothing when asked for quiet."""

from __future__ import annotations

import json
import os
import pty
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from eager import plan_of, write_tif
from refusals import command

from patchbeam import counts, retry, storage
from patchbeam.counts import Done
from patchbeam.export import BlockReader, temporary_folder
from pipelines import progress
from pipelines.pace import Stage
from pipelines.showing import showing
from pipelines.stages import export_files, export_stages


@pytest.fixture()
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A job of four blocks that takes about a second."""
    values = np.random.default_rng(1).integers(1, 4000, (1, 512, 128)).astype(np.uint16)
    write_tif(tmp_path / "scene.tif", values)
    text = {
        "job": "export-image",
        "sources": "scene.tif",
        "formatOptions": {"patchDimensions": [64, 64]},
        "blockBytes": 65536,
        "output": "out/scene",
    }
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(text))
    original = BlockReader.read

    def slow(self: BlockReader, *arguments: Any) -> Any:
        time.sleep(0.25)
        return original(self, *arguments)

    monkeypatch.setattr(BlockReader, "read", slow)
    yield tmp_path / "job.yaml"


def on_a_terminal(run: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> str:
    """What the standard error of something shows on a terminal."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    read: list[bytes] = []

    def drain() -> None:
        while True:
            try:
                read.append(os.read(ours, 65536))
            except OSError:
                return

    thread = threading.Thread(target=drain, daemon=True)
    thread.start()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        run()
    thread.join(timeout=5)
    os.close(ours)
    return b"".join(read).decode()


def test_a_live_line_on_a_terminal(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines.cli import main

    shown = on_a_terminal(lambda: main(["export-image", str(job), "--workers", "1"]), monkeypatch)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "of 16 patches" in text and " left" in text and "MB/s" in text, text
    assert shown.rstrip().endswith("\x1b[2K")  # the line is gone when the job is done
    out = capsys.readouterr().out
    assert out.startswith("written") and "\x1b" not in out and "left" not in out


def test_plain_lines_elsewhere(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.3)
    outcome = command("export-image", str(job), "--workers", "1")
    lines = outcome.err.splitlines()
    assert outcome.status == 0 and len(lines) >= 2, outcome
    assert all(re.fullmatch(r"\d+ of 16 patches \(\d+ %\), .*|\d.* shards?.*", line) for line in lines), lines
    assert "patches (" not in outcome.out


def test_a_short_job_prints_no_line_and_a_quiet_one_neither(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command("export-image", str(job)).err == ""
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.1)
    outcome = command("export-image", str(job), "--overwrite", "--quiet")
    assert outcome.status == 0 and outcome.err == "" and outcome.out.startswith("written")


def test_what_is_finished_counts_from_the_start(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = storage.write_parts, []

    def failing(path: str, *arguments: Any) -> Any:
        calls.append(path)
        if len(calls) > 9:
            raise KeyboardInterrupt
        return original(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write_parts", failing)
        assert command("export-image", str(job), "--workers", "1").status == 130
    assert command("export-image", str(job), "--workers", "1", "--resume").status == 0
    done = counts.progress()["patches"]
    assert done.units == 16 and 0 < done.skipped < 16


def test_an_error_is_not_hidden(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.cli import main

    monkeypatch.setattr(retry, "sleep", lambda _: None)
    (job.parent / "scene.tif").write_bytes((job.parent / "scene.tif").read_bytes()[:-1000])
    shown = on_a_terminal(lambda: main(["export-image", str(job)]), monkeypatch)
    assert "patchbeam: " in shown and "scene.tif" in shown


class Remote:
    """A job that runs elsewhere for a while."""

    def __init__(self, told: Mapping[str, int], fails: bool = False) -> None:
        self._told = told
        self._fails = fails

    def run(self) -> Remote:
        return self

    def wait_until_finish(self) -> None:
        time.sleep(1)

    def metrics(self) -> Remote:
        if self._fails:
            raise NotImplementedError
        return self

    def query(self, _: object) -> dict[str, Any]:
        def key(name: str) -> SimpleNamespace:
            return SimpleNamespace(metric=SimpleNamespace(name=name))

        told = [SimpleNamespace(key=key(name), committed=None, attempted=n) for name, n in self._told.items()]
        return {"counters": told}


def lines_of(remote: Remote, capsys: pytest.CaptureFixture[str], **options: Any) -> list[str]:
    with showing():
        stages = [Stage(name="patches", total=80)]
        progress.run_pipeline(remote, stages, **options)  # type: ignore[arg-type]
    return capsys.readouterr().err.splitlines()


def test_jobs_elsewhere_are_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.2)
    monkeypatch.setattr(progress, "ASK_EVERY_S", 0.1)
    told = {"patches_done": 20, "patches_done_bytes": 5_000_000, "blocks_read": 3}
    line = lines_of(Remote(told), capsys)[-1]
    assert line.startswith("20 of 80 patches (25 %), ") and "MB/s" in line and line.endswith(" left")
    files = lines_of(Remote({}, fails=True), capsys, left_files=lambda: {"patches": Done(40)})
    assert any("so far" in line for line in files)  # a question that failed ends nothing
    files = lines_of(Remote({}), capsys, left_files=lambda: {"patches": Done(40)})
    assert files[-1].startswith("40 of 80 patches (50 %), ")


def test_files_left_by_workers(job: Path) -> None:
    plan = plan_of(yaml.safe_load(job.read_text()), job.parent)
    counted = export_files(plan)
    assert counted() == {}
    runs = [run for block in range(2) for run in plan.blocks.runs(block)]
    for run in runs:
        storage.write_atomic(f"{temporary_folder(plan)}/{run.first:012d}.run", b"")
    assert counted() == {"patches": Done(sum(run.count for run in runs))}
    assert [(stage.name, stage.total) for stage in export_stages(plan)] == [("patches", 16), ("shards", 1)]


def test_shards_that_are_compressed_whole(job: Path) -> None:
    outcome = command(
        "export-image", str(job), "--set", "gzip=zlib6", "--set", "formatOptions.maxFileSize=99999"
    )
    assert outcome.status == 0, outcome
    plan = plan_of({**yaml.safe_load(job.read_text()), "gzip": "zlib6"}, job.parent)
    stage = export_stages(plan)[-1]
    assert stage.name == "compressed" and stage.total == counts.progress()["compressed"].units


def test_json_logs_hold_progress(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY_S", 0.3)
    outcome = command("export-image", str(job), "--workers", "1", "--log-json")
    messages = [json.loads(line)["message"] for line in outcome.err.splitlines()]
    assert any("of 16 patches" in message for message in messages), outcome
