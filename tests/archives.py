"""Synthetic archives of the classic sets' layouts, and a server for them that can misbehave."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from patchbeam.data.sets import CIFAR10, CIFAR100

Files = Mapping[str, bytes]


def tgz(files: Files) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", compresslevel=1) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zipped(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def idx(array: np.ndarray) -> bytes:
    codes = {"uint8": 8, "int8": 9, "int16": 0xB, "int32": 0xC, "float32": 0xD, "float64": 0xE}
    head = struct.pack(f">HBB{array.ndim}I", 0, codes[array.dtype.name], array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def picture(pixels: np.ndarray, format: str = "PNG") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format, **({"quality": 95} if format == "JPEG" else {}))
    return out.getvalue()


class SmallCIFAR10(CIFAR10):
    """The set with fewer records a file."""

    records_per_file = {"training": 12, "validation": 25}  # noqa: RUF012


class SmallCIFAR100(CIFAR100):
    """The set with fewer records a file."""

    records_per_file = {"training": 60, "validation": 25}  # noqa: RUF012


def cifar10(seed: int = 0) -> tuple[Files, dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The server's files, and images and labels of both parts."""
    rng = np.random.default_rng(seed)
    inside, parts = {}, {"training": [], "validation": []}  # type: ignore[var-annotated]
    for name, count in [*((f"data_batch_{i}", 12) for i in range(1, 6)), ("test_batch", 25)]:
        records = rng.integers(0, 256, (count, 3073)).astype(np.uint8)
        records[:, 0] %= 10
        inside[f"cifar-10-batches-bin/{name}.bin"] = records.tobytes()
        parts["validation" if name == "test_batch" else "training"].append(records)
    inside["cifar-10-batches-bin/readme.html"] = b"<html>"
    joined = {name: np.concatenate(records) for name, records in parts.items()}
    return {"cifar-10-binary.tar.gz": tgz(inside)}, {
        name: (r[:, 1:].reshape(-1, 3, 32, 32), r[:, 0].astype(np.int32)) for name, r in joined.items()
    }


def digests_of(files: Files) -> dict[str, str | None]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


class Server:
    """Files over HTTP with range requests and strong tags; counts what is asked for."""

    def __init__(self, files: Files) -> None:
        self.files = dict(files)
        self.requests: list[tuple[str, int]] = []
        """Name and first byte of every answer with content."""
        self.sent: dict[str, int] = {}
        self.cut_after: int | None = None
        """Bytes after which the next answer ends, once."""
        self.pause_s = 0.0
        """Between two pieces of 64 KiB."""
        self.status: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextmanager
    def running(self) -> Iterator[Server]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                outer._answer(self)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        name = handler.path.lstrip("/")
        data = self.files.get(name)
        if data is None or self.status is not None:
            handler.send_response(self.status or 404)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        tag = f'"{hashlib.sha256(data).hexdigest()[:12]}"'
        asked = handler.headers.get("Range")
        first = 0
        if asked and handler.headers.get("If-Range", tag) == tag:
            first = int(asked.removeprefix("bytes=").rstrip("-"))
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        else:
            handler.send_response(200)
        handler.send_header("ETag", tag)
        handler.send_header("Content-Length", str(len(data) - first))
        handler.end_headers()
        self.requests.append((name, first))
        stop = len(data) if self.cut_after is None else min(len(data), first + self.cut_after)
        try:
            for at in range(first, stop, 1 << 16):
                handler.wfile.write(data[at : min(at + (1 << 16), stop)])
                self.sent[name] = min(at + (1 << 16), stop)
                time.sleep(self.pause_s)
        except OSError:  # the other side has gone
            pass
        if stop < len(data):
            self.cut_after = None
            handler.close_connection = True


