"""What wrote an export: the versions of all that decides a stored byte."""

from __future__ import annotations

import zlib
from importlib.metadata import PackageNotFoundError, version

from patchbeam import __version__


def software_versions() -> dict[str, str]:
    """Returns the versions of all that decides a stored byte."""

    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "none"

    return {
        "patchbeam": __version__,
        "rasterio": of("rasterio"),
        "numpy": of("numpy"),
        "isal": of("isal"),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
    }
