"""The page for browsers holds everything it shows, and tells of each patch what is true."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from small_export import SIZE, copy_of

from patchbeam.look import LookOptions, look_page
from patchbeam.manifest import Manifest

# The page's own script, run with as much of a browser as it touches.
BROWSER = """
const fs = require("fs"), html = fs.readFileSync(process.argv[2], "utf8");
const data = html.match(/<script type="application\\/json" id="export">([\\s\\S]*?)<\\/script>/)[1];
const code = html.match(/<script>\\n([\\s\\S]*?)<\\/script>/)[1];
const handlers = {}, calls = [];
const pen = new Proxy({}, {
  get: (target, key) => key in target ? target[key] : (...given) => { calls.push([key, ...given]); },
  set: (target, key, value) => { target[key] = value; return true; },
});
const element = (own) => ({ textContent: "", innerHTML: "", checked: true,
  classList: { add() {}, remove() {} },
  addEventListener(name, handler) { handlers[name] = handler; }, getContext: () => pen,
  getBoundingClientRect: () => ({ left: 0, top: 0 }), setPointerCapture() {}, clientWidth: 800,
  clientHeight: 600, ...own });
const canvas = element(), about = element(), lines = element(), bar = element(), grid = element();
const map = element({ querySelector: () => canvas });
const named = { export: { textContent: data }, map, about, lines, bar, grid };
global.document = { getElementById: (id) => named[id], createElement: () => canvas };
global.location = { hash: "" };
global.history = { replaceState(state, title, address) { global.address = address; } };
global.window = { devicePixelRatio: 1, addEventListener() {} };
global.Image = class {
  addEventListener(name, handler) { this.loaded = handler; }
  set src(address) { setTimeout(() => this.loaded(), 0); }
};
eval(code + "; global.facts = facts;");
setTimeout(() => {
  const event = { clientX: 400, clientY: 300, deltaY: -100, key: "0", pointerId: 1, preventDefault() {} };
  handlers.pointermove(event);
  const hovered = about.textContent;
  for (const name of ["wheel", "pointerdown", "pointermove", "pointerup", "keydown", "pointerleave"])
    handlers[name](event);
  const count = JSON.parse(data).columns * JSON.parse(data).rows;
  const all = [...Array(count).keys()].map(facts);
  const drawn = calls.filter((call) => call[0] == "drawImage").length;
  console.log(JSON.stringify({ hovered, all, drawn, address, bar: bar.innerHTML }));
}, 5);
"""


pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


class Addresses(HTMLParser):
    """Collects what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "data", "action")]


def test_nothing_is_fetched(tmp_path: Path) -> None:
    page = look_page(str(copy_of("indexed", tmp_path)))
    parser = Addresses()
    parser.feed(page)
    assert not parser.found
    assert all(block.startswith("data:image/png;base64,") for block in data_of(page)["levels"][0]["blocks"])
    assert not re.search(r"https?://|url\(|@import|fetch\(|XMLHttp", page)
    assert "default-src 'none'" in page and "@DATA@" not in page
    (level,) = data_of(page)["levels"]
    (block,) = level["blocks"]
    with rasterio.MemoryFile(base64.b64decode(block.partition(",")[2])) as memory, memory.open() as file:
        assert [file.width, file.height] == level["size"] == [SIZE, SIZE]


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="export">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


@pytest.mark.skipif(shutil.which("node") is None, reason="no JavaScript on this machine")
def test_what_is_said_of_each_patch(tmp_path: Path) -> None:
    prefix = copy_of("zlib6", tmp_path)
    manifest = Manifest.from_text(Path(f"{prefix}-manifest.json").read_text())
    Path(f"{prefix}-00001.tfrecord.gz").unlink()
    found = run(tmp_path, look_page(str(prefix), LookOptions(size=300)))
    assert manifest.grid is not None
    a, _, c, _, e, f = manifest.grid.transform
    for patch, said in enumerate(found["all"]):
        row, col = divmod(patch, 3)
        assert (said["row"], said["column"]) == (row, col)
        xmin, ymax = c + a * 16 * col, f + e * 16 * row
        np.testing.assert_allclose(said["bounds"], [xmin, ymax + e * 16, xmin + a * 16, ymax])
        if row == 1:
            assert said["gone"] == "its shard is missing"
        else:
            assert said["shard"] == f"scene-0000{row}.tfrecord.gz"
            assert said["inShard"] == col
    assert found["hovered"].startswith("patch 4   row 1, column 1")
    assert found["drawn"] > 3
    assert re.fullmatch(r"#[\d.]+/[\d.-]+/[\d.-]+", found["address"])
    assert re.match(r"\d+ m<i style", found["bar"])


def run(folder: Path, page: str) -> Any:
    (folder / "page.html").write_text(page, encoding="utf-8")
    (folder / "browser.js").write_text(BROWSER, encoding="utf-8")
    done = subprocess.run(
        ["node", folder / "browser.js", folder / "page.html"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
