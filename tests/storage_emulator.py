"""A Cloud Storage emulator on a loopback port, for tests of ``gs://`` paths."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def emulated_bucket(name: str = "bucket") -> Iterator[str]:
    """Yields ``gs://NAME``, empty, in an emulator that lives as long as the context.

    ``STORAGE_EMULATOR_HOST`` leads Google's client to it; ``CPL_GS_ENDPOINT`` leads GDAL.
    """
    from gcp_storage_emulator.server import create_server

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    settings = {
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
        "CPL_GS_ENDPOINT": f"http://127.0.0.1:{port}/",
        "GS_NO_SIGN_REQUEST": "YES",
    }
    before = {key: os.environ.get(key) for key in settings}
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket=name)
    server.start()
    os.environ.update(settings)
    try:
        yield f"gs://{name}"
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
        server.stop()
