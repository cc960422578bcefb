"""``write_predictions``: whole or not at all, never over a file by accident, and shapes explained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from patchbeam.data import write_predictions
from patchbeam.data.errors import DataError
from patchbeam.errors import OutputExists
from patchbeam.records.tfrecord import read_records


def test_nothing_is_left_of_predictions_that_fail(tmp_path: Path) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield np.zeros((2, 4, 4))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_predictions(tmp_path / "p.tfrecord.gz", failing(), "water")
    assert not list(tmp_path.iterdir())


def test_a_file_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "p.tfrecord.gz"
    assert write_predictions(path, [np.zeros((2, 4, 4))], "water") == 2

    def untouched() -> Iterator[np.ndarray]:
        raise AssertionError("the model must not run for nothing")
        yield

    with pytest.raises(OutputExists, match="overwrite=True to replace it"):
        write_predictions(path, untouched(), "water")
    assert len(list(read_records(path))) == 2
    assert write_predictions(path, [np.zeros((3, 4, 4))], "water", overwrite=True) == 3
    assert len(list(read_records(path))) == 3


@pytest.mark.parametrize(
    ("shape", "names", "text"),
    [
        (
            (2, 3, 4, 4),
            "water",
            r"\(2, 3, 4, 4\) does not hold 1 channel \(water\); give \(patch, row, col\).*argmax",
        ),
        ((2, 4, 4, 3), ["a", "b", "c"], r"3 channels \(a, b, c\); give \(patch, 3, row, col\).*transpose"),
        ((4, 4), "water", r"one patch alone is batch\[None\]"),
        ((2, 4, 4), ["a", "b"], r"2 channels \(a, b\); give \(patch, 2, row, col\)$"),
    ],
)
def test_a_shape_that_does_not_fit(
    tmp_path: Path, shape: tuple[int, ...], names: list[str] | str, text: str
) -> None:
    with pytest.raises(DataError, match=text):
        write_predictions(tmp_path / "p.tfrecord", [np.zeros(shape)], names)
