"""Reference pages and JSON Schemas are what the code makes, and the schemas say what jobs may hold."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import BaseModel
from shared import ROOT

from patchbeam.options import SPELLINGS
from pipelines.cli import main
from pipelines.jobfile import JOBS
from pipelines.jobfile.schema import FORMAT_OPTIONS, SHORT_FORMS, job_schema

AGAIN = "run: python docs/generate.py"
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def made() -> dict[Path, str]:
    return dict(runpy.run_path(str(ROOT / "docs" / "generate.py"))["generated"]())


def test_pages_and_schemas_are_what_the_code_makes() -> None:
    for path, text in made().items():
        assert path.exists(), f"{path} is missing; {AGAIN}"
        assert path.read_text(encoding="utf-8") == text, f"{path} is old; {AGAIN}"


@pytest.mark.parametrize("kind", JOBS)
def test_the_command_prints_the_published_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", kind]) == 0
    printed = capsys.readouterr().out
    assert printed == (ROOT / "configs" / "schemas" / f"{kind}.json").read_text(encoding="utf-8")
    jsonschema.Draft202012Validator.check_schema(json.loads(printed))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_example_jobs_name_their_schema_and_are_valid_by_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    job = yaml.safe_load(text)
    assert text.startswith(f"# yaml-language-server: $schema=schemas/{job['job']}.json\n")
    jsonschema.validate(job, json.loads((path.parent / "schemas" / f"{job['job']}.json").read_text()))


def test_each_kind_of_job_has_an_example() -> None:
    assert {yaml.safe_load(path.read_text())["job"] for path in CONFIGS} == set(JOBS)


def jobs_of_pages() -> Iterator[Any]:
    for page in sorted((ROOT / "docs").glob("*.md")):
        for i, block in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.S)):
            job = yaml.safe_load(block)
            if isinstance(job, dict) and {"job", "output"} <= set(job):
                yield pytest.param(job, id=f"{page.name}-{i}")


@pytest.mark.parametrize("job", jobs_of_pages())
def test_every_job_on_a_page_is_valid_by_schema_and_model(job: dict[str, Any]) -> None:
    jsonschema.validate(job, job_schema(job["job"]))
    JOBS[job["job"]].model_validate(job)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"sources": "scene.tif"}, False),
        ({"sources": ["a.tif", "b.tif"]}, False),
        ({"sources": {"a": {"path": ["a.tif"], "nodata": 0}}}, False),
        ({"bands": ["B2", {"name": "B3"}]}, False),
        ({"formatOptions": {"tileDimensions": 64}}, False),
        ({"formatOptions": {"tileDimensions": 64, "patchDimensions": 64}}, True),
        ({"formatOptions": {"patchSize": 64}}, True),
        ({"grid": {"scale": "10"}}, True),
        ({"split": {"train": 0.5, "test": 0.5, "block": 4}}, False),
        ({"edge": "keep"}, True),
        ({"Output": "x"}, True),
    ],
)
def test_the_schema_takes_what_the_model_takes(change: dict[str, Any], wrong: bool) -> None:
    job = {"job": "export-image", "sources": "scene.tif", "output": "out/scene", **change}
    validator = jsonschema.Draft202012Validator(job_schema("export-image"))
    assert validator.is_valid(job) is not wrong


def test_every_short_form_is_in_the_schema() -> None:
    def before(schema: Any) -> Iterator[Callable[..., Any]]:
        if isinstance(schema, dict):
            if schema.get("type") == "function-before":
                yield schema["function"]["function"]
            for value in schema.values():
                yield from before(value)
        elif isinstance(schema, list | tuple):
            for value in schema:
                yield from before(value)

    found = {one for job in JOBS.values() for one in before(job.__pydantic_core_schema__)}
    assert found and found <= set(SHORT_FORMS), "add what this validator takes to pipelines/jobfile/schema.py"


def test_every_format_option_is_in_the_schema() -> None:
    assert list(FORMAT_OPTIONS) == list(SPELLINGS)


@pytest.mark.parametrize("kind", JOBS)
def test_every_key_says_what_it_is(kind: str) -> None:
    schema = job_schema(kind)
    for model in (schema, *schema.get("$defs", {}).values()):
        for key, one in model["properties"].items():
            assert key == "job" or "description" in one, f"{model['title']}.{key}"
    assert issubclass(JOBS[kind], BaseModel)
