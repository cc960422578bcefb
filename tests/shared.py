"""Real rasters and records for tests that can use them, where a machine has any."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def shared_data() -> Path | None:
    """The folder of real files: ``PATCHBEAM_SHARED_DATA``, else ``../shared/data``, else none."""
    named = os.environ.get("PATCHBEAM_SHARED_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None
