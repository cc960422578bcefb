"""Is an export whole, undamaged and what its manifest says?

Everything is looked at, and everything that is wrong is told, with file, record and byte; damaged input is
what this is for, so it raises for none.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from patchbeam.elements import Ints
from patchbeam.errors import PatchbeamError
from patchbeam.exported import ExportFiles, find_export, kept_patches, mixer_patches
from patchbeam.manifest import Manifest
from patchbeam.patch_values import PatchValues
from patchbeam.patches import PatchGrid
from patchbeam.pool import core_count
from patchbeam.records.files import RecordFiles
from patchbeam.verify.files import CheckedFile, check_files
from patchbeam.verify.layout import LayoutCheck, layout_of
from patchbeam.verify.order import check_order
from patchbeam.verify.report import ABOUT, About, Finding, Report
from patchbeam.verify.sidecars import (
    Members,
    check_counts,
    check_index,
    check_manifest,
    check_mixer,
    check_shards,
    describes_records,
    patch_grid,
    read_index,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ABOUT", "Finding", "Report", "verify"]


def verify(prefix: str, *, sources: int = 0, seed: int = 0, threads: int | None = None) -> Report:
    """Checks an export.

    Args:
        prefix: what the names of its files begin with, or the path of its manifest or mixer.
        sources: how many random patches to read again from the sources; needs the manifest.
        seed: of random choices.
        threads: default: all cores.

    Raises:
        JobError: there is no export with this prefix.
    """
    return _Verification(find_export(prefix), sources, seed, threads or core_count()).run()


class _Verification:
    def __init__(self, files: ExportFiles, sources: int, seed: int, threads: int) -> None:
        self.files = files
        self.manifest = files.manifest
        self.sources = sources
        self.seed = seed
        self.threads = threads
        self.checked: dict[About, str] = {}
        self.skipped: dict[About, str] = {}
        self.findings: list[Finding] = []

    def run(self) -> Report:
        self._problems()
        manifest = self.manifest
        if manifest is not None:
            self._note("manifest", _patches_text(manifest), check_manifest(self.files, manifest))
            self._note(
                "mixer", "says of the patches what the manifest says", check_mixer(self.files, manifest)
            )
        index = self._read_index()
        there = [path for path in self.files.shards if path not in self.files.missing]
        layout = self._layout()
        checked = list(
            check_files(there, layout, members=[index.get(path) for path in there], threads=self.threads)
        )
        self._shards(dict(zip(there, checked, strict=True)), layout, index)
        self._again(checked)
        order = {about: position for position, about in enumerate(ABOUT)}
        return Report(
            prefix=self.files.prefix,
            shards=tuple(file.facts for file in checked if file.facts is not None),
            checked={about: self.checked[about] for about in ABOUT if about in self.checked},
            skipped={about: self.skipped[about] for about in ABOUT if about in self.skipped},
            findings=tuple(sorted(self.findings, key=lambda finding: order[finding.about])),
        )

    def _note(self, about: About, text: str, findings: Iterable[Finding] = ()) -> None:
        self.findings += findings
        self.checked[about] = text

    def _problems(self) -> None:
        for problem in self.files.problems:
            about: About = "manifest" if problem.about == "manifest" else "shards"
            about = "mixer" if problem.about == "mixer" else about
            self._note(
                about,
                "",
                [Finding(about=about, file=problem.file, text=_without(problem.text, problem.file))],
            )
        if self.files.manifest_path is None:
            self.skipped["manifest"] = (
                "there is none, so sizes, checksums and bands have nothing to agree with"
            )
        if self.files.mixer_path is None and self.files.manifest is None:
            self.skipped["mixer"] = "there is none"
        elif self.files.mixer_path is not None and self.manifest is None and "mixer" not in self.checked:
            assert self.files.mixer is not None
            self.checked["mixer"] = _of(self.files.mixer.total_patches, "patch")
            try:
                self.files.mixer.grid()
            except PatchbeamError as error:
                self._note("mixer", "", [Finding(about="mixer", file=self.files.mixer_path, text=str(error))])

    def _read_index(self) -> Members:
        if self.manifest is None or self.manifest.index is None:
            return {}
        index, findings = read_index(self.files, self.manifest)
        members = sum(len(table) for table in index.values())
        self._note("index", f"{_of(members, 'gzip member')}, where the index has them", findings)
        return index

    def _sequence(self) -> bool:
        return self.manifest is not None and self.manifest.format_options.sequence_data

    def _layout(self) -> LayoutCheck:
        if self.files.manifest_path is None and self.files.mixer_path is None:
            # a table's features are optional and have lengths of their own: nothing says what is due
            return LayoutCheck(None, sequence=False, anything=True)
        if self.manifest is None:
            return LayoutCheck(None, sequence=False)
        problem = describes_records(self.manifest)
        if problem is not None:
            self._note(
                "manifest", "", [Finding(about="manifest", file=self.files.manifest_path, text=problem)]
            )
            return LayoutCheck(None, sequence=self._sequence())
        return LayoutCheck(layout_of(self.manifest), sequence=self._sequence())

    def _shards(self, checked: dict[str, CheckedFile], layout: LayoutCheck, index: Members) -> None:
        records = sum(file.facts.records for file in checked.values() if file.facts is not None)
        self._note(
            "records",
            f"{_of(records, 'record')}, every length and checksum",
            (f for file in checked.values() for f in file.findings),
        )
        features = layout.expected or ()
        as_due = ", as the manifest says" if self.manifest is not None else ", the same in all"
        if layout.anything:
            self.skipped["layout"] = "a table or records without sidecars: framing and checksums only"
        else:
            self._note("layout", f"{_of(len(features), 'feature')} in each record{as_due}")
        self._note("shards", f"{_of(len(self.files.shards), 'shard')}, none missing")
        if self.manifest is not None:
            self._note("stored", f"size and checksum of {_of(len(checked), 'file')}")
            self.findings += check_shards(self.files, self.manifest, checked)
            if index:
                self.findings += check_index(self.files, self.manifest, index, checked)
            self._not_compared(self.manifest, checked, index)
        elif self.files.mixer is not None and self.files.shards:
            lengths = [(shape.name, shape.length) for shape in features]
            pixels = math.prod(self.files.mixer.patch_width_height)
            sequence = records == self.files.mixer.total_patches * pixels
            files = list(checked.values())
            self.findings += check_counts(self.files.mixer, files, lengths, sequence=sequence)
        elif self.files.mixer is not None:
            self.findings.append(Finding(about="shards", file=self.files.prefix, text="there are no shards"))

    def _not_compared(self, manifest: Manifest, checked: dict[str, CheckedFile], index: Members) -> None:
        """Takes back that all is right with what damaged records leave in the dark or explain."""
        told = {finding.file for finding in self.findings if finding.about == "stored"}
        crcs = {path: shard.crc32c for path, shard in zip(self.files.shards, manifest.shards, strict=True)}
        differ = [
            path
            for path, file in checked.items()
            if path not in told and (file.facts is None or file.facts.crc32c != crcs[path])
        ]
        dark = [path for path in index if path in checked and (checked[path].findings or path in differ)]
        unlike: list[tuple[About, list[str]]] = [("stored", differ), ("index", dark)]
        for about, paths in unlike:
            if paths and about in self.checked:
                del self.checked[about]
                what = "not what the manifest says" if about == "stored" else "not compared"
                self.skipped[about] = f"{_of(len(paths), 'file')} {what}, see the damage below"

    def _again(self, checked: list[CheckedFile]) -> None:
        """What needs records by number, and so a set that is whole."""
        if self.sources and self.manifest is None:
            self.findings.append(
                Finding(about="sources", text="without a manifest the sources are not known")
            )
        wanted: list[About] = (
            ["order", "sources"] if self.sources and self.manifest is not None else ["order"]
        )
        broken = [f for f in self.findings if f.about in ("manifest", "mixer", "shards", "records", "layout")]
        if broken or not checked:
            for about in wanted:
                self.skipped[about] = "not looked at, because of what is wrong above"
            return
        with tempfile.TemporaryDirectory(prefix="patchbeam-verify-") as folder:
            try:
                with RecordFiles.open(
                    self.files.shards, spool_folder=folder, threads=self.threads
                ) as records:
                    self._order(records)
                    if self.sources and self.manifest is not None:
                        count, findings = check_sources(self, records)
                        self._note(
                            "sources", f"{_of(count, 'patch')} read again, the same byte for byte", findings
                        )
            except PatchbeamError as error:
                self.findings.append(Finding(about="shards", text=str(error)))

    def _order(self, records: RecordFiles) -> None:
        patches, kept, why = self._placed(records)
        if patches is None or kept is None:
            self.skipped["order"] = why
            return
        if not len(records):
            self.skipped["order"] = "there are no records"
            return
        try:
            values = self._values(records)
        except PatchbeamError as error:
            self.skipped["order"] = f"not looked at: {error}"
            return
        if not any(values.margin_width_height):
            self.skipped["order"] = "patches have no margin, so neighbours share no pixels to tell by"
            return
        if self.manifest is None:
            across, down = values.margin_width_height
            patches = replace(patches, kernel_width_height=(2 * across, 2 * down))
        count, findings = check_order(records, kept, patches, values, seed=self.seed, threads=self.threads)
        self._note(
            "order", f"{_of(count, 'pair')} of neighbouring patches, the same where they overlap", findings
        )

    def _values(self, records: RecordFiles) -> PatchValues:
        if self.manifest is not None:
            return PatchValues.from_manifest(self.manifest)
        assert self.files.mixer is not None
        return PatchValues.from_record(records[0], self.files.mixer.patch_width_height)

    def _placed(self, records: RecordFiles) -> tuple[PatchGrid | None, Ints | None, str]:
        """The patch grid and the patch of each record, or why there is none."""
        if self._sequence() or (self.files.mixer and len(records) > self.files.mixer.total_patches):
            return None, None, "records hold one pixel each and no margin to tell by"
        if self.manifest is not None:
            patches = patch_grid(self.manifest)
            if patches is None:
                return None, None, "the records lie on no map"
            if self.manifest.splits is not None:
                return None, None, "records are split, so that neighbours are in different sequences"
            return patches, kept_patches(self.manifest), ""
        mixer = self.files.mixer
        if mixer is None:
            return None, None, "there is neither a manifest nor a mixer"
        return mixer_patches(mixer), np.arange(mixer.total_patches), ""


def check_sources(verification: _Verification, records: RecordFiles) -> tuple[int, list[Finding]]:
    """Reads patches again; rasters are imported only here."""
    from patchbeam.verify.sources import check_sources as check

    manifest = verification.manifest
    assert manifest is not None
    return check(
        manifest,
        verification.files.prefix,
        records,
        kept_patches(manifest),
        count=verification.sources,
        seed=verification.seed,
        threads=verification.threads,
    )


def _patches_text(manifest: Manifest) -> str:
    counts = manifest.patches
    dropped = f", {counts.dropped} dropped" if counts.dropped else ""
    return f"{counts.written} of {_of(counts.planned, 'patch')}{dropped}; its parts agree"


def _of(count: int, what: str) -> str:
    plural = "" if count == 1 else "es" if what.endswith("ch") else "s"
    return f"{count} {what}{plural}"


def _without(text: str, file: str | None) -> str:
    """A message without the name of the file that it starts with, which is told apart from it."""
    return text.removeprefix(f"{file}: ") if file else text
