"""Draws the pictures of the documentation by the commands that its pages show.

A picture ``docs/images/NAME.png`` is what a command of the page writes to ``out/NAME.png``.

    python tests/pictures.py        # draws all of them anew
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
for folder in (str(ROOT), str(ROOT / "tests")):
    if folder not in sys.path:
        sys.path.insert(0, folder)

from pages import run_page  # noqa: E402

PAGES = ("looking.md", "importing.md", "quickstart.md")
IMAGES = ROOT / "docs" / "images"


def shown(page: Path) -> list[str]:
    """Names of the pictures that a page shows."""
    return re.findall(r"!\[[^\]]*\]\((?:docs/)?images/([\w-]+\.png)\)", page.read_text(encoding="utf-8"))


def draw(folder: Path) -> dict[str, Path]:
    """Runs the commands of the pages in a folder; returns where each picture is."""
    from pipelines.cli import main

    def run(command: str) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(shlex.split(command, comments=True)[1:]) == 0, command

    shutil.copytree(ROOT / "configs", folder / "configs")
    texts = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES}
    with contextlib.chdir(folder):
        importing = texts["importing.md"]
        for block in re.findall(r"^```(?:python|yaml)\n(# [\w.]+\n.*?)^```$", importing, re.M | re.S):
            Path(block.partition("\n")[0][2:]).write_text(block, encoding="utf-8")
        for line in re.findall(r"^(?:\$ )?(patchbeam .*)$", importing, re.M):
            if line.startswith("patchbeam import-image water"):
                exec(compile(Path("predict.py").read_text(), "predict.py", "exec"), {})
            run(line)
        for line in re.findall(r"^\$ (patchbeam (?:import-image|look) .*)$", texts["looking.md"], re.M):
            output = line.partition(" -o ")[2]
            if not output or (IMAGES / Path(output).name).exists() or Path(output).name in shown_anywhere():
                run(line)
    quick = folder / "quick"
    quick.mkdir()
    run_page(texts["quickstart.md"], quick)
    return {path.name: path for place in (folder, quick) for path in (place / "out").glob("*.png")}


def shown_anywhere() -> set[str]:
    """Names of all pictures of the documentation."""
    return {name for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")] for name in shown(page)}


def main() -> None:
    """Draws the pictures anew."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw(Path(folder))
        for name in sorted(shown_anywhere()):
            shutil.copyfile(drawn[name], IMAGES / name)
            print(IMAGES / name, (IMAGES / name).stat().st_size)


if __name__ == "__main__":
    main()
