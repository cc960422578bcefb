"""A runner that loses or repeats work and reports success: found, and nothing is published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from eager import export, plan_of, write_tif

from patchbeam.elements import Piece
from patchbeam.errors import CountMismatch
from patchbeam.plan import ExportPlan

Pieces = list[Piece]


def plan_in(folder: Path, **options: object) -> ExportPlan:
    write_tif(folder / "image.tif", np.arange(16 * 16).reshape(16, 16).astype("u1"), nodata=0)
    given = {"patchDimensions": 2, "maxFileSize": 500, **options}
    job = {"sources": "image.tif", "output": "out/x", "formatOptions": given, "blockBytes": 1 << 16}
    return plan_of(job, folder)


WAYS: dict[str, Callable[[Pieces], Pieces]] = {
    "all lost": lambda pieces: [],
    "first lost": lambda pieces: sorted(pieces, key=lambda p: p.order)[1:],
    "last part lost": lambda pieces: sorted(pieces, key=lambda p: p.order)[:-1],
    "one twice": lambda pieces: [*pieces, pieces[3]],
    "one in place of another": lambda pieces: [*pieces[1:], pieces[3]],
}


@pytest.mark.parametrize("options", [{}, {"maskedThreshold": 0.5}, {"sequenceData": True}], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_lost_work_is_found(tmp_path: Path, way: str, options: dict[str, object]) -> None:
    plan = plan_in(tmp_path, **options)
    with pytest.raises(CountMismatch, match="Run the job again"):
        export(plan, tamper=WAYS[way])
    assert not list((tmp_path / "out").glob("x*"))


def test_nothing_lost_is_published(tmp_path: Path) -> None:
    assert export(plan_in(tmp_path)).patches.written == 64
