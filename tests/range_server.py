"""A web server on loopback that answers requests for ranges, in a process of its own.

GDAL holds the interpreter's lock while it waits for an answer, so a server in the test's process would
never give one.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(SimpleHTTPRequestHandler):
    """Files of a folder, whole or by one range."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if wanted is None or not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        start, end = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end}/{len(data)}")
        self.send_header("Content-Length", str(end + 1 - start))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}"')
        self.end_headers()
        self.wfile.write(data[start : end + 1])


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing answers on port {port}; the process ended with {process.poll()}")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Yields the URL of a folder."""
    port = free_port()
    process = subprocess.Popen([sys.executable, __file__, str(port), str(folder)])
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    ThreadingHTTPServer(
        ("127.0.0.1", int(sys.argv[1])), partial(Handler, directory=sys.argv[2])
    ).serve_forever()
