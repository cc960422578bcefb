"""From scenes to sources: an asset each, headers told by the catalogue or read, all at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from patchbeam.errors import SourceError, nearest
from patchbeam.pool import Pool
from patchbeam.rasters.catalog.filters import time_of
from patchbeam.rasters.catalog.header import assumed_header, band_facts, names_of
from patchbeam.rasters.catalog.item import Item, resolve
from patchbeam.rasters.files import RasterFile
from patchbeam.rasters.header import read_header
from patchbeam.rasters.masks import usable_nodata
from patchbeam.rasters.quality import Quality
from patchbeam.rasters.source import READERS, Source

_SPLIT = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskOptions:
    """A quality band as a job asks for it.

    Attributes:
        band: asset key, or number or description of a band of the source's own files.
        keep: see :class:`patchbeam.rasters.quality.Quality`.
        drop: see there.
        bits: see there.
    """

    band: int | str
    keep: tuple[int, ...] | None = None
    drop: tuple[int, ...] | None = None
    bits: tuple[int, ...] | None = None

    def quality(self, files: Sequence[RasterFile], index: int) -> Quality:
        """Returns the quality band, found in these files."""
        return Quality(
            band=str(self.band), files=files, index=index, keep=self.keep, drop=self.drop, bits=self.bits
        )


def open_items(
    name: str,
    items: Sequence[Item],
    *,
    assets: Sequence[str] | None = None,
    mask: MaskOptions | None = None,
    compose: str = "first",
    nodata: float | None = None,
    unscale: bool = False,
    resampling: str = "nearest",
    crs: str | None = None,
    series: bool = False,
) -> list[Source]:
    """Returns the sources of a catalogue: one for each asset.

    One asset gives a source called as the job calls it, several give ``NAME.ASSET`` each. What the catalogue
    says of nodata, scale and offset takes the place of what the file says.

    Args:
        name: key under ``sources``.
        items: in order.
        assets: their keys; ``None``: the only one that there is.
        mask: the quality band; an asset's key, or a band of the assets themselves.
        compose: see :class:`~patchbeam.rasters.source.Source`; so are the others.
        nodata: takes the place of what files and catalogue say.
        unscale: whether scale and offset are applied.
        resampling: for bands that don't say.
        crs: takes the place of the files' own CRS; all are opened.
        series: whether each item is one observation.

    Raises:
        SourceError: an item lacks an asset, or a file cannot be used.
    """
    key = f"sources.{name}"
    wanted = list(assets) if assets else [_only_asset(items, key)]
    of_asset = mask is not None and isinstance(mask.band, str) and any(mask.band in i.assets for i in items)
    if mask is not None and isinstance(mask.band, str) and not of_asset and not _in_files(items, wanted):
        known = sorted({asset for item in items for asset in item.assets})
        raise SourceError(
            f"{key}.mask.band: {mask.band!r} is not an asset{nearest(mask.band, known)}; the items of"
            f" {items[0].where} have {', '.join(known)}"
        )
    names = [*wanted, *([str(mask.band)] if mask is not None and of_asset else [])]
    jobs = [(item, asset) for asset in dict.fromkeys(names) for item in items]
    # most need no file to be opened, and a thread for each would cost more than the work
    told = [_told(item, asset, key, unscale, crs) for item, asset in jobs]
    asked = [i for i, file in enumerate(told) if isinstance(file, str)]
    with Pool(READERS) as pool:
        found = pool.map(lambda i: _read(jobs[i][0], jobs[i][1], str(told[i]), key, crs), asked)
        opened = dict(zip(asked, found, strict=True))
    headers = [opened[i] if isinstance(file, str) else file for i, file in enumerate(told)]
    by_asset = {
        asset: tuple(headers[i * len(items) : (i + 1) * len(items)])
        for i, asset in enumerate(dict.fromkeys(names))
    }
    times = tuple(time_of(item, key).isoformat() for item in items) if series else None
    sources = []
    for asset in wanted:
        files = by_asset[asset]
        _check_types(files, asset, key)
        if nodata is not None and not usable_nodata(nodata, np.dtype(files[0].dtypes[0])):
            raise SourceError(f"{key}.nodata: {nodata:g} is no number that {files[0].dtypes[0]} holds")
        quality = None
        if mask is not None:
            quality = mask.quality(by_asset[str(mask.band)], 1) if of_asset else own_mask(mask, files, key)
        sources.append(
            Source(
                name=name if len(wanted) == 1 else f"{name}{_SPLIT}{asset}",
                group=None if len(wanted) == 1 else name,
                files=files,
                compose=compose,
                nodata=nodata,
                unscale=unscale,
                resampling=resampling,
                series=series,
                times=times,
                quality=quality,
                catalogue=True,
            )
        )
    return sources


def own_mask(mask: MaskOptions, files: Sequence[RasterFile], key: str) -> Quality:
    """Returns a quality band that is one of the bands of the files themselves.

    Raises:
        SourceError: they have no such band.
    """
    if isinstance(mask.band, int):
        return mask.quality(files, mask.band)
    names = [d or f"B{i}" for i, d in enumerate(files[0].descriptions, 1)]
    if mask.band not in names:
        raise SourceError(
            f"{key}.mask.band: {mask.band!r} is not a band of {files[0].path}{nearest(mask.band, names)}; it"
            f" has {', '.join(names)}"
        )
    return mask.quality(files, names.index(mask.band) + 1)


def _in_files(items: Sequence[Item], wanted: Sequence[str]) -> bool:
    """Whether an asset has several bands, so that a quality band may be one of them."""
    return any(len(band_facts(item.assets[a])) > 1 for item in items for a in wanted if a in item.assets)


def _only_asset(items: Sequence[Item], key: str) -> str:
    known = sorted({asset for item in items for asset in item.assets})
    if len(known) == 1:
        return known[0]
    raise SourceError(
        f"{key}.assets: is missing, and the items of {items[0].where} have {', '.join(known) or 'none'}; name"
        " those that you want"
    )


def _told(item: Item, asset: str, key: str, unscale: bool, crs: str | None) -> RasterFile | str:
    """Returns the header of an asset as the item tells it, else the path of its file."""
    what = f"{key}: {item.where}: item {item.id!r}"
    if asset not in item.assets:
        raise SourceError(
            f"{what} has no asset {asset!r}{nearest(asset, item.assets)}; it has"
            f" {', '.join(item.assets) or 'none'}. Leave the item out with filter:, or name another asset"
        )
    told = item.assets[asset]
    path = resolve(str(told.get("href") or ""), item.where, item.root, f"{what}, asset {asset!r}")
    header = assumed_header(item, asset, path, scales=unscale) if crs is None else None
    return path if header is None else header


def _read(item: Item, asset: str, path: str, key: str, crs: str | None) -> RasterFile:
    """Returns the header of an asset's file, with what the item says of nodata, scale and offset."""
    told = item.assets[asset]
    file = read_header(path, f"{key}: item {item.id!r}, asset {asset!r}", crs=crs)
    facts = band_facts(told)
    if len(facts) != file.count:
        facts = facts * file.count if len(facts) == 1 else [{}] * file.count
    nodata = [
        own if f.get("nodata") is None or not usable_nodata(f["nodata"], np.dtype(t)) else f["nodata"]
        for f, own, t in zip(facts, file.nodata, file.dtypes, strict=True)
    ]
    scaled = any(f.get("scale") is not None or f.get("offset") is not None for f in facts)
    named = names_of(asset, file.count)
    return replace(
        file,
        nodata=tuple(nodata),
        scales=tuple(1.0 if f["scale"] is None else f["scale"] for f in facts) if scaled else file.scales,
        offsets=tuple(0.0 if f["offset"] is None else f["offset"] for f in facts) if scaled else file.offsets,
        scaled=scaled,
        descriptions=tuple(
            d or n if file.count > 1 else n for d, n in zip(file.descriptions, named, strict=True)
        ),
    )


def _check_types(files: Sequence[RasterFile], asset: str, key: str) -> None:
    """Refuses scenes whose bands are of several types or numbers: they are not of one product."""
    first = files[0]
    for file in files:
        if file.dtypes != first.dtypes:
            raise SourceError(
                f"{key}: asset {asset!r} is of type {', '.join(first.dtypes)} in {first.path} and of type"
                f" {', '.join(file.dtypes)} in {file.path}; give scenes of one kind, or two sources"
            )
