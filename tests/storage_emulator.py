"""A Cloud Storage emulator on a loopback port, for tests of ``gs://`` paths."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from range_server import free_port, wait_for

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

    ``STORAGE_EMULATOR_HOST`` leads Google's client to it; ``CPL_GS_ENDPOINT`` leads GDAL, which needs
    :func:`bucket_in_a_process`.
    """
    port = free_port()
    server = _server(port, name)
    server.start()
    try:
        with _settings(port):
            yield f"gs://{name}"
    finally:
        server.stop()


@contextmanager
def bucket_in_a_process(name: str = "bucket") -> Iterator[str]:
    """Yields ``gs://NAME``, empty, in an emulator of its own process, as GDAL and other processes need it.

    GDAL holds the interpreter's lock while it waits for an answer.
    """
    port = free_port()
    process = subprocess.Popen([sys.executable, __file__, str(port), name])
    try:
        wait_for(port, process)
        with _settings(port):
            yield f"gs://{name}"
    finally:
        process.kill()
        process.wait()


def _server(port: int, name: str) -> Any:
    from gcp_storage_emulator.server import create_server

    _honour_conditions()
    logging.getLogger("gcp_storage_emulator").setLevel(logging.CRITICAL)
    return create_server("127.0.0.1", port, in_memory=True, default_bucket=name)


@contextmanager
def _settings(port: int) -> Iterator[None]:
    settings = {
        "STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}",
        "CPL_GS_ENDPOINT": f"http://127.0.0.1:{port}/",
        "GS_NO_SIGN_REQUEST": "YES",
    }
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


if __name__ == "__main__":
    _server(int(sys.argv[1]), sys.argv[2]).run()
