"""Runs that have failed: what they failed with, what of them has been published, and what is to be done.

Every job tells it here, in one way. Whether a run has published nothing, a part or everything is looked up
where its files lie: what a runner reports says nothing of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NoReturn

from patchbeam import errors
from patchbeam.errors import LockHeld, PatchbeamError, ReadFailed, SourceUnreadable, WriteFailed
from patchbeam.leftovers import clean_up
from patchbeam.lock import OutputLock
from patchbeam.pool import close_pools

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a run writes, as it can be looked at after a failure.

    Attributes:
        prefix: first part of the names of its files.
        last: the file that is written last.
        folder: its temporary files.
        resumes: whether ``--resume`` goes on with what is finished; else temporary files always go.
        begun: tells whether files of this run have got their names.
        complete: tells whether this very run has published everything.
        lock: what it holds meanwhile; ``None`` where there is no lock.
    """

    prefix: str
    last: str
    folder: str
    resumes: bool
    begun: Callable[[], bool]
    complete: Callable[[], bool]
    lock: OutputLock | None = None


class _Published(Enum):
    NOTHING = "nothing has been published"
    PARTLY = "publication had begun, and what stands at {prefix} is not complete"
    ALL = "everything had been published before: {last}"
    UNKNOWN = "what has been published cannot be seen"

    def said(self, output: Output) -> str:
        return self.value.format(prefix=output.prefix, last=output.last)


def end_failed_run(error: BaseException, output: Output, *, local: bool, ends_here: bool) -> None:
    """Ends a run that has failed; temporary files stay only if they are of use.

    Returns only when everything had been published and it was the runner that failed afterwards, which is
    logged.

    Args:
        error: what came out of the runner.
        output: what was to be written.
        local: whether this machine's own runner did the work.
        ends_here: whether the work ends with this process.

    Raises:
        PatchbeamError: what a stage, or a runner elsewhere, failed with, and what has become of the output.
        KeyboardInterrupt: Ctrl-C; its text says the same.
    """
    close_pools()
    original = original_error(error)
    if isinstance(original, LockHeld):  # what stands there now is another run's
        _raise(original, error)
    ours, interrupted = isinstance(original, PatchbeamError), was_interrupted(error)
    published = _look(output)
    if published is _Published.ALL and not ours:
        if interrupted:
            if not output.resumes:
                clean_up(output.folder)
            raise KeyboardInterrupt(published.said(output)) from error
        told = str(failed_there(error, "")).partition("; its log")[0]
        _LOG.warning("%s; afterwards %s", published.said(output), told)
        return
    if interrupted and not ends_here:
        if output.lock is not None:
            output.lock.keep()
        raise KeyboardInterrupt(
            f"the job goes on where it runs and will publish {output.prefix}; cancel it there, then delete "
            f"{output.folder}"
        ) from error
    # trying again changes nothing about what the input or the job is to blame for
    passing = isinstance(original, ReadFailed | WriteFailed) and not isinstance(original, SourceUnreadable)
    keeps = output.resumes and (passing or not ours)
    if not keeps:
        clean_up(output.folder)
    said, then = published.said(output), ""
    if keeps:
        then = f"what is finished is kept in {output.folder}: run it again with --resume"
    elif published is _Published.PARTLY:
        then = "run it again with --overwrite"
    if interrupted:
        raise KeyboardInterrupt(f"{said}; {then or 'no temporary file is left'}") from error
    if ours:
        more = [said] * (published is not _Published.NOTHING) + [then] * bool(then)
        _raise(type(original)("; ".join([str(original), *more])) if more else original, error)
    if not local and isinstance(original, Exception):
        raise failed_there(original, f"{said[0].upper()}{said[1:]}; {then or 'run it again'}") from error
    _raise(original, error)


def _raise(original: BaseException, error: BaseException) -> NoReturn:
    if original is error:
        raise original
    raise original from error


def _look(output: Output) -> _Published:
    try:
        if output.complete():
            return _Published.ALL
        return _Published.PARTLY if output.begun() else _Published.NOTHING
    except PatchbeamError:  # of a storage that is perhaps what has failed
        return _Published.UNKNOWN


def was_interrupted(error: BaseException) -> bool:
    """Whether an error comes from Ctrl-C; Beam wraps what is raised inside a stage, this too."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def failed_there(error: BaseException, then: str) -> PatchbeamError:
    """Returns what is told of a job that its runner, not this package, has ended.

    Args:
        error: what the runner says.
        then: what to do.
    """
    details = getattr(error, "details", None)  # a lost connection's own text is a page about the protocol
    text = str(details()) if callable(details) else str(error)
    # what is left of a traceback of Python or Java: where it begins and what it ends with
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line[0].isspace()]
    said = " ".join(dict.fromkeys([*lines[:1], *lines[-1:]])) or type(error).__name__
    return PatchbeamError(f"the job failed where it ran: {said.rstrip('.')}; its log there says more. {then}")


_ERROR = re.compile(
    r"patchbeam\.errors\.(\w+): (.*?)(?: \[while running '[^\n]*'\])?(?:\n\n|\Z|\nTraceback|\n\Z)", re.S
)
_STEP = re.compile(r" \[while running '[^\n]*'\]\Z")


def original_error(error: BaseException) -> BaseException:
    """Returns the error that a stage raised; runners hand it back as text inside one of their own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PatchbeamError):
            break
        seen = seen.__cause__ or seen.__context__
    found = list(_ERROR.finditer(str(error)))
    if seen is None and found:
        name, text = found[-1][1], found[-1][2]
        kind = getattr(errors, name, PatchbeamError)
        return kind(text) if issubclass(kind, PatchbeamError) else PatchbeamError(text)
    if seen is None:
        return error
    text = _STEP.sub("", str(seen))
    # Beam adds the name of the step, which says nothing to the user
    if text == str(seen):
        return seen
    told = type(seen)(text)
    told.__dict__.update(seen.__dict__)  # file, record and byte of what is damaged
    return told
