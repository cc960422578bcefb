"""Storage that fails once in every place is tried again, and the map is whole."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from maps import import_map, mixer, write_patches

from patchbeam import retry, storage
from patchbeam.errors import ReadFailed, WriteFailed
from patchbeam.mosaic import make
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.plan import read_sidecar
from patchbeam.mosaic.spool import PatchSpool, join_pieces
from patchbeam.mosaic.state import load_state, save_state


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What has failed: each call of each function for each path does, once."""
    seen: set[str] = set()

    def flaky(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: str, *args: Any, **kwargs: Any) -> Any:
            if f"{name} {path}" not in seen:
                seen.add(f"{name} {path}")
                failure = (ReadFailed if name == "read_bytes" else WriteFailed)(f"{path}: the share is away")
                failure.errno = errno.EIO
                raise failure
            return real(path, *args, **kwargs)

        return call

    monkeypatch.setattr(retry, "sleep", lambda seconds: None)
    for name in ("read_bytes", "write_atomic", "write_parts", "rename", "delete", "delete_tree"):
        monkeypatch.setattr(storage, name, flaky(name, getattr(storage, name)))
    monkeypatch.setattr(make, "write_cog", flaky("write_cog", make.write_cog))
    return seen


def test_a_map_is_made_and_published_all_the_same(tmp_path: Path, failed: set[str]) -> None:
    layout = MapLayout.from_mixer(mixer(9, 20))
    records = write_patches(tmp_path, 180, lambda i: {"p": np.full((16, 32), i, np.float32)})
    import_map(layout, records, str(tmp_path / "map" / "m"), ImportOptions(tile_size=512))
    with rasterio.open(tmp_path / "map" / "m.vrt") as made:
        want = np.arange(180, dtype=np.float32).reshape(20, 9)
        np.testing.assert_array_equal(made.read(1), np.kron(want, np.ones((16, 32), np.float32)))
    assert {one.split()[0] for one in failed} >= {
        "write_cog",
        "write_atomic",
        "rename",
        "delete",
        "delete_tree",
    }
    assert not list((tmp_path / "map").glob(".*"))


def test_sidecar_state_and_spool_are_read_and_written_all_the_same(tmp_path: Path, failed: set[str]) -> None:
    (tmp_path / "x-mixer.json").write_text(mixer(2, 1).to_text())
    layout, _ = read_sidecar(str(tmp_path / "x-mixer.json"))
    spool = PatchSpool(str(tmp_path / "spool"), layout)
    for patch in (1, 0):
        assert spool.add(patch, np.full((16, 32), patch, np.float32)) is None
    piece = spool.finish()
    assert piece is not None
    files, order, layout, _ = join_pieces([piece], layout, allow_missing=False)
    from patchbeam.mosaic.counts import open_schema

    schema = open_schema(files, layout, ImportOptions())
    save_state(str(tmp_path / "state.npz"), files, schema, order)
    _, again, found = load_state(str(tmp_path / "state.npz"))
    assert again.bands == schema.bands and found is not None and found.tolist() == [1, 0]
    assert {one.split()[0] for one in failed} == {"read_bytes", "write_atomic", "write_parts"}
