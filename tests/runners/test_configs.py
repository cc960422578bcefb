"""The files for Dataflow and schedules: they parse, and name what is there."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import click
import pytest
from refusals import Place, command
from shared import ROOT

from pipelines.cli import cli

CONFIGS = ROOT / "configs"


def options_of(command: str) -> set[str]:
    found = cli.get_command(click.Context(cli), command)
    assert found is not None
    return {name for parameter in found.params for name in parameter.opts}


def test_flex_template() -> None:
    template = json.loads((CONFIGS / "flex_template.json").read_text())
    assert template.keys() == {"name", "description", "parameters"}
    names = [parameter["name"] for parameter in template["parameters"]]
    assert names == ["job", "sdk_container_image"]
    (regex,) = template["parameters"][0]["regexes"]
    assert re.fullmatch(regex, "gs://b/a/job.yaml") and not re.fullmatch(regex, "job.yaml")
    schedule = json.loads((CONFIGS / "schedule_scheduler.json").read_text())["launchParameter"]
    assert schedule["parameters"].keys() <= set(names)
    assert re.fullmatch(regex, schedule["parameters"]["job"])


def test_airflow_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow itself is large; its two names are stood in for."""
    made: list[dict[str, Any]] = []

    class Dag:
        def __init__(self, **options: Any) -> None:
            made.append(options)

        def __enter__(self) -> Dag:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    modules = {
        name: types.ModuleType(name) for name in ("airflow", "airflow.operators", "airflow.operators.bash")
    }
    modules["airflow"].DAG = Dag  # type: ignore[attr-defined]
    modules["airflow.operators.bash"].BashOperator = lambda **options: made.append(options)  # type: ignore[attr-defined]
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    runpy.run_path(str(CONFIGS / "schedule_airflow.py"))
    dag, task = made
    assert dag["max_active_runs"] == 1 and task["skip_on_exit_code"] == 3
    own, _, beam = task["bash_command"].partition(" -- ")
    used = set(re.findall(r"--[a-z][a-z_-]+", own))
    assert used and used <= options_of("export-image")
    assert "--runner=DataflowRunner" in beam


def test_the_launcher_starts_the_job_that_the_file_names(tmp_path: Path) -> None:
    launch = runpy.run_path(str(CONFIGS / "flex_launch.py"))["main"]
    place = Place(tmp_path)
    job = {"job": "export-image", "sources": "scene.tif", "formatOptions": {"patchDimensions": 32}}
    path = place.write({**job, "output": "out/scene"})
    assert launch([f"--job={path}"]) == 0
    assert (tmp_path / "out" / "scene-manifest.json").exists()
    assert launch([f"--job={place.write('job: bake-cake')}"]) != 0
    assert launch(["--runner=DataflowRunner"]) == 2


def test_the_first_lines_of_every_example_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder: what a job needs is made by the commands above it, or above the one it names."""
    shutil.copytree(CONFIGS, tmp_path / "configs")
    monkeypatch.chdir(tmp_path)
    jobs = ["export_image", "import_image", "export_splits", "export_many_scenes", "export_table"]
    jobs += ["import_table", "build_dataset"]
    assert {f"{name}.yaml" for name in jobs} == {path.name for path in CONFIGS.glob("*.yaml")}
    done: set[str] = set()
    for name in jobs:
        head = (CONFIGS / f"{name}.yaml").read_text().partition("\njob:")[0]
        lines = [line.partition(" (")[0].split() for line in re.findall(r"patchbeam +(.*)", head)]
        assert any(f"configs/{name}.yaml" in line for line in lines), name
        for line in lines:
            if " ".join(line) in done or any(
                "=" in word for word in line
            ):  # what is set otherwise is beside it
                continue
            done.add(" ".join(line))
            small = ["--width", "768", "--height", "768", "--overwrite"] if line[0] == "scene" else []
            outcome = command(*line, *small)
            assert outcome.status == 0, (name, line, outcome.err)


def test_dockerfile() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            *sources, _ = line.split()[1:]
            assert all((ROOT / source).exists() for source in sources), line
    extras = re.search(r"\.\[([a-z,]+)\]", "\n".join(lines))
    assert extras is not None
    text = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{name} = [" in text for name in extras[1].split(","))
