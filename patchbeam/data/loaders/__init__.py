"""Loaders: what turns the bytes of a datum into an array, by format.

A format has one or several backends, each in a module of its own that is imported when a datum of that
format is first loaded, and only there a third-party library. Packages add theirs with the entry point
group ``patchbeam.loaders``: the name is ``FORMAT`` or ``FORMAT.BACKEND``, the value a loader.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from patchbeam.errors import JobError, nearest

ENTRY_POINTS = "patchbeam.loaders"

Loader = Callable[..., NDArray[Any]]
"""``loader(file, **options)``: the array of a file that is open for reading in binary and can be sought."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A loader, or where it is found: ``module:function``."""

    target: Loader | str
    extra: str | None = None
    package: str | None = None


_OWN = "patchbeam.data.loaders"
_LOADERS: dict[str, dict[str, _Entry]] = {}
_SUFFIXES: dict[str, str] = {}
_LOCK = threading.RLock()
_plugins_found = False


def register_loader(
    format: str,
    loader: Loader | str | None = None,
    *,
    backend: str = "default",
    suffixes: Iterable[str] = (),
    extra: str | None = None,
    package: str | None = None,
) -> Any:
    """Adds a loader of a format; the one added last is the format's first choice.

    Also a decorator: ``@register_loader("pcx", backend="mine", suffixes=[".pcx"])``.

    Args:
        format: its name.
        loader: ``loader(file, **options)``, or ``module:function`` to be imported at first use.
        backend: its name among the loaders of the format.
        suffixes: of file names of the format, with the dot.
        extra: the extra of this package that installs what it needs.
        package: what it needs, for the message when that is missing.
    """
    if loader is None:

        def decorate(function: Loader) -> Loader:
            register_loader(
                format, function, backend=backend, suffixes=suffixes, extra=extra, package=package
            )
            return function

        return decorate
    with _LOCK:
        others = {name: e for name, e in _LOADERS.get(format, {}).items() if name != backend}
        _LOADERS[format] = {backend: _Entry(loader, extra, package), **others}
        for suffix in suffixes:
            _SUFFIXES[suffix.lower()] = format
    return loader


def known_formats() -> dict[str, tuple[str, ...]]:
    """Returns the backends of every format, the first choice first."""
    _find_plugins()
    with _LOCK:
        return {name: tuple(backends) for name, backends in sorted(_LOADERS.items())}


def find_loader(format: str, backend: str | None = None) -> Loader:
    """Returns a loader, importing it when it is first asked for.

    Raises:
        JobError: there is no such format or backend (the known ones are listed), or what it needs is not
            installed (the extra is named).
    """
    formats = known_formats()
    if format not in formats:
        raise JobError(
            f"format: {format!r} is not known{nearest(format, formats)}; formats are {', '.join(formats)}"
        )
    name = backend or formats[format][0]
    if name not in formats[format]:
        raise JobError(
            f"backend: {name!r} does not read {format}{nearest(name, formats[format])}; backends are "
            f"{', '.join(formats[format])}"
        )
    entry = _LOADERS[format][name]
    if not isinstance(entry.target, str):
        return entry.target
    module, _, function = entry.target.partition(":")
    try:
        loader: Loader = getattr(import_module(module), function)
    except ImportError as error:
        advice = f'pip install "patchbeam[{entry.extra}]"' if entry.extra else f"pip install {entry.package}"
        raise JobError(
            f"{format}: {entry.package or module} is needed to read it and cannot be imported ({error}); "
            f"{advice}"
        ) from None
    return loader


def format_of(name: str) -> str:
    """Returns the format that a file's name says.

    Raises:
        JobError: it says none that is known; those that are, are listed.
    """
    formats = known_formats()
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    found = _SUFFIXES.get(suffix)
    if found is None and name.lower().removesuffix(".gz").endswith("-ubyte"):
        return "idx"
    if found is None:
        raise JobError(
            f"{name}: its name says no format that is known; give format=, one of {', '.join(formats)}"
        )
    return found


def suffixes_of(formats: Iterable[str] | None = None) -> frozenset[str]:
    """Returns the suffixes of formats, or all that are known."""
    _find_plugins()
    wanted = None if formats is None else set(formats)
    return frozenset(suffix for suffix, name in _SUFFIXES.items() if wanted is None or name in wanted)


def load(
    source: str | Path | bytes | BinaryIO, format: str, backend: str | None = None, **options: Any
) -> Any:
    """Returns the array of a file, of its bytes, or of what is open.

    Raises:
        JobError: as :func:`find_loader`.
        DataError: the bytes are not of the format.
    """
    loader = find_loader(format, backend)
    if isinstance(source, bytes):
        return loader(io.BytesIO(source), **options)
    if isinstance(source, str | Path):
        with open(source, "rb") as file:
            return loader(file, **options)
    return loader(source, **options)


def _find_plugins() -> None:
    global _plugins_found
    with _LOCK:
        if _plugins_found:
            return
        _plugins_found = True
        for point in metadata.entry_points(group=ENTRY_POINTS):
            format, _, backend = point.name.partition(".")
            distribution = point.dist.name if point.dist is not None else point.module
            register_loader(
                format,
                f"{point.module}:{point.attr}",
                backend=backend or distribution,
                suffixes=() if f".{format}" in _SUFFIXES else (f".{format}",),
                package=distribution,
            )


def as_gray_or_rgb(pixels: NDArray[Any]) -> NDArray[Any]:
    """Returns ``(row, col, channel)`` or ``(row, col)`` as ``(channel, row, col)``, contiguous."""
    planes = pixels[np.newaxis] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)
    return np.ascontiguousarray(planes)


for _format in ("npy", "npz"):
    register_loader(_format, f"{_OWN}.numpy_files:load_{_format}", backend="numpy", suffixes=(f".{_format}",))
_suffixes: tuple[str, ...]
for _format, _suffixes in (
    ("png", (".png",)),
    ("jpeg", (".jpg", ".jpeg", ".jpe")),
    ("bmp", (".bmp",)),
    ("gif", (".gif",)),
    ("webp", (".webp",)),
):
    register_loader(
        _format,
        f"{_OWN}.pillow:load_image",
        backend="pillow",
        suffixes=_suffixes,
        extra="images",
        package="Pillow",
    )
register_loader("pnm", f"{_OWN}.netpbm:load_pnm", backend="numpy", suffixes=(".pgm", ".ppm", ".pnm"))
register_loader(
    "geotiff",
    f"{_OWN}.geotiff:load_geotiff",
    backend="rasterio",
    suffixes=(".tif", ".tiff"),
    package="rasterio",
)
register_loader("idx", f"{_OWN}.idx:load_idx", backend="numpy", suffixes=(".idx",))
register_loader("cifar10", f"{_OWN}.cifar:load_cifar10", backend="numpy")
register_loader("cifar100", f"{_OWN}.cifar:load_cifar100", backend="numpy")
register_loader("tfrecord", f"{_OWN}.records:load_record", backend="numpy", suffixes=(".tfrecord",))
