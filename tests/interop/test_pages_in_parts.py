"""The pages of imports, of tables and of running: their commands and scripts run, on a smaller scene."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from pages import ROOT

from patchbeam.patches import PatchGrid
from pipelines.beam_options import LOCAL_RUNNER, beam_options
from pipelines.cli import main
from pipelines.resolve import load_plan

SMALL = ["--width", "512", "--height", "512"]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def run(line: str) -> None:
    _, *words = shlex.split(line.removeprefix("$ "), comments=True)
    assert main([*words, *SMALL] if words[0] == "scene" else words) == 0, line


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(text: str) -> Iterator[str]:
    for block in re.findall(r"^```(?:sh)?\n(.*?)^```$", text, re.M | re.S):
        yield from (line for line in block.splitlines() if line.startswith(("patchbeam ", "$ patchbeam ")))


def without_numbers(text: str) -> list[str]:
    return [re.sub(r"\d+", "0", line) for line in text.replace(str(Path.cwd()) + "/", "").splitlines()]


def test_importing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page("importing.md")
    first, second, last, picture = commands(text)
    run(first)
    run(second)
    for kind in ("python", "yaml"):
        for block in blocks(text, kind):
            if named := re.match(r"# (\S+)\n", block):
                Path(named[1]).write_text(block, encoding="utf-8")
    exec(compile(Path("predict.py").read_text(), "predict.py", "exec"), {})
    capsys.readouterr()
    run(last)
    printed = capsys.readouterr().out
    shown = text[text.index(last) + len(last) :].partition("```")[0].strip()
    assert without_numbers(printed) == without_numbers(shown)
    run(picture)
    assert Path("out/water.png").stat().st_size
    assert main(["import-image", "configs/import_image.yaml"]) == 0
    assert main(shlex.split("import-image out/export/scene --output out/map/scene")) == 0


def test_a_pipeline_of_ones_own(folder: Path) -> None:
    run("patchbeam scene out/scene.tif")
    assert main(["export-image", "configs/export_image.yaml"]) == 0
    plan = load_plan("configs/export_image.yaml")
    assert isinstance(plan.patches, PatchGrid)

    def model(bands: dict[str, np.ndarray]) -> np.ndarray:
        return bands["B3"].astype(np.float32)

    block = next(block for block in blocks(page("importing.md"), "python") if "PredictionsToTiles" in block)
    with beam.Pipeline(options=PipelineOptions(["--runner", LOCAL_RUNNER])) as pipeline:
        exec(
            compile(block, "page", "exec"), {"pipeline": pipeline, "plan": plan, "model": model, "beam": beam}
        )
    assert (folder / "out" / "map" / "scene-import.json").exists()


def test_tables(folder: Path) -> None:
    text = page("tables.md")
    for line in commands(text):
        run(line)
    assert main(["import-table", "configs/import_table.yaml", "--set", "output=../samples.gpkg"]) == 0
    parsing, pipeline = blocks(text, "python")
    names: dict[str, Any] = {"beam": beam}
    exec(compile(pipeline, "page", "exec"), names)
    assert Path("out/samples.tfrecord.gz").exists()
    tf = pytest.importorskip("tensorflow")
    job = next(block for block in blocks(text, "yaml") if "samples.gpkg" in block)
    Path("job.yaml").write_text(re.sub(r"layer: .*|geometry: .*", "", job), encoding="utf-8")
    assert main(["export-table", "job.yaml", "--overwrite"]) == 0
    names = {"tf": tf}
    exec(compile(parsing, "page", "exec"), names)
    assert set(names["rows"].element_spec) == {"B2", "B3", "landcover"}


def test_running(folder: Path) -> None:
    run("patchbeam scene out/scene.tif")
    shutil.copy("configs/export_image.yaml", "configs/job.yaml")
    shutil.copy("configs/export_image.yaml", "configs/nightly.yaml")
    # those with a runner of their own: tests/runners
    lines = [line for line in commands(page("running.md")) if "gs://" not in line and " -- " not in line]
    assert len(lines) == 3
    for i, line in enumerate(lines):
        _, name, job, *options = shlex.split(line, comments=True)
        assert main([name, f"configs/{job}", *options, "--set", f"output=../out/{i}/scene"]) == 0, line
    assert json.loads(Path("out/report.json").read_text())["status"] == "done"


@pytest.mark.parametrize("name", ["exporting.md", "running.md"])
def test_options_for_a_cluster_are_options_of_beam(name: str) -> None:
    (block,) = [block for block in blocks(page(name), "sh") if "--runner=DataflowRunner" in block]
    _, _, given = block.replace("\\\n", " ").partition(" -- ")
    options, threads = beam_options(shlex.split(given))
    assert options.get_all_options()["runner"] == "DataflowRunner" and threads == 1
