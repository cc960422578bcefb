"""``build-dataset`` from the job file to the records: every source, profile and number of workers."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import (
    Server,
    SmallCIFAR10,
    SmallCIFAR100,
    cifar10,
    cifar100,
    digests_of,
    eurosat,
    imagenette,
    mnist,
    pets,
    picture,
)
from sets_eager import run_eagerly, same
from shared import ROOT
from training_sets import write_export

from patchbeam.data import (
    KMNIST,
    MNIST,
    EuroSAT,
    FashionMNIST,
    GeneratedShapes,
    Imagenette,
    Imagewoof,
    OxfordPets,
    RecordDatabase,
    convert,
)
from patchbeam.data.convert import plan_set
from pipelines.build_dataset import main as module
from pipelines.build_dataset import run_build_dataset
from pipelines.cli import main
from pipelines.jobfile import JOBS
from pipelines.resolve_dataset import DatabaseRecipe, load_build_dataset


def job(folder: Path, **keys: Any) -> str:
    text = {"job": "build-dataset", "output": "out/set", **keys}
    (folder / "job.json").write_text(json.dumps(text))
    return str(folder / "job.json")


def test_the_example_runs_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "configs").mkdir()
    shutil.copy(ROOT / "configs" / "build_dataset.yaml", tmp_path / "configs")
    assert main(["build-dataset", str(tmp_path / "configs" / "build_dataset.yaml")]) == 0
    assert "1000 items, 1 shard, profile packed" in capsys.readouterr().out
    found = RecordDatabase(tmp_path / "out" / "shapes" / "shapes")
    same(GeneratedShapes(1000, size=32, seed=0).take(20), found.take(20))
    assert main(["verify", str(tmp_path / "out" / "shapes" / "shapes")]) == 0
    assert main(["build-dataset", str(tmp_path / "configs" / "build_dataset.yaml")]) == 2  # it is there


def test_shards_are_the_same_for_1_and_3_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_RANGE_BYTES", 64 << 10)
    stored = []
    for workers in (1, 3):
        prefix = tmp_path / str(workers) / "set"
        recipe = DatabaseRecipe("generated", {"count": 300, "size": 24, "seed": 1})
        plan = plan_set(recipe, str(prefix), max_file_size_bytes=200 << 10)
        assert len(plan.ranges) > 6
        manifest = run_build_dataset(plan, workers=workers)
        stored.append({s.name: (prefix.parent / s.name).read_bytes() for s in manifest.shards})
        stored[-1]["manifest"] = (prefix.parent / "set-manifest.json").read_bytes()
    assert stored[0] == stored[1] and len(stored[0]) > 3


SETS: dict[str, Any] = {
    "cifar10": (SmallCIFAR10, lambda: cifar10()[0], {}),
    "cifar100": (SmallCIFAR100, lambda: cifar100()[0], {}),
    "mnist": (MNIST, lambda: mnist()[0], {}),
    "fashion": (FashionMNIST, lambda: mnist(1)[0], {}),
    "kmnist": (KMNIST, lambda: mnist(2)[0], {}),
    "imagenette": (Imagenette, lambda: imagenette()[0], {"size": 160, "output_size": 16}),
    "imagewoof": (Imagewoof, lambda: imagenette("imagewoof-160")[0], {"size": 160, "output_size": 16}),
    "pets": (OxfordPets, lambda: pets()[0], {"image_size": 16}),
    "eurosat": (EuroSAT, lambda: eurosat(each=5), {}),
    "eurosat-all": (EuroSAT, lambda: eurosat("all", each=5), {"bands": "all"}),
}


class Recipe:
    """Opens a part of a set from its cache."""

    def __init__(self, kind: Any, root: Path, options: Any, split: str) -> None:
        self.kind, self.root, self.options, self.split = kind, root, options, split

    def __call__(self) -> Any:
        return self.kind(1, root=self.root, offline=True, **self.options).database(self.split)


# the transform adds nothing that depends on the set; a run of it takes seconds
BY_BEAM = {("cifar10", "ee"), ("pets", "packed")}


@pytest.mark.parametrize("name", SETS)
def test_every_set_in_every_profile(tmp_path: Path, name: str) -> None:
    kind, make, options = SETS[name]
    files = make()
    options = {**options, "digests": digests_of(files)}
    with Server(files).running() as server:
        kind(1, root=tmp_path, url=server.url, **options)
    for profile in ("ee", "typed", "packed"):
        recipe = Recipe(kind, tmp_path, options, "validation")
        plan = plan_set(recipe, str(tmp_path / profile / "set"), profile=profile)  # type: ignore[arg-type]
        if (name, profile) in BY_BEAM:
            run_build_dataset(plan, workers=2)
        else:
            run_eagerly(plan)
        same(recipe(), RecordDatabase(tmp_path / profile / "set"))


def test_sources_of_a_job(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(2):
            pixels = rng.integers(0, 256, (6, 5, 3)).astype(np.uint8)
            (tmp_path / "pictures" / name / f"{number}.png").write_bytes(picture(pixels))
    np.save(tmp_path / "x.npy", np.arange(12).reshape(4, 3))
    write_export(tmp_path)
    sources: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"folder": {"path": "pictures", "size": 4}}, {}),
        ({"arrays": {"x": "x.npy"}}, {"dtypes": {"x": "uint4"}}),
        ({"export": {"records": "scene", "modalities": {"image": ["B2"]}}}, {"gzip": "none"}),
        ({"dataset": "out0/set"}, {"profile": "typed"}),
    ]
    for number, (source, keys) in enumerate(sources):
        keys = {"profile": "packed", **keys, "output": f"out{number}/set"}
        path = job(tmp_path, database=source, **keys)
        plan = load_build_dataset(path)
        assert main(["build-dataset", path]) == 0
        same(plan.open_database(), RecordDatabase(tmp_path / f"out{number}" / "set"))


def test_a_classic_set_of_a_job(tmp_path: Path) -> None:
    files, parts = mnist()
    with Server(files).running() as server:
        options = {"digests": digests_of(files)}
        source = {
            "name": "MNIST",
            "split": "validation",
            "url": server.url,
            "root": "cache",
            "options": options,
        }
        assert main(["build-dataset", job(tmp_path, database={"set": source})]) == 0
    found = RecordDatabase(tmp_path / "out" / "set")
    np.testing.assert_array_equal(found[3][0], parts["validation"][0][3])


def test_a_function_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_set.py").write_text(
        "from patchbeam.data import GeneratedShapes\n\ndef made():\n    return GeneratedShapes(5, size=8)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = job(tmp_path, database={"python": "own_set:made"})
    assert main(["build-dataset", path, "--allow-code"]) == 0
    same(GeneratedShapes(5, size=8), RecordDatabase(tmp_path / "out" / "set"))


def test_a_job_file_runs_no_code_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the module is imported; nor where --set names it, nor by the command of the module itself."""
    (tmp_path / "ran_set.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    override = ["--set", "database={python: 'ran_set:made'}"]
    assert main(["build-dataset", job(tmp_path, database={"generated": {}}), *override]) == 2
    assert "--allow-code" in capsys.readouterr().err
    named = job(tmp_path, database={"python": "ran_set:made"})
    for run in (
        lambda: main(["build-dataset", named]),
        lambda: module(["--job", named, "--runner=FnApiRunner"]),
    ):
        assert run() == 2
        said = capsys.readouterr().err
        assert "database.python: ran_set:made is code" in said and "--allow-code" in said
    assert not (tmp_path / "ran").exists() and "ran_set" not in sys.modules
    assert module(["--job", named, "--allow-code"]) == 2  # run now: it has no such function
    assert "has no attribute 'made'" in capsys.readouterr().err and (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"database": {}}, "give exactly one of folder, arrays"),
        ({"database": {"generated": {}, "table": "x"}}, "not table and generated"),
        (
            {"database": {"set": {"name": "CIFAR11"}}},
            "database.set.name: 'CIFAR11' is not known (did you mean",
        ),
        ({"database": {"set": {"name": "MNIST", "options": {"flaten": 1}}}}, "did you mean 'flatten'"),
        ({"database": {"folder": {"path": "nowhere"}}}, "there is no such folder"),
        ({"database": {"python": "no_such_module:f"}}, "database.python: no_such_module:f: No module"),
        ({"database": {"python": "os.system('ls')"}}, "database.python"),
        ({"database": {"generated": {}}, "profile": "pakced"}, "profile"),
        ({"database": {"generated": {}}, "dtypes": {"mask": "unit1"}}, "did you mean 'uint1'"),
        ({"database": {"generated": {}}, "dtypes": {"maks": "uint1"}}, "did you mean 'mask'"),
        ({"database": {"generated": {}}, "maxFileSize": 100}, "maxFileSize: 100 is less than one record"),
        ({"database": {"generated": {}}, "output": "out/"}, "names a folder; add the beginning"),
    ],
)
def test_jobs_that_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], keys: dict[str, Any], message: str
) -> None:
    assert main(["build-dataset", job(tmp_path, **keys), "--allow-code"]) == 2
    assert message in capsys.readouterr().err


def test_an_item_that_is_wrong_fails_the_run_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([0, 1, 5, 0], np.uint8))
    path = job(tmp_path, database={"arrays": {"x": "x.npy"}}, profile="packed", dtypes={"x": "uint1"})
    assert main(["build-dataset", path]) == 1
    said = capsys.readouterr().err
    assert "patchbeam: item 2, modality 'x': 5 is not a uint1" in said and "Traceback" not in said
    assert not list(tmp_path.glob("out/*")) and not list(tmp_path.glob("out/.*"))


def test_the_job_has_a_schema() -> None:
    assert "database" in JOBS["build-dataset"].model_json_schema(by_alias=True)["properties"]