def mnist(seed: int = 0, counts: tuple[int, int] = (40, 17)) -> tuple[Files, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    files, parts = {}, {}
    for split, name, count in zip(("training", "validation"), ("train", "t10k"), counts, strict=True):
        images = rng.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        labels = rng.integers(0, 10, count).astype(np.uint8)
        files[f"{name}-images-idx3-ubyte.gz"] = gzip.compress(idx(images), 1, mtime=0)
        files[f"{name}-labels-idx1-ubyte.gz"] = gzip.compress(idx(labels), 1, mtime=0)
        parts[split] = (images[:, np.newaxis], labels.astype(np.int32))
    return files, parts


def cifar100(seed: int = 0) -> tuple[Files, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    inside, parts = {}, {}
    for split, name, count in (("training", "train", 60), ("validation", "test", 25)):
        records = rng.integers(0, 256, (count, 3074)).astype(np.uint8)
        records[:, 0] %= 20
        records[:, 1] %= 100
        inside[f"cifar-100-binary/{name}.bin"] = records.tobytes()
        parts[split] = (records[:, 2:].reshape(-1, 3, 32, 32), records[:, 1].astype(np.int32))
    return {"cifar-100-binary.tar.gz": tgz(inside)}, parts


WNIDS = ("n01440764", "n02102040", "n02979186")


def imagenette(name: str = "imagenette-160", seed: int = 0) -> tuple[Files, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    inside: dict[str, bytes] = {}
    labels: dict[str, list[int]] = {"training": [], "validation": []}
    for split, folder, count in (("training", "train", 5), ("validation", "val", 2)):
        for label, wnid in enumerate(WNIDS):
            inside[f"{name}/{folder}/{wnid}/.hidden.JPEG"] = b"not an image"
            for number in range(count):
                shape = (int(rng.integers(20, 60)), int(rng.integers(20, 60)), 3)
                pixels = rng.integers(0, 256, shape).astype(np.uint8)
                if number == 1:
                    pixels = pixels[..., 0]  # some of the originals are grey
                inside[f"{name}/{folder}/{wnid}/{wnid}_{number}.JPEG"] = picture(pixels, "JPEG")
                labels[split].append(label)
    return {f"{name}.tgz": tgz(inside)}, {s: np.array(found, np.int32) for s, found in labels.items()}


def pets(seed: int = 0) -> tuple[Files, dict[str, list[str]]]:
    rng = np.random.default_rng(seed)
    names = {
        "trainval": ["Abyssinian_1", "beagle_2", "pug_7", "Bombay_3", "boxer_9"],
        "test": ["pug_8", "Sphynx_4"],
    }
    images: dict[str, bytes] = {"images/Abyssinian_1.mat": b"\0"}
    notes: dict[str, bytes] = {"annotations/README": b"read me"}
    for listed, part in names.items():
        lines = "".join(f"{name} 1 1 1\n" for name in part)
        notes[f"annotations/{listed}.txt"] = lines.encode()
        for name in part:
            rows, cols = (int(n) for n in rng.integers(30, 60, 2))
            images[f"images/{name}.jpg"] = picture(
                rng.integers(0, 256, (rows, cols, 3)).astype(np.uint8), "JPEG"
            )
            trimap = rng.integers(1, 4, (rows, cols)).astype(np.uint8)
            notes[f"annotations/trimaps/{name}.png"] = picture(trimap)
            notes[f"annotations/trimaps/._{name}.png"] = b"resource fork"
    return {"images.tar.gz": tgz(images), "annotations.tar.gz": tgz(notes)}, names


LAND = ("AnnualCrop", "Forest", "SeaLake")


def eurosat(bands: str = "rgb", each: int = 10, seed: int = 0) -> Files:
    rng = np.random.default_rng(seed)
    inside: dict[str, bytes] = {}
    for name in LAND:
        for number in range(1, each + 1):
            if bands == "rgb":
                pixels = rng.integers(0, 256, (64, 64, 3)).astype(np.uint8)
                inside[f"2750/{name}/{name}_{number}.jpg"] = picture(pixels, "JPEG")
            else:
                inside[f"ds/tif/{name}/{name}_{number}.tif"] = scene(rng)
    return {"EuroSAT.zip" if bands == "rgb" else "EuroSATallBands.zip": zipped(inside)}


def scene(rng: np.random.Generator) -> bytes:
    import rasterio

    pixels = rng.integers(0, 4000, (13, 64, 64)).astype(np.uint16)
    with rasterio.MemoryFile() as memory:
        with memory.open(driver="GTiff", width=64, height=64, count=13, dtype="uint16") as raster:
            raster.write(pixels)
        return bytes(memory.getbuffer())
