"""Inputs that are made by chance from good ones, and the one rule for what may come of them.

A parser answers with a value or with an error of the package's own: never with another exception, never
with a message as long as its input, and within bounds of time and memory.
"""

from __future__ import annotations

import copy
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbeam.errors import PatchbeamError

SLOWEST_S = 8.0
"""Most processor time for one input."""

MEMORY_BYTES = 2 << 30
"""Most address space that a batch of inputs may take beside what the process has."""

LONGEST_MESSAGE = 10_000

Make = Callable[[random.Random], Any]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A parser and where its inputs come from.

    Attributes:
        name: of the test.
        make: makes an input.
        read: gives it to the parser and looks at what comes out.
        long: inputs of ``make test-long``.
        short: inputs of ``make test``.
    """

    name: str
    make: Make
    read: Callable[[Any], Any]
    long: int
    short: int


@dataclass(frozen=True)
class Counts:
    """What became of a batch."""

    inputs: int
    refused: int
    slowest_s: float


def run(target: Target, inputs: int, seed: int) -> Counts:
    """Feeds a target; fails at the first input of which something else came than is allowed."""
    chance = random.Random(f"{target.name} {seed}")
    refused, slowest = 0, 0.0
    with bounded_memory():
        for number in range(inputs):
            data = target.make(chance)
            begin = time.process_time()
            try:
                target.read(data)
            except PatchbeamError as error:
                refused += 1
                said = str(error)
                assert said and len(said) < LONGEST_MESSAGE, (
                    f"input {number}: {len(said)} characters: {said[:300]}"
                )
            except Exception as error:
                shown = repr(data)
                raise AssertionError(
                    f"{target.name}, seed {seed}, input {number}: {type(error).__name__}: "
                    f"{str(error)[:300]}\n{shown[:4000]}"
                ) from error
            took = time.process_time() - begin
            slowest = max(slowest, took)
            assert took < SLOWEST_S, (
                f"{target.name}, seed {seed}, input {number}: {took:.1f} s\n{data!r:.2000}"
            )
    return Counts(inputs, refused, slowest)


@contextmanager
def bounded_memory(more_bytes: int = MEMORY_BYTES) -> Iterator[None]:
    """Where the system can, makes whatever asks for more memory fail at once."""
    if sys.platform != "linux":
        yield
        return
    import resource

    have = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = have + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


_ENDS = [0, 1, 2, 3, 7, 8, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
_ENDS += [1 << 32, 1 << 40, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def damaged(chance: random.Random, good: bytes, others: Sequence[bytes] = ()) -> bytes:
    """Returns bytes with one to a few changes: bits, numbers, pieces taken away, doubled, put in."""
    data = bytearray(good)
    for _ in range(min(8, 1 + int(chance.expovariate(0.7)))):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(9)
        if kind == 0 and data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        elif kind == 1 and data:
            data[at % len(data)] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        elif kind in (2, 3):
            size = chance.choice((1, 2, 4, 8))
            order = "little" if chance.random() < 0.5 else "big"
            value = chance.choice(_ENDS) & ((1 << 8 * size) - 1)
            data[at : at + size] = value.to_bytes(size, order)  # type: ignore[arg-type]
        elif kind == 4:
            del data[at : at + chance.randint(1, 16)]
        elif kind == 5:
            data[at:at] = chance.randbytes(chance.randint(1, 16))
        elif kind == 6:
            data[at:at] = data[at : at + chance.randint(1, 64)]
        elif kind == 7:
            del data[at:]
        elif others:
            other = chance.choice(others)
            data[at:] = other[chance.randrange(len(other) + 1) :]
    return bytes(data)


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


ODD: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    255,
    256,
    -(2**31),
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
]
ODD += [10**400, -(10**400), 0.0, -0.0, 0.5, 1.5, 1e-320, 1e300, -1e300, float("nan"), float("inf")]
ODD += [
    "",
    " ",
    "a",
    "NaN",
    "Infinity",
    "1",
    "-1",
    "é",
    "\0",
    "\ud800",
    "..",
    "../..",
    "/",
    "EPSG:4326",
    "x" * 300,
]
ODD += [
    "float32",
    "uint8",
    "B1",
    "2024-01-01T00:00:00Z",
    "gs://",
    "file:///etc/passwd",
    "/vsicurl/x",
    "{date}",
]
ODD += [
    [],
    {},
    [1],
    [1, 2],
    [[]],
    [None],
    [0, 0],
    [-1, -1],
    [1, 2, 3, 4],
    {"": 1},
    {"type": "Point"},
    _nested(40),
]
ODD += [
    [10**12, 10**12],
    [[0, 10**12]],
    [[0, 2**62], [2**62, 2**62]],
    ["a", "a"],
    [1e308] * 6,
    {"a": {"a": {}}},
]


def changed(chance: random.Random, value: Any) -> Any:
    """Returns a tree of JSON with one to four changes; what is given stays as it is."""
    tree = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        holder, key = _somewhere(chance, tree)
        if holder is None:
            return copy.deepcopy(chance.choice(ODD))
        kind = chance.randrange(10)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[chance.choice(("", "a", "type", str(key).upper(), "extra"))] = copy.deepcopy(
                chance.choice(ODD)
            )
        elif kind == 1:
            holder.insert(key, copy.deepcopy(holder[key]))
        elif kind == 2:
            other, at = _somewhere(chance, tree)
            holder[key] = copy.deepcopy(other[at])  # a value from somewhere else
        elif kind in (3, 4) and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            number = holder[key]
            holder[key] = chance.choice((number + 1, number - 1, -number, number * 2, number * 10**9))
        else:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return tree


def _somewhere(chance: random.Random, tree: Any) -> tuple[Any, Any]:
    """A place in a tree: what holds it, and its key there."""
    holder, key, value = None, None, tree
    while isinstance(value, dict | list) and value:
        if holder is not None and chance.random() < 0.25:
            break
        holder, key = (
            value,
            chance.choice(list(value)) if isinstance(value, dict) else chance.randrange(len(value)),
        )
        value = holder[key]
    return holder, key


def json_text(chance: random.Random, tree: Any) -> bytes:
    """Returns a changed tree as JSON, one time in five with damage to its text too."""
    data = json.dumps(changed(chance, tree)).encode()
    return damaged(chance, data) if chance.random() < 0.2 else data
