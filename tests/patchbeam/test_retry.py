"""What is tried again, how often, how patiently, and what is not."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from patchbeam import retry
from patchbeam.errors import EncodeError, ReadFailed, WriteFailed
from patchbeam.retry import Backoff, is_transient, retrying, take_count


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were to be waited; none is."""
    seen: list[float] = []
    monkeypatch.setattr(retry, "sleep", seen.append)
    take_count()
    return seen


def failing(times: int, error: BaseException) -> Callable[[], int]:
    """Work that fails so often and then returns how often it was called."""
    calls = 0

    def work() -> int:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise error
        return calls

    return work


def write_failed(number: int | None) -> WriteFailed:
    failure = WriteFailed("out/scene-00000.tfrecord: cannot write")
    failure.errno = number
    return failure


def test_a_failure_that_passes_is_tried_again_and_counted(waits: list[float]) -> None:
    assert retrying(failing(2, write_failed(errno.EIO))) == 3
    assert waits == [0.1, 0.4]
    assert take_count() == 2
    assert take_count() == 0


def test_waits_grow_up_to_the_longest(waits: list[float]) -> None:
    backoff = Backoff(tries=6, first_wait_s=1, growth=3, longest_wait_s=10)
    retrying(failing(5, ConnectionResetError(errno.ECONNRESET, "reset")), backoff=backoff)
    assert waits == [1, 3, 9, 10, 10]


@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.ENOENT, errno.EROFS, errno.EEXIST]
)
def test_what_does_not_pass_fails_at_once(waits: list[float], number: int) -> None:
    with pytest.raises(WriteFailed) as caught:
        retrying(failing(1, write_failed(number)))
    assert caught.value.errno == number
    assert str(caught.value) == "out/scene-00000.tfrecord: cannot write"
    assert waits == [] and take_count() == 0


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        EncodeError("x"),
        ReadFailed("a value does not fit"),
        OSError("no number"),
        KeyError(1),
    ],
)
def test_errors_without_a_number_are_not_tried_again(waits: list[float], error: Exception) -> None:
    assert not is_transient(error)
    with pytest.raises(type(error)):
        retrying(failing(1, error))
    assert waits == []


def test_connections_need_no_number() -> None:
    assert is_transient(TimeoutError("timed out")) and is_transient(ConnectionError("gone"))


def test_in_the_end_the_error_says_how_often_it_was_tried(waits: list[float]) -> None:
    with pytest.raises(WriteFailed, match=r"cannot write \(tried 4 times\)") as caught:
        retrying(failing(9, write_failed(errno.EIO)))
    assert caught.value.errno == errno.EIO
    assert len(waits) == 3


def test_something_can_be_done_between_two_tries(waits: list[float]) -> None:
    done: list[str] = []
    retrying(failing(2, write_failed(errno.ETIMEDOUT)), between=lambda: done.append("closed"))
    assert done == ["closed", "closed"]


def test_threads_count_together(waits: list[float]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: retrying(failing(3, write_failed(errno.EIO))), range(100)))
    assert take_count() == 300
