"""``--help`` of a job's command lists the keys of its job file, as the model has them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from refusals import command
from shared import ROOT

from patchbeam.options import SPELLINGS
from pipelines.job_help import job_keys
from pipelines.jobfile import JOBS

COMMANDS = {kind: kind for kind in JOBS} | {"plan": "export-image"}


@pytest.mark.parametrize(("name", "kind"), COMMANDS.items())
def test_help_lists_every_key_of_the_model(name: str, kind: str) -> None:
    said = command(name, "--help")
    assert said.status == 0
    listed = said.out.partition("Keys of the job file:")[2]
    for field, info in JOBS[kind].model_fields.items():
        key = info.alias or field
        assert f"\n  {key} " in listed, key
        assert not info.is_required() or key == "job" or "(needed)" in dict(job_keys(kind))[key]
    words = " ".join(listed.split())
    assert f"patchbeam schema {kind}" in words and "docs/job-file.md" in words
    example = f"configs/{kind.replace('-', '_')}.yaml"
    assert example in words and (ROOT / example).exists()


def test_keys_inside_a_map_are_named_once() -> None:
    keys = dict(job_keys("export-image"))
    assert all(f" {client}" in keys["formatOptions"] for client in SPELLINGS)
    assert "tileDimensions" not in keys["formatOptions"]  # the other spelling of patchDimensions
    assert "crsTransform" in keys["grid"] and keys["sources"].endswith("(needed)")


def test_help_of_a_command_brings_in_no_beam() -> None:
    program = (
        "import sys\nfrom pipelines.cli import cli\n"
        "cli.main(['import-image', '--help'], standalone_mode=False)\n"
        "assert not {'apache_beam', 'tensorflow'} & set(sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
