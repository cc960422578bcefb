"""The floors import only downward, and the light parts of the library stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared import ROOT

FLOORS = ("patchbeam", "transforms", "pipelines")  # from the lowest up

# Rooms of the library from the lowest up; a room imports from its own line and those before it. The rooms in
# LOOSE import what is above them when they are called, to show or to resume it; they are held only to having
# no import cycles.
ROOMS = (
    "redact errors class_colours counts npy pool prefetch sizes tally",
    "affines crs options order retry splits statistics storage",
    "elements features lock outline patches records software",
    "buffers clip exported lattice manifest mixer pixels region rounding selection shards sidecars spec",
    "blocks grid_options inspect patch_values pieces summary",
    "cut finished grid keep",
    "encode finished_shards missing rasters",
    "assemble encode_example encode_sequence image_records scene source_entries",
    "data look mosaic plan tables",
    "draw export outputs staged",
    "checks describe estimate leftovers verify",
    "publish",
)
HEIGHTS = {name: height for height, names in enumerate(ROOMS) for name in names.split()}
LOOSE = ("plan_json", "repr", "together")

LIGHT = ("patchbeam", "patchbeam.errors", "patchbeam.records", "patchbeam.mixer", "patchbeam.manifest")
HEAVY = ("apache_beam", "rasterio", "osgeo", "tensorflow")


def modules(floor: str) -> list[Path]:
    return sorted((ROOT / floor).rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def statements(node: ast.AST, *, nested: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Import statements of ``node``; without ``nested`` only those that run on import."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
        return
    if not nested and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    typing_only = not nested and isinstance(node, ast.If) and is_type_checking(node.test)
    for child in node.orelse if typing_only else ast.iter_child_nodes(node):
        yield from statements(child, nested=nested)


def imported(path: Path, *, nested: bool = True) -> Iterator[tuple[str, int]]:
    """Full names that a file imports, with line numbers; ``from a import b`` gives ``a.b``."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path).rpartition(".")[0]
    for statement in statements(ast.parse(path.read_text(encoding="utf-8")), nested=nested):
        if isinstance(statement, ast.Import):
            yield from ((alias.name, statement.lineno) for alias in statement.names)
            continue
        base = statement.module or ""
        if statement.level:
            above = package.split(".")[: len(package.split(".")) - statement.level + 1]
            base = ".".join([*above, base] if base else above)
        yield from ((f"{base}.{alias.name}", statement.lineno) for alias in statement.names)


def room(module: str) -> str | None:
    floor, _, rest = module.partition(".")
    return rest.partition(".")[0] if floor == "patchbeam" and rest else None


def test_the_walk_sees_every_form_of_import() -> None:
    names = {name for name, _ in imported(ROOT / "patchbeam" / "errors.py")}
    assert {"difflib", "collections.abc.Iterable"} <= names
    tree = ast.parse("if TYPE_CHECKING:\n    import a\nelse:\n    import b\ndef f():\n    from c import d\n")
    assert [ast.unparse(s) for s in statements(tree, nested=False)] == ["import b"]
    every = [ast.unparse(s) for s in statements(tree, nested=True)]
    assert every == ["import a", "import b", "from c import d"]


@pytest.mark.parametrize("floor", FLOORS)
def test_a_floor_imports_only_from_below(floor: str) -> None:
    assert modules(floor), f"no modules under {floor}/"
    above = set(FLOORS[FLOORS.index(floor) + 1 :])
    upward = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(floor)
        for name, line in imported(path)
        if name.partition(".")[0] in above | {"tests", "benchmarks"}
    ]
    assert not upward, "\n".join(upward)


def test_the_library_knows_no_beam() -> None:
    beam = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules("patchbeam")
        for name, line in imported(path)
        if name.partition(".")[0] == "apache_beam"
    ]
    assert not beam, "\n".join(beam)


def test_every_room_has_a_height() -> None:
    rooms = {room(dotted(path)) for path in modules("patchbeam")} - {None}
    assert rooms == HEIGHTS.keys() | set(LOOSE)


def test_rooms_of_the_library_are_in_order() -> None:
    upward = []
    for path in modules("patchbeam"):
        here = room(dotted(path))
        for name, line in imported(path):
            there = room(name)
            if here in HEIGHTS and there in HEIGHTS and here != there and HEIGHTS[there] > HEIGHTS[here]:
                upward.append(f"{path.relative_to(ROOT)}:{line}: {here} imports {there}, which is above it")
    assert not upward, "\n".join(upward)


def test_rooms_have_no_import_cycles() -> None:
    names = {path.stem if path.parent.name == "patchbeam" else None for path in modules("patchbeam")}
    names |= {path.name for path in (ROOT / "patchbeam").iterdir() if (path / "__init__.py").exists()}
    needs: dict[str, set[str]] = {}
    for path in modules("patchbeam"):
        here = room(dotted(path))
        if here is None:
            continue
        for name, _ in imported(path, nested=False):
            there = room(name)
            if there in names and there != here:
                needs.setdefault(here, set()).add(there)
    while needs:  # rooms that need nothing more are taken away, until none or a cycle is left
        free = {there for wanted in needs.values() for there in wanted} - needs.keys()
        left = {here: wanted - free for here, wanted in needs.items()}
        smaller = {here: wanted for here, wanted in left.items() if wanted}
        assert free or smaller != needs, f"import cycle among rooms: {needs}"
        needs = smaller


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_bring_in_no_heavy_library(module: str) -> None:
    file = ROOT.joinpath(*module.split("."))
    if not (file.with_suffix(".py").exists() or (file / "__init__.py").exists()):
        pytest.skip(f"{module} is not there yet")
    program = f"import sys, {module}; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "", f"import {module} also imports {run.stdout.strip()}"
