"""A Cloud Storage emulator on a loopback port, for tests of ``gs://`` paths."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

_conditions = threading.Lock()


def _conditional(handler: Callable[..., None]) -> Callable[..., None]:
    """Lets an upload honour ``ifGenerationMatch``, as the real store does and the emulator alone does not."""
    from gcp_storage_emulator.exceptions import NotFound

    def checked(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
        wanted = request.query.get("ifGenerationMatch")
        if wanted is None:
            handler(request, response, storage, *rest, **more)
            return
        name = request.query.get("name", [None])[0] or request.data["meta"]["name"]
        with _conditions:
            try:
                found = storage.get_file_obj(request.params["bucket_name"], name)["generation"]
            except NotFound:
                found = "0"
            if str(found) == wanted[0]:
                handler(request, response, storage, *rest, **more)
                return
        response.status = HTTPStatus.PRECONDITION_FAILED
        response.json({"error": {"code": 412, "message": "conditionNotMet", "errors": []}})

    return checked


def _honour_conditions() -> None:
    from gcp_storage_emulator import server

    for _, methods in server.HANDLERS:
        for method, handler in methods.items():
            if handler is server.objects.insert:
                methods[method] = _conditional(handler)


@contextmanager
def emulated_bucket(name: str = "bucket") -> Iterator[str]:
    """Yields ``gs://NAME``, empty, in an emulator that lives as long as the context.

    ``STORAGE_EMULATOR_HOST`` leads Google's client to it; ``CPL_GS_ENDPOINT`` leads GDAL.
    """
    from gcp_storage_emulator.server import create_server

    _honour_conditions()
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
