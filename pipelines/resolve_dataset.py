"""From a checked ``build-dataset`` job to a plan, and from the job's words to a database."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from patchbeam import storage
from patchbeam.data.convert import SetPlan, plan_set
from patchbeam.data.database import Database
from patchbeam.errors import JobError, nearest
from pipelines.jobfile.dataset_models import BuildDatasetJob
from pipelines.jobfile.load import load_job
from pipelines.resolve import _output, resolve_path


@dataclass(frozen=True)
class DatabaseRecipe:
    """Opens the database that a job names; travels to the workers in place of data.

    Attributes:
        kind: key of the job's ``database``.
        words: what the job says of it, paths resolved.
    """

    kind: str
    words: Any

    def __call__(self) -> Database:
        """Returns the database.

        Raises:
            JobError: there is none as the job says.
        """
        words = self.words
        if self.kind == "folder":
            from patchbeam.data.stimuli import ImageFolder

            return ImageFolder(words["path"], size=words["size"], mode=words["mode"])
        if self.kind == "arrays":
            from patchbeam.data.arrays import ArrayDatabase

            return ArrayDatabase(words)
        if self.kind == "export":
            from patchbeam.data.patches import PatchDatabase

            records = words["records"]
            source = records[0] if len(records) == 1 else records
            return PatchDatabase(source, modalities=words["modalities"], split=words["split"])
        if self.kind == "table":
            from patchbeam.data.tables import TableDatabase

            return TableDatabase(words)
        if self.kind == "dataset":
            from patchbeam.data.recordset import RecordDatabase

            return RecordDatabase(words)
        if self.kind == "generated":
            from patchbeam.data.generated import GeneratedShapes

            return GeneratedShapes(words["count"], size=words["size"], seed=words["seed"])
        return _set(words) if self.kind == "set" else _python(words)


def _set(words: Mapping[str, Any]) -> Database:
    from patchbeam.data.sets import SETS

    name = words["name"]
    if name not in SETS:
        raise JobError(
            f"database.set.name: {name!r} is not known{nearest(name, SETS)}; sets are {', '.join(SETS)}"
        )
    options = {_snake(key): value for key, value in words["options"].items()}
    known = {
        parameter
        for kind in SETS[name].__mro__
        if "__init__" in kind.__dict__ and kind is not object
        for parameter in inspect.signature(kind.__init__).parameters
    } - {"self", "options", "batch_size", "root", "url"}
    for key in options:
        if key not in known:
            raise JobError(
                f"database.set.options.{key}: {name} has no such option{nearest(key, known)}; it has "
                f"{', '.join(sorted(known))}"
            )
    made = SETS[name](batch_size=1, root=words["root"], url=words["url"], **options)
    return made.database(words["split"])


def _snake(key: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in key)


def _python(words: str) -> Database:
    module, _, function = words.partition(":")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        called = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise JobError(f"database.python: {words}: {error}") from None
    made = called()
    if not isinstance(made, Database):
        raise JobError(
            f"database.python: {words} returned a {type(made).__name__}, no patchbeam.data.Database"
        )
    return made


def load_build_dataset(
    path: str, overrides: Sequence[str] = (), *, overwrite: bool = False, allow_code: bool = False
) -> SetPlan:
    """Reads a job file and plans it; one item is read.

    Args:
        path: the job file.
        overrides: ``key.path=value`` texts.
        overwrite: whether an earlier set with this prefix is replaced.
        allow_code: whether the job file may name a function, which is then run.

    Raises:
        JobError: the job file or what it names is wrong.
    """
    job = load_job(path, overrides, kind="build-dataset")
    assert isinstance(job, BuildDatasetJob)
    base = storage.split(path)[0] if "://" in path else os.path.dirname(os.path.abspath(path))
    return resolve_build_dataset(job, base, overwrite=overwrite, allow_code=allow_code)


def resolve_build_dataset(
    job: BuildDatasetJob, base: str, *, overwrite: bool = False, allow_code: bool = False
) -> SetPlan:
    """Returns the plan of a job whose relative paths start at ``base``.

    Raises:
        JobError: as :func:`load_build_dataset`.
    """
    if job.database.python is not None and not allow_code:
        # before the module is imported: importing runs it
        raise JobError(
            f"database.python: {job.database.python} is code that this job file wants to run, and a job "
            "file runs none by itself; read that function, then allow it with --allow-code"
        )
    return plan_set(
        _recipe(job, base),
        _output(job.output, base),
        profile=job.profile,
        dtypes=job.dtypes,
        shapes={name: tuple(shape) for name, shape in job.shapes.items()},
        gzip=None if job.gzip == "none" else job.gzip,
        max_file_size_bytes=job.max_file_size,
        overwrite=overwrite,
    )


def _recipe(job: BuildDatasetJob, base: str) -> DatabaseRecipe:
    kind = job.database.kind
    given = getattr(job.database, kind)
    words = given.model_dump() if hasattr(given, "model_dump") else given
    if kind in ("table", "dataset"):
        words = resolve_path(words, base)
    elif kind == "arrays":
        words = {name: resolve_path(path, base) for name, path in words.items()}
    elif kind == "folder":
        words["path"] = resolve_path(words["path"], base)
    elif kind == "export":
        words["records"] = [resolve_path(path, base) for path in words["records"]]
    elif kind == "set" and words["root"] is not None:
        words["root"] = resolve_path(words["root"], base)
    return DatabaseRecipe(kind, words)
