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


def vector_errors() -> tuple[type[Exception], ...]:
    """Returns what pyogrio and its Arrow stream raise for a file that cannot be read.

    Raises:
        JobError: one of them is not installed.
    """
    check_arrow()
    import pyarrow

    errors = need_pyogrio().errors
    # GDAL's own errors arrive as the last three: in the middle of a stream, and from texts in no encoding
    return (
        errors.DataSourceError,
        errors.DataLayerError,
        RuntimeError,
        UnicodeDecodeError,
        pyarrow.ArrowException,
    )
