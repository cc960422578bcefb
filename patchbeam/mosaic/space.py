"""The disk space that an import needs at the least, from what is known before a record is decoded."""

from __future__ import annotations

import numpy as np

from patchbeam import storage
from patchbeam.errors import CorruptRecord
from patchbeam.mosaic.plan import ImportPlan
from patchbeam.records.gzip import HEADER_BYTES, member_size, sniff
from patchbeam.retry import retrying

_SHRINK = 1000
"""How far compression may shrink a map at the most: deflate gets little further (258 bytes in two bits)."""


def least_space(plan: ImportPlan) -> int:
    """Returns the bytes that tiles and inflated record files take at the least.

    Bands and types are known where the job or the manifest tells them; else one byte a pixel is supposed.
    """
    width, height = plan.layout.width_height
    options = plan.options
    known = {band.name: band.type for band in plan.layout.bands}
    names = options.bands or tuple(known) or ("",)
    if options.takes_argmax:
        pixel = np.dtype(options.type or "uint8").itemsize
    else:
        pixel = sum(np.dtype(options.type or known.get(name, "uint8")).itemsize for name in names)
    shrunk = width * height * pixel // (1 if options.compress == "none" else _SHRINK)
    return shrunk + _spooled(plan)


def _spooled(plan: ImportPlan) -> int:
    """Stored bytes of the local record files that have to be inflated to a copy before they can be sought."""
    total = 0
    members = plan.members or (None,) * len(plan.records)
    for path, of in zip(plan.records, members, strict=True):
        if of is None and not storage.is_remote(path):
            head = retrying(lambda path=path: storage.read_bytes(path, 0, HEADER_BYTES))  # type: ignore[misc]
            try:
                if sniff(head[:12]) == "gzip" and member_size(head) is None:
                    total += storage.stat(path).size_bytes
            except CorruptRecord:
                continue  # who reads it says where
    return total
