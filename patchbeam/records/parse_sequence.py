"""``tf.train.SequenceExample`` read straight into NumPy arrays, as tolerantly as Examples are."""

from __future__ import annotations

from patchbeam.records.crc import Buffer
from patchbeam.records.parse import (
    Spans,
    Values,
    as_view,
    fields,
    scan_feature,
    scan_features,
    take,
    text,
)


def parse_sequence_example(data: Buffer) -> tuple[dict[str, Values], dict[str, list[Values]]]:
    """Reads one serialized SequenceExample.

    Args:
        data: the message, without framing; must not change afterwards.

    Returns:
        The context features, and of each feature list the values of every step, both in wire order.

    Raises:
        CorruptRecord: the bytes are no SequenceExample.
    """
    view = as_view(data)
    context, lists = scan_sequence_example(view)
    return (
        {name: take(view, spans) for name, spans in context.items()},
        {name: [take(view, spans) for spans in steps] for name, steps in lists.items()},
    )


def scan_sequence_example(view: memoryview) -> tuple[dict[str, Spans], dict[str, list[Spans]]]:
    """Returns where the values lie: of each context feature, and of each step of each feature list.

    Raises:
        CorruptRecord: the bytes are no SequenceExample.
    """
    context: dict[str, Spans] = {}
    lists: dict[str, list[Spans]] = {}
    for number, wire_type, start, end in fields(view, 0, len(view)):
        if wire_type != 2:
            continue
        if number == 1:
            scan_features(view, start, end, context)
        elif number == 2:
            _scan_lists(view, start, end, lists)
    return context, lists


def _scan_lists(view: memoryview, start: int, end: int, lists: dict[str, list[Spans]]) -> None:
    for number, wire_type, first, last in fields(view, start, end):
        if number != 1 or wire_type != 2:
            continue
        name = ""
        steps: list[Spans] = []
        for part, part_type, a, b in fields(view, first, last):
            if part == 1 and part_type == 2:
                name = text(view, a, b)
            elif part == 2 and part_type == 2:
                for step, step_type, c, d in fields(view, a, b):
                    if step == 1 and step_type == 2:
                        steps.append(Spans())
                        scan_feature(view, c, d, steps[-1])
        lists[name] = steps
