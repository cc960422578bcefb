"""What record files hold: features, types, lengths, counts, how they are compressed.

Works on any TFRecord file of Examples or SequenceExamples. Shapes are known where the manifest of the
export, or its mixer, lies beside the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from patchbeam import storage
from patchbeam.errors import JobError
from patchbeam.exported import find_export
from patchbeam.records.gzip import member_size, sniff
from patchbeam.records.layout import FRAME_BYTES, Kind
from patchbeam.records.parse import feature_kinds, fields
from patchbeam.records.parse_sequence import parse_sequence_example
from patchbeam.records.tfrecord import read_records
from patchbeam.sidecars import find_sidecar
from patchbeam.spec import DTYPES, FeatureSpec, RecordSpec, feature_spec

Form = Literal["plain", "gzip, indexed members", "gzip"]

LOOKED_AT = 1000
"""Records of a file that are parsed for their features; all are counted and checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFeature:
    """One feature as it stands in the records that were looked at.

    Attributes:
        name: its key.
        kind: which list holds its numbers.
        steps: fewest and most steps of a feature list; ``None`` for a feature of an Example or a context.
        length: fewest and most numbers, in each step of a feature list; of ``bytes``, bytes.
        missing: records looked at that do not have it.
    """

    name: str
    kind: Kind
    steps: tuple[int, int] | None
    length: tuple[int, int]
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What one file holds.

    Attributes:
        path: the file.
        form: whether and how it is compressed.
        records: number of records, every CRC right.
        looked_at: how many of them were parsed, from the first.
        sequence: whether they are SequenceExamples; one without feature lists looks like an Example, and
            then only a manifest tells.
        features: in wire order.
        size_bytes: uncompressed size.
        stored_bytes: size of the file.
        sidecar: name of the manifest or mixer beside it, or ``None``.
        spec: how the records are parsed; ``None`` when there is no record to tell from.
    """

    path: str
    form: Form
    records: int
    looked_at: int
    sequence: bool
    features: tuple[FoundFeature, ...]
    size_bytes: int
    stored_bytes: int
    sidecar: str | None
    spec: RecordSpec | None

    def to_json(self) -> dict[str, Any]:
        """Returns it as plain values, keys in camelCase."""
        return {
            "path": self.path,
            "form": self.form,
            "records": self.records,
            "lookedAt": self.looked_at,
            "record": "SequenceExample" if self.sequence else "Example",
            "features": [
                {
                    "name": found.name,
                    "kind": found.kind,
                    "steps": None if found.steps is None else list(found.steps),
                    "length": list(found.length),
                    "missing": found.missing,
                    "shape": _shape_of(self.spec, found.name),
                }
                for found in self.features
            ],
            "uncompressedBytes": self.size_bytes,
            "storedBytes": self.stored_bytes,
            "sidecar": self.sidecar,
            "spec": None if self.spec is None else self.spec.to_json(),
        }


def record_files(given: Sequence[str]) -> list[str]:
    """Returns record files, and in place of a prefix the shards of its export.

    Raises:
        JobError: no file of an export has such a prefix, or it has no shards.
    """
    found: list[str] = []
    for entry in given:
        if storage.exists(entry) or entry.endswith((".tfrecord", ".tfrecords", ".gz")):
            found.append(entry)
            continue
        shards = find_export(entry).shards
        if not shards:
            raise JobError(f"{entry}: the export has no shards to look into")
        found.extend(shards)
    return found


def inspect_file(path: str, *, look_at: int = LOOKED_AT) -> Inspection:
    """Reads a whole record file and says what it holds.

    Args:
        path: local or ``gs://``.
        look_at: records whose features are parsed; the others are counted and their CRCs checked.

    Raises:
        JobError: there is no such file.
        ReadFailed: the file cannot be read.
        CorruptRecord: it is damaged, or no TFRecord file.
    """
    if not storage.exists(path):
        raise JobError(
            f"{path}: there is no such file; give record files, such as out/scene-00000.tfrecord.gz"
        )
    manifest, mixer, sidecar = find_sidecar(path)
    stored = storage.stat(path).size_bytes
    first: list[bytes] = []
    records = size = 0
    with storage.open_read(path) as file:
        head = file.read(64)
        file.seek(0)
        for record in read_records(file, name=path):
            records += 1
            size += len(record) + FRAME_BYTES
            if len(first) < look_at:
                first.append(bytes(record))
    form: Form = "plain"
    if sniff(head[:12]) == "gzip":  # what is neither has been refused by name
        form = "gzip" if member_size(head) is None else "gzip, indexed members"
    sequence = any(_has_lists(record) for record in first)
    if manifest is not None:
        sequence = manifest.format_options.sequence_data
    found = _sequence_features(first) if sequence else _example_features(first)
    spec: RecordSpec | None = None
    if manifest is not None:
        spec = feature_spec(manifest)
    elif found:
        spec = _guessed(found, sequence, None if mixer is None else mixer.patch_width_height)
    return Inspection(
        path=path,
        form=form,
        records=records,
        looked_at=len(first),
        sequence=sequence,
        features=tuple(found),
        size_bytes=size,
        stored_bytes=stored,
        sidecar=sidecar,
        spec=spec,
    )


def common_spec(inspections: Sequence[Inspection]) -> RecordSpec:
    """Returns the one spec by which the records of all files are parsed.

    Raises:
        JobError: no file has a record, or files differ; names two of them.
    """
    known = [(one.path, one.spec) for one in inspections if one.spec is not None]
    if not known:
        raise JobError(
            f"{', '.join(one.path for one in inspections)}: no record, hence nothing to parse; "
            "give a file that holds records"
        )
    first_path, first = known[0]
    for path, spec in known[1:]:
        if spec != first:
            raise JobError(f"{path}: records are not like those of {first_path}; give files of one export")
    return first


def _has_lists(record: bytes) -> bool:
    return any(number == 2 for number, _, _, _ in fields(memoryview(record), 0, len(record)))


class _Seen:
    """What is known of one feature so far."""

    def __init__(self, kind: Kind | None) -> None:
        self.kind = kind
        self.lengths: list[int] = []
        self.steps: list[int] = []
        self.records = 0


def _example_features(records: Iterable[bytes]) -> list[FoundFeature]:
    seen: dict[str, _Seen] = {}
    count = 0
    for record in records:
        count += 1
        for feature in feature_kinds(record):
            one = seen.setdefault(feature.name, _Seen(feature.kind))
            one.records += 1
            one.lengths.append(feature.length)
    return _found(seen, count, lists=False)


def _sequence_features(records: Iterable[bytes]) -> list[FoundFeature]:
    context: dict[str, _Seen] = {}
    lists: dict[str, _Seen] = {}
    count = 0
    for record in records:
        count += 1
        scalars, steps = parse_sequence_example(record)
        for name, values in scalars.items():
            one = context.setdefault(name, _Seen(_kind(values)))
            one.records += 1
            one.lengths.append(_length(values))
        for name, items in steps.items():
            one = lists.setdefault(name, _Seen(None))
            one.records += 1
            one.steps.append(len(items))
            one.lengths.extend(map(_length, items))
            one.kind = one.kind or next((_kind(values) for values in items), None)
    return _found(context, count, lists=False) + _found(lists, count, lists=True)


def _found(seen: dict[str, _Seen], records: int, *, lists: bool) -> list[FoundFeature]:
    return [
        FoundFeature(
            name=name,
            kind=one.kind or "float",
            steps=(min(one.steps), max(one.steps)) if lists else None,
            length=(min(one.lengths, default=0), max(one.lengths, default=0)),
            missing=records - one.records,
        )
        for name, one in seen.items()
    ]


def _kind(values: Any) -> Kind | None:
    if values is None:
        return None
    if isinstance(values, list):
        return "bytes"
    return "float" if values.dtype.kind == "f" else "int64"


def _length(values: Any) -> int:
    if values is None:
        return 0
    return sum(map(len, values)) if isinstance(values, list) else len(values)


def _guessed(found: Iterable[FoundFeature], sequence: bool, patch: tuple[int, int] | None) -> RecordSpec:
    """Returns a spec from the records themselves; shapes are flat unless the mixer's patch size says more."""
    context: list[FeatureSpec] = []
    lists: list[FeatureSpec] = []
    for feature in found:
        parsed: tuple[int, ...]
        shape: tuple[int | None, ...]
        least, most = feature.length
        if feature.steps is not None:
            numbers = (most,) if most > 1 else ()
            parsed, shape = numbers, (None, *numbers)
        elif sequence and most == 1:
            parsed, shape = (), ()
        elif patch is not None and least == most == patch[0] * patch[1]:
            parsed = shape = (patch[1], patch[0])
        else:
            parsed = shape = (most,)
        raw = feature.kind == "bytes"
        spec = FeatureSpec(
            name=feature.name,
            parser="FixedLenFeature" if feature.steps is None else "FixedLenSequenceFeature",
            parsed_shape=() if raw else parsed,
            dtype=DTYPES[feature.kind],
            shape=shape,
            channels=(feature.name,),
        )
        (context if feature.steps is None else lists).append(spec)
    return RecordSpec(sequence=sequence, context=tuple(context), lists=tuple(lists))


def _shape_of(spec: RecordSpec | None, name: str) -> list[int | None] | None:
    known = {} if spec is None else {feature.name: list(feature.shape) for feature in spec.features}
    return known.get(name)
