"""Screenshots of a page by a headless Chromium, and a listener that hears what a browser asks for."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import rasterio

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-features=NetworkTimeServiceQuerying,OptimizationHints,MediaRouter",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--force-color-profile=srgb",
    "--virtual-time-budget=4000",  # pictures are decoded by then, however slow the machine
]


def browser() -> str | None:
    """Path of a Chromium on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def screenshot(
    page: Path, folder: Path, *, size: tuple[int, int], place: str = "", proxy: str = ""
) -> np.ndarray:
    """RGB pixels of a page as a browser shows it, uint8 ``(row, col, 3)``.

    Args:
        page: the file.
        folder: a new one, for the browser's own files and the picture.
        size: width and height of the window.
        place: what stands behind ``#`` in the address.
        proxy: address through which it has to ask for anything.
    """
    program = browser()
    assert program is not None
    folder.mkdir()
    target = folder / "screen.png"
    command = [program, *FLAGS, f"--user-data-dir={folder / 'profile'}"]
    if proxy:
        command += [f"--proxy-server={proxy}", "--proxy-bypass-list=<-loopback>"]
    command += [f"--screenshot={target}", f"--window-size={size[0]},{size[1]}"]
    command.append(page.resolve().as_uri() + (f"#{place}" if place else ""))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert target.exists(), done.stderr
    with rasterio.open(target) as file:
        return np.moveaxis(file.read([1, 2, 3]), 0, -1)


@contextmanager
def listener() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that answers nothing; its address, and the first bytes of all that was asked of it."""
    heard: list[bytes] = []

    def listen() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # closed
                return
            with connection:
                connection.settimeout(5)
                heard.append(connection.recv(500))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=10)
