"""How far a job is, how fast it goes and how long it will take: from what has been counted, and a clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchbeam.counts import Done
from patchbeam.sizes import size_text

Counted = Callable[[], Mapping[str, Done]]
"""Tells how far each stage is that has begun."""

WINDOW_S = 30.0
"""Seconds over which the pace is measured: long enough to be steady, short enough to follow changes."""

_LEAST_S = 1e-3  # of less, nothing is said


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A stretch of a job whose progress is counted.

    Attributes:
        name: as it is counted, for instance ``patches``.
        total: units in all; ``None`` where that is not known before.
        label: of the units, for people; the name where it is empty.
        in_bytes: whether units are bytes.
    """

    name: str
    total: int | None
    label: str = ""
    in_bytes: bool = False

    @property
    def text(self) -> str:
        """Of the units."""
        return self.label or self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What can be said of a running job.

    Attributes:
        stage: the stage it is in.
        done: units of it that are done, never more than there are.
        elapsed_s: seconds since the job began.
        bytes_per_s: payload; ``None`` when there is none to speak of.
        left_s: seconds that the stage will still take; ``None`` when that is not known.
    """

    stage: Stage
    done: int
    elapsed_s: float
    bytes_per_s: float | None = None
    left_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the stage is done."""
        return self.stage.total is not None and self.done >= self.stage.total

    def text(self) -> str:
        """Returns it as one line."""
        total, count = self.stage.total, size_text if self.stage.in_bytes else _count_text
        if total is None:
            parts = [f"{count(self.done)} {self.stage.text}"]
        else:
            share = f" ({100 * self.done // total} %)" if total else ""
            parts = [f"{count(self.done)} of {count(total)} {self.stage.text}{share}"]
        if self.bytes_per_s is not None:
            parts.append(f"{self.bytes_per_s / 1e6:.3g} MB/s")
        if self.left_s is not None:
            parts.append(f"{clock_text(self.left_s)} left")
        else:
            parts.append(
                f"finishing, {clock_text(self.elapsed_s)} so far" if self.is_over else self._so_far()
            )
        return ", ".join(parts)

    def _so_far(self) -> str:
        return f"{clock_text(self.elapsed_s)} so far"


class Pace:
    """Watches counts over time.

    Args:
        stages: of the job, in order.
        now_s: when the job began.
    """

    def __init__(self, stages: Sequence[Stage], now_s: float) -> None:
        self._stages = tuple(stages)
        self._begun = now_s
        self._current = self._stages[0]
        # when, units done in this run, their bytes: the oldest is just out of the window
        self._seen: deque[tuple[float, int, int]] = deque([(now_s, 0, 0)])

    def look(self, counted: Mapping[str, Done], now_s: float) -> Sight:
        """Returns what can be said now.

        Args:
            counted: how far each stage is.
            now_s: the time, of a clock that only goes forward.
        """
        begun = [stage for stage in self._stages if stage.name in counted]
        stage = begun[-1] if begun else self._current
        if stage is not self._current:
            self._current = stage
            last = self._seen[-1][0]
            self._seen = deque([(last, 0, 0)])
        done = counted.get(stage.name, Done())
        own = done.units - done.skipped
        self._seen.append((now_s, own, done.size_bytes))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        since, units, size = self._seen[0]
        span = now_s - since
        pace = (own - units) / span if span > _LEAST_S else 0.0
        flow = (done.size_bytes - size) / span if span > _LEAST_S else 0.0
        reached = done.units if stage.total is None else min(done.units, stage.total)
        left = None
        if stage.total is not None and pace > 0 and reached < stage.total:
            left = (stage.total - reached) / pace
        return Sight(
            stage=stage,
            done=reached,
            elapsed_s=now_s - self._begun,
            bytes_per_s=flow if flow > 0 else None,
            left_s=left,
        )


def _count_text(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def clock_text(seconds: float) -> str:
    """Returns a time as ``0:42``, ``12:05`` or ``3:07:00``."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
