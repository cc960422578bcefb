"""One run at a time for one output: a small file beside it that its run keeps fresh.

How old the file is, is asked of the store, so that the clocks of two machines need not agree. A run that was
killed leaves its lock; ``--resume`` takes it over when it has not been renewed for ten minutes, or at once
when its process was of this machine and is gone.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import secrets
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patchbeam import storage
from patchbeam.errors import LockHeld, OutputExists, PatchbeamError, ReadFailed
from patchbeam.retry import retrying
from patchbeam.storage.clock import age_s, touch

STALE_S = 600.0
"""A lock that has not been renewed for so long may be taken over."""

RENEWED_EVERY_S = 30.0

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockTicket:
    """What the last step of a run shows before it publishes.

    Attributes:
        path: the lock.
        token: what it must hold.
    """

    path: str
    token: str

    def check(self) -> None:
        """Makes sure that the run still holds its lock.

        Raises:
            LockHeld: another run has taken it over.
        """
        held = _read(self.path)
        if held is None or held.get("token") != self.token:
            raise LockHeld(
                f"{self.path}: another run has taken this output over, because this one had not renewed its "
                "lock for ten minutes; nothing of this run has been published"
            )

    def release(self) -> None:
        """Deletes the lock if it is still this run's."""
        with suppress(PatchbeamError):
            held = _read(self.path)
            if held is not None and held.get("token") == self.token:
                storage.delete(self.path)


class OutputLock:
    """Holds the lock of an output while the context lasts.

    Args:
        output: prefix of the files that the run writes.
        take_over: whether the lock of a run that has died may be taken.

    Raises:
        LockHeld: on entering: another run holds it.
    """

    def __init__(self, output: str, *, take_over: bool) -> None:
        folder, name = storage.split(output)
        self.ticket = LockTicket(storage.join(folder, f".{name}.lock"), secrets.token_hex(16))
        self._output = output
        self._take_over = take_over
        self._left = threading.Event()
        self._kept = False

    def keep(self) -> None:
        """Leaves the lock behind: the work goes on elsewhere, and its last step deletes it."""
        self._kept = True

    @property
    def is_given_back(self) -> bool:
        """Whether the last step has deleted the lock, which it does once everything is published."""
        with suppress(PatchbeamError):
            return _read(self.ticket.path) is None
        return False

    def __enter__(self) -> Self:
        content = self._content()
        try:
            retrying(lambda: storage.create_new(self.ticket.path, content))
        except OutputExists:
            # a first try that failed after it had written leaves this run's own lock
            if (_read(self.ticket.path) or {}).get("token") != self.ticket.token:
                self._take()
        threading.Thread(target=self._renew, name="patchbeam-lock", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left.set()
        if not self._kept:
            self.ticket.release()

    def _content(self) -> bytes:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        mine = {"token": self.ticket.token, "machine": _machine(), "process": os.getpid(), "started": started}
        return json.dumps({**mine, "born": _born(os.getpid())}).encode()

    def _take(self) -> None:
        """Takes the lock over from a run that has died."""
        path = self.ticket.path
        held = _read(path)
        try:
            age = age_s(path)
        except ReadFailed as error:
            if error.errno != errno.ENOENT:
                raise
            held = None
        if held is None:  # it has been released meanwhile
            try:
                storage.create_new(path, self._content())
            except OutputExists as error:
                raise LockHeld(f"output: another run has just begun {self._output}; wait for it") from error
            return
        who = f"process {held.get('process')} on {str(held.get('machine')).partition('|')[0]}"
        since = f"since {held.get('started')}"
        gone = _is_gone(held)
        if not gone and age < STALE_S:
            raise LockHeld(
                f"output: another run ({who}, {since}) writes {self._output} and has renewed its lock "
                f"{age:.0f} s ago; wait for it to end, or give another output"
            )
        if not self._take_over:
            state = "has ended" if gone else f"has not renewed its lock for {age / 60:.0f} min"
            raise LockHeld(
                f"output: another run ({who}, {since}) that writes {self._output} {state} without finishing; "
                "--resume takes over and goes on where it stopped"
            )
        claim = self._claim(held)
        try:
            now = _read(path)
            if now is None or now.get("token") != held.get("token"):
                raise LockHeld(f"output: another run has just taken over {self._output}; wait for it")
            storage.write_atomic(path, self._content())
        finally:
            storage.delete(claim)
        with suppress(PatchbeamError):  # what a run has left that was killed while it took the lock over
            for name in storage.list_names(f"{path}."):
                if _is_abandoned(name):
                    storage.delete(name)
        _LOG.info("took the lock of %s over from %s", self._output, who)

    def _claim(self, held: dict[str, Any]) -> str:
        """Makes the file that of several runs which see the same dead one exactly one can make."""
        claim = f"{self.ticket.path}.{_digest(held.get('token'))}"
        for last in (False, True):
            try:
                storage.create_new(claim, self._content())
                break
            except OutputExists as error:
                if last or not _is_abandoned(claim):
                    raise LockHeld(
                        f"output: another run is just taking over {self._output}; wait for it"
                    ) from error
                storage.delete(claim)
        return claim

    def _renew(self) -> None:
        while not self._left.wait(RENEWED_EVERY_S):
            try:
                self.ticket.check()
                touch(self.ticket.path)
            except LockHeld as error:
                _LOG.warning("%s", error)
                return
            except PatchbeamError as error:
                _LOG.warning("the lock could not be renewed: %s", error)


def _read(path: str) -> dict[str, Any] | None:
    """Returns what a lock holds, ``None`` when there is none."""
    try:
        held = json.loads(storage.read_bytes(path))
    except ReadFailed as error:
        if error.errno != errno.ENOENT:
            raise
        return None
    except (ValueError, RecursionError):
        held = None
    return held if isinstance(held, dict) else {}


def _is_abandoned(claim: str) -> bool:
    """Whether the run that made a claim has ended, or has had ten minutes for what takes a moment."""
    try:
        made_by = _read(claim)
        return made_by is None or _is_gone(made_by) or age_s(claim) >= STALE_S
    except ReadFailed as error:
        if error.errno != errno.ENOENT:
            raise
        return True


def _digest(token: object) -> str:
    """Returns what can be part of a file's name, whatever a damaged lock holds."""
    return hashlib.sha256(str(token).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _machine() -> str:
    """Tells machines, their boots and their containers apart."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return "|".join(parts)


def _born(process: int) -> str | None:
    """Returns when a process began, in ticks since the machine did; numbers of processes are used again."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    # one that has ended and only waits for its parent to notice is gone
    return None if fields[0] in "ZX" else fields[19]


def _is_gone(held: dict[str, Any]) -> bool:
    """Whether the process that made a lock is known to have ended."""
    born, process = held.get("born"), held.get("process")
    if held.get("machine") != _machine() or not isinstance(process, int) or born is None:
        return False
    return bool(_born(process) != born)
