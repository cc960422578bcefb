"""A datum that is loaded when it is asked for."""

from __future__ import annotations

import threading
from os import PathLike, fspath
from typing import Any

import numpy as np

from patchbeam import storage
from patchbeam.data.errors import DataError, note
from patchbeam.data.loaders import find_loader, format_of, load
from patchbeam.errors import JobError


class Stimulus:
    """A path, an array, bytes, or a record of a file, and how it becomes a value.

    Threads may share one; it pickles as a recipe.

    Attributes:
        source: what was given.
        format: of the file or the bytes; ``None`` for arrays and plain values.
    """

    def __init__(
        self,
        source: Any,
        *,
        format: str | None = None,
        backend: str | None = None,
        keep_in_memory: bool = False,
        **options: Any,
    ) -> None:
        """Checks the format; loads nothing.

        Args:
            source: a local path or ``gs://``; bytes of a file (``format`` must be given); or the value
                itself: an array or a number.
            format: default: what the name says.
            backend: which of the format's loaders; default its first choice.
            keep_in_memory: whether the value stays once it has been loaded; it is read-only then.
            options: for the loader, for instance ``record=3, feature="image"`` of a TFRecord file.

        Raises:
            JobError: the format or backend is not known.
        """
        self.source = source
        self._is_path = isinstance(source, str | PathLike)
        if self._is_path and format is None:
            format = format_of(fspath(source))
        if isinstance(source, bytes) and format is None:
            raise JobError("format: bytes do not say what they are; give it")
        if format is None and (backend is not None or options):
            raise JobError(
                f"a {type(source).__name__} is a value already; it takes no format, backend or options"
            )
        self.format = format
        self._backend = backend
        self._options = options
        self.keep_in_memory = keep_in_memory
        self._kept: Any = None
        self._lock = threading.Lock()

    def load(self) -> Any:
        """Returns the value: new in memory, or with ``keep_in_memory`` always the same.

        Raises:
            DataError: what is there is not of the format; names the file.
            JobError: what reads the format is not installed.
            ReadFailed: the file cannot be read.
        """
        if not self.keep_in_memory:
            return self._load()
        with self._lock:
            if self._kept is None:
                self._kept = self._load()
                if isinstance(self._kept, np.ndarray):
                    self._kept.setflags(write=False)
            return self._kept

    def _load(self) -> Any:
        if self.format is None:
            return self.source.copy() if isinstance(self.source, np.ndarray) else self.source
        try:
            if not self._is_path:
                return load(self.source, self.format, self._backend, **self._options)
            loader = find_loader(self.format, self._backend)
            with storage.open_read(fspath(self.source)) as file:
                return loader(file, **self._options)
        except DataError as error:
            raise DataError(f"{self}: {error}") from None
        except TypeError as error:
            note(error, f"{self}, format {self.format}, options {self._options}")
            raise

    @property
    def path(self) -> str | None:
        """The path, of a file."""
        return fspath(self.source) if self._is_path else None

    def __str__(self) -> str:
        return fspath(self.source) if self._is_path else f"a {type(self.source).__name__}"

    def __repr__(self) -> str:
        return f"Stimulus({self}{f', format={self.format!r}' if self.format else ''})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
