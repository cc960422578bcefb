"""What is said of a running job, by a clock that the test turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchbeam.counts import Done
from pipelines.pace import WINDOW_S, Pace, Stage, clock_text

PATCHES = Stage(name="patches", total=1000)
SHARDS = Stage(name="shards", total=None)


def test_a_job_from_its_beginning_to_its_end() -> None:
    pace = Pace([PATCHES, SHARDS], 100.0)
    assert pace.look({}, 100.0).text() == "0 of 1 000 patches (0 %), 0:00 so far"
    assert pace.look({}, 101.0).text() == "0 of 1 000 patches (0 %), 0:01 so far"
    counted = {"patches": Done(100, 50_000_000)}
    assert pace.look(counted, 102.0).text() == "100 of 1 000 patches (10 %), 25 MB/s, 0:18 left"
    counted = {"patches": Done(1000, 500_000_000)}
    assert pace.look(counted, 120.0).text() == (
        "1 000 of 1 000 patches (100 %), 25 MB/s, finishing, 0:20 so far"
    )
    counted |= {"shards": Done(2, 60_000_000)}
    assert pace.look(counted, 122.0).text() == "2 shards, 30 MB/s, 0:22 so far"


def test_the_pace_follows_the_last_seconds() -> None:
    pace = Pace([Stage(name="tiles", total=10_000)], 0.0)
    for second in range(1, 101):  # ten a second, then one
        units = 10 * min(second, 50) + max(0, second - 50)
        sight = pace.look({"tiles": Done(units)}, float(second))
    assert sight.left_s == (10_000 - 550) / 1.0
    assert sight.bytes_per_s is None and WINDOW_S < 50


def test_what_was_finished_before_says_nothing_of_the_pace() -> None:
    pace = Pace([PATCHES], 0.0)
    sight = pace.look({"patches": Done(910, 10, 900)}, 1.0)
    assert sight.done == 910 and sight.left_s == 9.0


def test_repeated_work_is_not_more_than_all() -> None:
    sight = Pace([PATCHES], 0.0).look({"patches": Done(1100)}, 1.0)
    assert sight.done == 1000 and sight.is_over and sight.left_s is None


def test_nothing_to_do() -> None:
    assert Pace([Stage(name="x", total=0, label="things")], 0.0).look({}, 3.0).text() == (
        "0 of 0 things, finishing, 0:03 so far"
    )


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 1e4)), max_size=30))
def test_any_counts_at_any_time(steps: list[tuple[int, float]]) -> None:
    pace, units, now = Pace([PATCHES, SHARDS], 0.0), 0, 0.0
    for more, wait in steps:
        units, now = units + more, now + wait
        sight = pace.look({"patches": Done(units, 7 * units)} if units else {}, now)
        assert 0 <= sight.done <= 1000 and (sight.left_s is None or sight.left_s > 0)
        assert sight.text()


def test_bytes_are_read_as_sizes() -> None:
    pace = Pace([Stage(name="compressed", total=400 << 20, in_bytes=True)], 0.0)
    text = pace.look({"compressed": Done(100 << 20, 100 << 20)}, 10.0).text()
    assert text == "100.0 MiB of 400.0 MiB compressed (25 %), 10.5 MB/s, 0:30 left"


def test_times() -> None:
    assert [clock_text(s) for s in (0, 59.6, 3599, 3600, 90_061)] == [
        "0:00",
        "1:00",
        "59:59",
        "1:00:00",
        "25:01:01",
    ]
