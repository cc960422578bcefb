"""One hierarchy of errors; each is also the builtin exception that it most resembles.

A message says what is wrong, with the values, where (key, file, band, patch, record or byte), and
what to do about it. ``exit_status`` is what the command line returns for it: 2 when the job file or
its inputs are wrong and no work has started, 1 when a job failed on the way, 3 when another run
holds the lock.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from patchbeam.redact import without_secrets


class PatchbeamError(Exception):
    """Base of every error that Patchbeam raises on purpose; as text it holds no secrets of URLs."""

    exit_status = 1

    def __str__(self) -> str:
        return without_secrets(super().__str__())


class JobError(PatchbeamError, ValueError):
    """The job file, or something that it names, is wrong; found before work starts."""

    exit_status = 2


class GridError(JobError):
    """The export grid cannot be made from the options given."""


class SourceError(JobError):
    """A source cannot be used: missing, not a raster, cut short, of an unusable type."""


class OutputExists(JobError, FileExistsError):
    """Files of an earlier run stand where this job would write."""


class OutputUnusable(JobError):
    """The destination cannot be written, or has too little space."""


class EncodeError(PatchbeamError, ValueError):
    """Pixels cannot be held by the record type that the job asks for."""


class ReadFailed(PatchbeamError, OSError):
    """Reading a source or a record file failed on the way.

    Attributes:
        source: the source file that cannot be read; ``None`` where it is not one.
    """

    source: str | None = None


class SourceUnreadable(ReadFailed):
    """A source has gone, or holds what cannot be decoded or converted; trying again changes nothing."""


class WriteFailed(PatchbeamError, OSError):
    """Writing an output failed on the way."""


class CountMismatch(PatchbeamError, RuntimeError):
    """What was written is not what the plan says."""


class LockHeld(PatchbeamError, RuntimeError):
    """Another run holds the lock of this output."""

    exit_status = 3


class CorruptRecord(PatchbeamError, ValueError):
    """A record file is damaged.

    Attributes:
        file: name of the file, or ``None`` when the bytes came from memory.
        record: number of the record in the file, from 0, or ``None``.
        byte: offset of the record's first byte in the uncompressed stream, or ``None``.
    """

    def __init__(
        self, what: str, *, file: str | None = None, record: int | None = None, byte: int | None = None
    ) -> None:
        self.what = what
        self.file = file
        self.record = record
        self.byte = byte
        where = [
            text
            for text, value in ((f"{file}", file), (f"record {record}", record), (f"byte {byte}", byte))
            if value is not None
        ]
        super().__init__(f"{', '.join(where)}: {what}" if where else what)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by keyword, so that the error survives the way back from a worker."""
        return _corrupt_record, (self.what, self.file, self.record, self.byte)


def _corrupt_record(what: str, file: str | None, record: int | None, byte: int | None) -> CorruptRecord:
    return CorruptRecord(what, file=file, record=record, byte=byte)


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns `` (did you mean 'x'?)`` for the known name closest to ``name``, or an empty text."""
    folded = {k.lower(): k for k in known}
    match = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    return f" (did you mean {folded[match[0]]!r}?)" if match else ""


def short(value: object) -> str:
    """Returns a value for a message, cut when it is long."""
    if isinstance(value, int) and abs(value) >= 1 << 256:
        return f"a number of {value.bit_length()} bits"  # Python refuses to print the longest ones
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
