"""Records are counted against the layout before the first tile is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from patchbeam.errors import CorruptRecord, JobError
from patchbeam.mosaic.layout import MapLayout
from patchbeam.mosaic.options import ImportOptions
from patchbeam.mosaic.pixels import pixel_kinds
from patchbeam.mosaic.schema import RecordSchema, resolve_schema
from patchbeam.records.files import RecordFiles
from patchbeam.records.layout import Kind
from patchbeam.records.parse import feature_kinds
from patchbeam.storage import split

_LISTED = 12


def open_schema(files: RecordFiles, layout: MapLayout, options: ImportOptions) -> RecordSchema:
    """Counts the records and reads the form of the first one.

    Raises:
        JobError: there are too many or too few, or the first record does not fit the layout and options.
        CorruptRecord: the first record is damaged.
    """
    per_pixel = check_counts(files, layout)
    data = files[0]
    try:
        found: dict[str, tuple[Kind, int]]
        if per_pixel:
            found = pixel_kinds(data)
        else:
            found = {feature.name: (feature.kind, feature.length) for feature in feature_kinds(data)}
    except CorruptRecord as error:
        raise CorruptRecord(error.what, file=files.files[0].name, record=0, byte=0) from None
    return resolve_schema(found, layout, options, per_pixel=per_pixel)


def check_counts(files: RecordFiles, layout: MapLayout) -> bool:
    """Compares the number of records with the number of patches; returns whether there is one a pixel.

    Raises:
        JobError: they differ; the message gives the total, each file's count, and which file is wrong
            where that can be told.
    """
    expected = layout.kept_count
    width, height = layout.patches.patch_width_height
    total = len(files)
    if total and total == expected * width * height and (layout.per_pixel or width * height > 1):
        return True
    if total == expected and total and not layout.per_pixel:
        return False
    per_pixel = layout.per_pixel or total > expected * width
    due = expected * width * height if per_pixel else expected
    what = f"{expected} patches" + (
        f" of {width} × {height} pixels, one record a pixel," if per_pixel else ""
    )
    difference = f"{total - due} too many" if total > due else f"{due - total} too few"
    names = [split(file.name)[1] for file in files.files]
    listed = ", ".join(f"{name}: {n}" for name, n in list(zip(names, files.counts, strict=True))[:_LISTED])
    more = f" and {len(names) - _LISTED} more files" if len(names) > _LISTED else ""
    raise JobError(
        f"records: {total} records, and {layout.source} says {what} so {due} are due: {difference}"
        f"{_culprit(names, files.counts, layout, due)}. Counts: {listed}{more}. A file may be missing, "
        "written twice or cut short, or these are records of another export: give its mixer or manifest"
    )


def _culprit(names: Sequence[str], counts: Sequence[int], layout: MapLayout, total: int) -> str:
    if len(layout.shards) == len(names):
        due = [records for _, records in layout.shards]
    elif len(names) > 2:
        # all files mostly have one size, but for the last
        common, times = Counter(counts).most_common(1)[0]
        if times < 2:
            return ""
        rest = total - common * (len(names) - 1)
        due = [common] * (len(names) - 1) + [rest if 0 < rest <= common else counts[-1]]
    else:
        return ""
    wrong = [
        f"{name} has {found} where {n} are due"
        for name, found, n in zip(names, counts, due, strict=True)
        if found != n
    ]
    return f"; {', '.join(wrong[:3])}" if wrong else ""
