"""The libraries that tables need, imported when they are: a lean install may lack them."""

from __future__ import annotations

from typing import Any

from patchbeam.errors import JobError

_ADVICE = "tables need pyogrio and pyarrow: pip install 'patchbeam[vector]'"


def check_arrow() -> None:
    """Refuses to go on without pyarrow, which every table goes through.

    Raises:
        JobError: it is not installed.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise JobError(_ADVICE) from None


def need_pyogrio() -> Any:
    """Returns pyogrio, which reads and writes everything but CSV and Parquet.

    Raises:
        JobError: it is not installed.
    """
    try:
        import pyogrio
    except ImportError:
        raise JobError(_ADVICE) from None
    return pyogrio
