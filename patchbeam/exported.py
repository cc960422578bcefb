"""The files of an export, found by the prefix of their names: manifest, mixer, shards.

What cannot be used is told as a problem and not raised, so that a check can go on with the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from patchbeam import storage
from patchbeam.elements import Ints
from patchbeam.errors import JobError, ReadFailed
from patchbeam.manifest import Manifest, from_ranges
from patchbeam.mixer import Mixer
from patchbeam.patches import PatchGrid
from patchbeam.records.names import (
    existing_outputs,
    manifest_name,
    mixer_name,
    parse_shards,
)

_SIDECARS = ("-manifest.json", "-mixer.json", "mixer.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is wrong with the files as a set.

    Attributes:
        about: ``manifest``, ``mixer`` or ``shards``.
        file: path of the file, ``None`` when it is about several.
        text: what is wrong.
    """

    about: str
    file: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFiles:
    """The files of one export.

    Attributes:
        prefix: what their names begin with.
        manifest: ``None`` when there is none that can be read.
        manifest_path: where it is, also when it cannot be read; ``None`` when there is none.
        mixer: ``None`` when there is none that can be read.
        mixer_path: where it is, also when it cannot be read; ``None`` when there is none.
        shards: paths in order; with a manifest those that it names, whether or not they are there.
        missing: those of them that are not there.
        others: shards with this prefix that are there and not among ``shards``.
        problems: what is wrong.
    """

    prefix: str
    manifest: Manifest | None
    manifest_path: str | None
    mixer: Mixer | None
    mixer_path: str | None
    shards: tuple[str, ...]
    missing: tuple[str, ...]
    others: tuple[str, ...]
    problems: tuple[Problem, ...]

    def check(self) -> None:
        """Refuses a set with a problem.

        Raises:
            JobError: the first problem.
        """
        for problem in self.problems:
            raise JobError(problem.text)


def find_export(prefix: str) -> ExportFiles:
    """Finds the files of an export; reads its manifest and mixer and nothing else.

    Args:
        prefix: of the export, or the path of its manifest or mixer.

    Raises:
        JobError: no file of an export has this prefix.
        ReadFailed: the folder cannot be listed.
    """
    for ending in _SIDECARS:
        if prefix.endswith(ending) and storage.exists(prefix):
            prefix = prefix.removesuffix(ending)
    names = storage.list_names(prefix)
    problems: list[Problem] = []
    manifest, manifest_path = _manifest(prefix, names, problems)
    mixer, mixer_path = _mixer(prefix, names, problems)
    if manifest is not None:
        folder = storage.split(prefix)[0]
        shards = [storage.join(folder, shard.name) for shard in manifest.shards]
        parts = () if manifest.splits is None else tuple(part.name for part in manifest.splits.parts)
        there = _shards_there(names, prefix, parts)
    else:
        there = _shards_there(names, prefix, ())
        try:
            shards = parse_shards(names, prefix)
        except JobError as error:
            problems.append(Problem(about="shards", file=None, text=str(error)))
            shards = there
    if not shards and manifest_path is None and mixer_path is None:
        raise JobError(_nothing(prefix))
    listed, present = set(shards), set(names)
    return ExportFiles(
        prefix=prefix,
        manifest=manifest,
        manifest_path=manifest_path,
        mixer=mixer,
        mixer_path=mixer_path,
        shards=tuple(shards),
        missing=tuple(path for path in shards if path not in present),
        others=tuple(path for path in there if path not in listed),
        problems=tuple(problems),
    )


def kept_patches(manifest: Manifest) -> Ints:
    """Returns the patch number of each patch that has records, in the order of the records."""
    if manifest.splits is not None:
        return np.concatenate([from_ranges(part.kept_patches or ()) for part in manifest.splits.parts])
    if manifest.kept_patches is not None:
        return from_ranges(manifest.kept_patches)
    return np.arange(manifest.patches.planned, dtype=np.int64)


def mixer_patches(mixer: Mixer) -> PatchGrid:
    """Returns the patch grid of a mixer, which knows of no margin and of no pixels that fill no patch."""
    width, height = mixer.patch_width_height
    return PatchGrid(
        width=mixer.patches_per_row * width,
        height=mixer.rows * height,
        patch_width_height=mixer.patch_width_height,
    )


def _manifest(
    prefix: str, names: Sequence[str], problems: list[Problem]
) -> tuple[Manifest | None, str | None]:
    path = manifest_name(prefix)
    if path not in names:
        return None, None
    try:
        return Manifest.from_text(storage.read_bytes(path), path), path
    except (JobError, ReadFailed) as error:
        problems.append(Problem(about="manifest", file=path, text=str(error)))
        return None, path


def _mixer(prefix: str, names: Sequence[str], problems: list[Problem]) -> tuple[Mixer | None, str | None]:
    places = [mixer_name(prefix, 2), mixer_name(prefix, 2, naming="gcs"), mixer_name(prefix, 1, naming="gcs")]
    found = [path for path in places if path in names]
    if not found:
        return None, None
    if len(found) > 1:
        text = f"{' and '.join(found)} are mixers of one export; remove what is not of it"
        problems.append(Problem(about="mixer", file=None, text=text))
    try:
        return Mixer.from_text(storage.read_bytes(found[0]), found[0]), found[0]
    except (JobError, ReadFailed) as error:
        problems.append(Problem(about="mixer", file=found[0], text=str(error)))
        return None, found[0]


def _shards_there(names: Iterable[str], prefix: str, splits: Sequence[str]) -> list[str]:
    return [
        path
        for path in existing_outputs(names, prefix, splits=splits)
        if path.endswith((".tfrecord", ".tfrecord.gz"))
    ]


def _nothing(prefix: str) -> str:
    text = f"{prefix}: no manifest, mixer or shard has a name that begins so"
    folder = storage.split(prefix)[0]
    if storage.exists(f"{prefix}-import.json"):
        return f"{prefix}: this is a map, not an export; patchbeam look draws it, a GIS opens {prefix}.vrt"
    try:
        names = storage.list_names(storage.join(folder, ""))
    except ReadFailed:
        return text
    known = sorted(
        {name.removesuffix(ending) for name in names for ending in _SIDECARS[:2] if name.endswith(ending)}
    )
    if not known:
        return f"{text}; give what stands before -00000.tfrecord in the names of the shards"
    return f"{text}; the folder has {', '.join(known[:5])}{', …' if len(known) > 5 else ''}"
