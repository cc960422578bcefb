"""One run at a time for one output, whatever the clocks say and whoever was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage_emulator import emulated_bucket

from patchbeam import lock, storage
from patchbeam.errors import LockHeld
from patchbeam.lock import OutputLock
from patchbeam.storage.clock import age_s, touch


@pytest.fixture(autouse=True)
def renewals_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the threads of locks that a test has left without leaving them, as a run that dies does.

    Half a minute later they would warn into the output of another test.
    """
    made: list[OutputLock] = []
    true = OutputLock.__init__

    def init(self: OutputLock, output: str, *, take_over: bool) -> None:
        true(self, output, take_over=take_over)
        made.append(self)

    monkeypatch.setattr(OutputLock, "__init__", init)
    yield
    for one in made:
        one._left.set()
    for thread in threading.enumerate():
        if thread.name == "patchbeam-lock":
            thread.join(20)
    assert not [thread for thread in threading.enumerate() if thread.name == "patchbeam-lock"]


@pytest.fixture(params=["local", "gs"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "out" / "scene")
    else:
        with emulated_bucket() as bucket:
            yield f"{bucket}/out/scene"


def of_another_machine(path: str) -> None:
    """Makes a lock look as if its process ran elsewhere, so that nothing is known of it."""
    held = json.loads(storage.read_bytes(path))
    storage.write_atomic(path, json.dumps({**held, "machine": "elsewhere|1|2"}).encode())


def test_held_then_free(output: str) -> None:
    path = OutputLock(output, take_over=False).ticket.path
    with OutputLock(output, take_over=False) as mine:
        mine.ticket.check()
        for take_over in (False, True):
            with (
                pytest.raises(LockHeld, match=rf"another run \(process {os.getpid()} on .* wait for it"),
                OutputLock(output, take_over=take_over),
            ):
                pass
        mine.ticket.check()
    assert not storage.exists(path)
    with OutputLock(output, take_over=False):
        pass
    assert storage.list_names(path[: -len("scene.lock")]) == []


def test_neighbours_do_not_wait(tmp_path: Path) -> None:
    with (
        OutputLock(str(tmp_path / "scene"), take_over=False),
        OutputLock(str(tmp_path / "scene2"), take_over=False),
    ):
        pass


def test_a_fresh_lock_of_another_machine_is_not_taken(output: str) -> None:
    dead = OutputLock(output, take_over=False)
    dead.__enter__()
    of_another_machine(dead.ticket.path)
    with pytest.raises(LockHeld, match="renewed its lock"), OutputLock(output, take_over=True):
        pass


def test_one_that_was_not_renewed_is_taken_by_resume_alone(
    output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = OutputLock(output, take_over=False)
    dead.__enter__()
    of_another_machine(dead.ticket.path)
    monkeypatch.setattr(lock, "age_s", lambda path: 599.0)
    with pytest.raises(LockHeld, match="599 s ago"), OutputLock(output, take_over=True):
        pass
    monkeypatch.setattr(lock, "age_s", lambda path: 601.0)
    with (
        pytest.raises(LockHeld, match=r"for 10 min without finishing; --resume"),
        OutputLock(output, take_over=False),
    ):
        pass
    with OutputLock(output, take_over=True) as mine:
        mine.ticket.check()
        with pytest.raises(LockHeld, match="has taken this output over"):
            dead.ticket.check()
        dead.ticket.release()  # not its own any more
        mine.ticket.check()


def test_a_killed_process_of_this_machine_is_known_at_once(tmp_path: Path) -> None:
    output = str(tmp_path / "scene")
    program = (
        "import os, signal, sys; from patchbeam.lock import OutputLock\n"
        "OutputLock(sys.argv[1], take_over=False).__enter__(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(lock.__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-c", program, output], cwd=root, check=False)
    with pytest.raises(LockHeld, match="has ended without finishing"), OutputLock(output, take_over=False):
        pass
    with OutputLock(output, take_over=True) as mine:
        mine.ticket.check()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("skew", [-86400.0, 86400.0])
def test_clocks_that_are_wrong_change_nothing(
    output: str, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    right = time.time
    dead = OutputLock(output, take_over=False)
    dead.__enter__()
    of_another_machine(dead.ticket.path)
    monkeypatch.setattr(time, "time", lambda: right() + skew)
    assert -1 < age_s(dead.ticket.path) < 60
    with pytest.raises(LockHeld), OutputLock(output, take_over=True):
        pass


def test_age_and_touch(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    os.utime(path, (time.time() - 5000, time.time() - 5000))
    assert age_s(str(path)) == pytest.approx(5000, abs=60)
    touch(str(path))
    assert age_s(str(path)) < 60
    assert os.listdir(tmp_path) == ["file"] and path.read_bytes() == b"x"


def test_renewed_while_it_runs(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "RENEWED_EVERY_S", 0.02)
    touched: list[str] = []
    monkeypatch.setattr(lock, "touch", lambda path: touched.append(path) or touch(path))
    with OutputLock(output, take_over=False) as mine:
        deadline = time.monotonic() + 20
        while len(touched) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert touched[:2] == [mine.ticket.path] * 2
        mine.ticket.check()


def test_of_many_that_see_a_dead_one_exactly_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = str(tmp_path / "scene")
    for _ in range(20):
        dead = OutputLock(output, take_over=False)
        dead.__enter__()
        of_another_machine(dead.ticket.path)
        path = dead.ticket.path
        storage.write_atomic(path, storage.read_bytes(path))
        os.utime(path, (1, 1))
        start, won, lost = threading.Barrier(4), [], []

        def run(start: threading.Barrier = start, won: list = won, lost: list = lost) -> None:
            mine = OutputLock(output, take_over=True)
            start.wait()
            try:
                mine.__enter__()
                won.append(mine)
            except LockHeld as error:
                lost.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1 and len(lost) == 3
        won[0].ticket.check()
        won[0].__exit__(None, None, None)
        assert os.listdir(tmp_path) == []


def test_a_run_that_was_killed_while_it_took_a_lock_over_blocks_nobody(output: str) -> None:
    dead = {"process": 2**22 + 1, "machine": lock._machine(), "born": "1", "started": "then"}
    path = OutputLock(output, take_over=False).ticket.path
    storage.write_atomic(path, json.dumps({**dead, "token": "first"}).encode())
    claims = [f"{path}.{lock._digest(token)}" for token in ("first", "before it")]
    for claim in claims:
        storage.write_atomic(claim, json.dumps({**dead, "token": "second"}).encode())
    with OutputLock(output, take_over=True) as mine:
        mine.ticket.check()
    assert storage.list_names(path) == []
    # one that lives is left to it
    storage.write_atomic(path, json.dumps({**dead, "token": "first"}).encode())
    with OutputLock(f"{output}2", take_over=False) as other:
        storage.write_atomic(claims[0], storage.read_bytes(other.ticket.path))
        with pytest.raises(LockHeld, match="just taking over"), OutputLock(output, take_over=True):
            pass
    assert storage.list_names(path) == sorted([path, claims[0]])
