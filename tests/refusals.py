"""Commands that must be refused: run in this process, and what they say and leave looked at."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from eager import write_tif

from pipelines.cli import main


class _Gone:
    def __repr__(self) -> str:
        return "GONE"


GONE = _Gone()
"""Value of a key that is to be left out."""

JOB: dict[str, Any] = {
    "job": "export-image",
    "sources": "scene.tif",
    "formatOptions": {"patchDimensions": [32, 32]},
    "output": "out/scene",
}


_VERBS = "add|choose|copy|draw|export|fetch|give|leave|make|mend|name|nest|put|remove|run|sort|use|write"
_REMEDY = re.compile(rf"[;:,] (or )?({_VERBS})\b")


def says_what_to_do(message: str) -> bool:
    """Whether a message names what to do after what is wrong."""
    return _REMEDY.search(message) is not None


@dataclass(frozen=True)
class Outcome:
    """What a command returned and printed."""

    status: int
    out: str
    err: str


def command(*arguments: str) -> Outcome:
    """Runs the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(list(arguments))
    return Outcome(status, out.getvalue(), err.getvalue())


def changed(change: Mapping[str, Any]) -> dict[str, Any]:
    """The valid job with some keys replaced; ``grid.scale`` reaches into a map."""
    job = copy.deepcopy(JOB)
    for key, value in change.items():
        *parents, last = key.split(".")
        place = job
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is GONE:
            del place[last]
        else:
            place[last] = value
    return job


class Place:
    """A folder with a small scene, in which jobs are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        values = np.random.default_rng(1).integers(1, 4000, (3, 100, 120)).astype(np.uint16)
        write_tif(folder / "scene.tif", values, names=["red", "green", "nir"])
        write_tif(folder / "other.tif", values[:1])
        (folder / "folder").mkdir()
        (folder / "file").write_text("not a folder")

    def write(self, job: Mapping[str, Any] | str | bytes, name: str = "job.yaml") -> Path:
        """Writes a job file: of a mapping, or exactly these characters or bytes."""
        path = self.folder / name
        if isinstance(job, Mapping):
            job = yaml.safe_dump(job, sort_keys=False, allow_unicode=True)
        path.write_bytes(job.encode() if isinstance(job, str) else job)
        return path

    def export(self, job: Mapping[str, Any] | str | bytes, *arguments: str) -> Outcome:
        """Writes a job file and exports it."""
        return command("export-image", str(self.write(job)), *arguments)

    def refused(self, job: Mapping[str, Any] | str | bytes, *fragments: str, arguments: Any = ()) -> str:
        """Exports and makes sure that it is refused as it should be; returns the message."""
        self.write(job)
        before = self.files()
        outcome = self.export(job, *arguments)
        assert_refused(outcome, *fragments)
        assert self.files() == before, "something was left"
        return outcome.err

    def files(self) -> set[Path]:
        """Every file and folder there is."""
        return set(self.folder.rglob("*"))


def assert_refused(outcome: Outcome, *fragments: str, status: int = 2) -> None:
    """One message, with every fragment, no traceback, the right exit status."""
    assert outcome.status == status, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    lines = outcome.err.splitlines()
    while status == 1 and lines[0].startswith("WARNING: ") and "; trying again in " in lines[0]:
        del lines[0]
    assert lines[0].startswith("patchbeam: "), outcome.err
    # several errors of one job file stand below each other; nothing else takes more than a line
    assert all(line.startswith("  ") for line in lines[1:]), outcome.err
    for fragment in fragments:
        assert fragment in outcome.err, f"{fragment!r} is not in {outcome.err!r}"
