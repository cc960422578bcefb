"""Errors of the training side, and the notes that say which item an error belongs to."""

from __future__ import annotations

from patchbeam.errors import JobError, PatchbeamError


class DataError(PatchbeamError, ValueError):
    """An item is not what it should be: shape, type or number of modalities."""


class EmptyDatabase(JobError):
    """There is nothing to make a batch from."""


class Offline(PatchbeamError, ConnectionError):
    """Something has to be fetched and fetching is switched off."""


class DownloadFailed(PatchbeamError, ConnectionError):
    """A file could not be fetched, or what was fetched is not what it should be."""


def note(error: BaseException, text: str) -> None:
    """Adds ``text`` to what a traceback prints below the error, once."""
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)
