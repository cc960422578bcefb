"""Random patches made again from the sources and compared with the records, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from patchbeam.elements import Ints, Mask, PixelBlock
from patchbeam.encode import BlockEncoder
from patchbeam.errors import JobError, PatchbeamError
from patchbeam.export import BlockReader, block_encoder
from patchbeam.manifest import Manifest
from patchbeam.patch_values import PatchValues
from patchbeam.pixels import default_for
from patchbeam.plan import ExportPlan
from patchbeam.pool import Pool
from patchbeam.records.files import RecordFiles
from patchbeam.records.tfrecord import record_offsets
from patchbeam.source_entries import every_file, read_band, read_sources
from patchbeam.verify.report import Finding


def check_sources(
    manifest: Manifest, prefix: str, records: RecordFiles, kept: Ints, *, count: int, seed: int, threads: int
) -> tuple[int, list[Finding]]:
    """Reads random patches again.

    Args:
        manifest: of the export; it names the sources.
        prefix: of the export.
        records: all of them.
        kept: patch number of each patch that has records, in the order of the records.
        count: how many patches.
        seed: of the choice.
        threads: that read a patch.

    Returns:
        How many patches were compared, and what is wrong.
    """
    try:
        plan = replan(manifest, prefix)
        changed = list(_changed(manifest, plan))
    except PatchbeamError as error:
        return 0, [Finding(about="sources", text=f"the sources cannot be used: {error}")]
    known = np.flatnonzero(_read_whole(manifest, plan, kept))
    chosen = np.random.default_rng(seed).choice(known, min(count, len(known)), replace=False)
    values = PatchValues.from_manifest(manifest)
    findings = []
    reader = BlockReader(plan, threads=threads)
    with Pool(1) as pool:
        encoder = block_encoder(plan, pool)
        for position in sorted(chosen.tolist()):
            patch = int(kept[position])
            try:
                pixels = reader.read(patch)  # a block is a patch
                found = _compare(plan, encoder, pixels, records, position, patch, values, bool(manifest.clip))
            except PatchbeamError as error:
                found = Finding(about="sources", patch=patch, text=str(error))
            if found is not None:
                findings.append(found)
    reader.close()
    # a file that has only been touched is no finding: its pixels are what counts
    return len(chosen), [*changed, *findings] if findings else []


def _read_whole(manifest: Manifest, plan: ExportPlan, kept: Ints) -> Mask:
    """Returns which kept patches were made of all sources; a source that failed was masked in the others."""
    whole = np.ones(len(kept), bool)
    rows, cols = np.divmod(kept, plan.patches.columns)
    width, height = plan.patches.patch_width_height
    right, below = plan.patches.margin_width_height
    for entry in manifest.sources:
        for file in every_file(entry):
            for column, row, columns, high in file.masked_windows or ():
                beside = ((cols + 1) * width + right <= column) | (cols * width - right >= column + columns)
                apart = ((rows + 1) * height + below <= row) | (rows * height - below >= row + high)
                whole &= beside | apart
    return whole


def replan(manifest: Manifest, prefix: str) -> ExportPlan:
    """Returns the plan of an export, as its manifest tells it, reading one patch at a time.

    Raises:
        JobError: it lies on no map, or a source cannot be used.
    """
    if manifest.grid is None:
        raise JobError("the manifest has no grid")
    grid = manifest.grid.geobox()
    bands = [band for band in manifest.bands if band.name != manifest.mask_band]
    return ExportPlan(
        grid=grid,
        sources=read_sources(manifest, grid),
        bands=tuple(read_band(band, sequence=manifest.format_options.sequence_data) for band in bands),
        options=manifest.format_options,
        output=prefix,
        edge=manifest.edge,
        numbers=manifest.numbers,
        gzip=manifest.gzip or "indexed",
        naming=manifest.naming,
        mask_band=manifest.mask_band,
        block_bytes=1,
        fill=frozenset(s.name for s in manifest.sources if s.masked_observations == "fill"),
    )


def _changed(manifest: Manifest, plan: ExportPlan) -> Iterator[Finding]:
    for entry, source in zip(manifest.sources, plan.sources, strict=True):
        for was, file in zip(entry.files, source.files, strict=True):
            for what, then, now in (
                ("bytes", was.size_bytes, file.size_bytes),
                ("modified", was.modified, file.modified),
            ):
                if then is not None and now is not None and then != now:
                    text = f"the source has changed since the export ({what}: {now}, was {then})"
                    yield Finding(about="sources", file=file.path, text=text)
                    break


def _compare(
    plan: ExportPlan,
    encoder: BlockEncoder,
    pixels: PixelBlock,
    records: RecordFiles,
    position: int,
    patch: int,
    values: PatchValues,
    clipped: bool,
) -> Finding | None:
    """Encodes a patch and compares it with its records."""
    first = position * plan.records_per_patch
    number, at = records.locate(first)

    def wrong(text: str, record: int = 0) -> Finding:
        name = records.files[number].name
        return Finding(about="sources", file=name, record=at + record, patch=patch, text=text)

    (run,) = encoder.runs(pixels)
    if run.records != plan.records_per_patch:
        return wrong(
            f"more than formatOptions.maskedThreshold = {plan.options.masked_threshold:g} of it is masked in "
            "the sources, so it should have been dropped"
        )
    offsets = record_offsets(run.data)
    made = memoryview(run.data.data).cast("B")
    stored = records.read_range(first, plan.records_per_patch)
    for i, (start, end, found) in enumerate(zip(offsets[:-1], offsets[1:], stored, strict=True)):
        due = made[int(start) + 12 : int(end) - 4]
        if found == due:
            continue
        if plan.options.sequence_data:
            row, col = divmod(i, plan.options.patch_width_height[0])
            return wrong(f"the record of pixel (row {row}, column {col}) is not what the sources give", i)
        text = _difference(found, due, values, plan, clipped)
        if text is not None:
            return wrong(text)
    return None


def _difference(
    found: memoryview, due: memoryview, values: PatchValues, plan: ExportPlan, clipped: bool
) -> str | None:
    """Where the pixels of two records differ; with ``clip`` what was masked is not known and may differ."""
    decoder = values.decoder()
    allowed = dict(zip((band.name for band in plan.record_bands), plan.defaults, strict=True))
    types = {band.name: np.dtype(band.type) for band in plan.record_bands}
    for name, have, want in zip(
        values.bands, decoder.decode(iter([found])), decoder.decode(iter([due])), strict=True
    ):
        differ = have != want
        if have.dtype.kind == "f":
            differ &= ~(np.isnan(have) & np.isnan(want))
        if clipped:
            band = name if name in allowed else name.rpartition("[")[0]
            default = default_for(types[band], allowed[band])
            differ &= ~(np.isnan(have) if default != default else have == default)
        if differ.any():
            row, col = (int(n) for n in np.argwhere(differ)[0])
            return (
                f"band {name!r}: {int(differ.sum())} of {differ.size} pixels are not what the sources give; "
                f"the first is row {row}, column {col} of the stored patch: {have[row, col]}, from the "
                f"sources {want[row, col]}"
            )
    return None if clipped else "has other bytes than the sources give, though all pixels are the same"
