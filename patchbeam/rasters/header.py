"""From a path to a checked header; whatever makes a raster unusable is said here, before work starts."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any
from uuid import uuid4
from xml.sax.saxutils import unescape

import numpy as np
import rasterio
import rasterio.shutil
from rasterio.enums import ColorInterp, MaskFlags
from rasterio.errors import CRSError, NotGeoreferencedWarning, RasterioError, RasterioIOError

from patchbeam.errors import SourceError
from patchbeam.rasters.files import RasterFile, size_and_time
from patchbeam.rasters.georeference import crs_of, transform_of
from patchbeam.rasters.lengths import check_length
from patchbeam.rasters.masks import usable_nodata
from patchbeam.rasters.remote import pass_credentials_on, remote_version
from patchbeam.rasters.tiff import MAX_BLOCK_BYTES, TiffFacts, check_tiff

GDAL_OPTIONS: dict[str, Any] = {
    # Sidecars (.msk, .ovr, .aux.xml) are probed for by name: they are found, and a folder of a million
    # files is not listed for each file opened. EMPTY_DIR would hide them and so lose masks.
    "GDAL_DISABLE_READDIR_ON_OPEN": "TRUE",
    "GTIFF_IGNORE_READ_ERRORS": "NO",
}
"""GDAL settings under which every file is opened."""

_TYPES = frozenset(
    ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
)

_PART = re.compile(r"<SourceFilename(?: relativeToVRT=\"([01])\")?[^>]*>([^<]+)</SourceFilename>")


def read_header(path: str, key: str = "sources", *, crs: str | None = None) -> RasterFile:
    """Reads and checks the header of one raster.

    Args:
        path: local path, URL (``gs://``, ``https://``) or GDAL dataset name.
        key: where the job file names it; begins every message.
        crs: used in place of the file's own CRS.

    Returns:
        The header.

    Raises:
        SourceError: the file is missing, not a raster, cut short, of a complex or unknown type, without
            bands, CRS or geotransform, or has blocks too large to decode.
    """
    local = _is_local(path)
    facts: TiffFacts | None = None
    if local:
        if not os.path.exists(path):
            raise SourceError(f"{key}: {path} does not exist; relative paths start at the job file's folder")
        if os.path.isfile(path):
            try:
                facts = check_tiff(path, key)
            except OSError as e:
                raise SourceError(f"{key}: {path} cannot be read: {e.strerror}; check its permissions") from e
    pass_credentials_on(path)
    with rasterio.Env(**GDAL_OPTIONS), warnings.catch_warnings():
        # said as an error below
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        try:
            dataset = rasterio.open(path)
        except (RasterioError, CRSError, UnicodeDecodeError, ValueError, TypeError) as e:
            raise SourceError(_cannot_open(key, path, e)) from e
        with dataset:
            try:
                return _header(dataset, path, key, crs, local, facts)
            except (RasterioError, CRSError) as e:
                raise SourceError(f"{key}: {path}: its header cannot be read: {e}; try gdalinfo on it") from e


def _is_local(path: str) -> bool:
    return (
        "://" not in path and not path.startswith("/vsi") and not re.match(r"^[A-Za-z][A-Za-z0-9_]+:", path)
    )


def _cannot_open(key: str, path: str, error: Exception) -> str:
    text = str(error)
    if "not recognized as" in text:
        return f"{key}: {path} is not a raster that GDAL reads; convert it, or leave it out of the pattern"
    if "No such file" in text or "does not exist" in text:
        return f"{key}: {path} cannot be opened: {text}; check its name and what it refers to"
    return f"{key}: {path} cannot be opened: {text}; gdalinfo on it shows the same, write or fetch it again"


def _check_parts(dataset: Any, path: str, key: str) -> None:
    """Checks the local files that a VRT is made of: GDAL looks at them only when it reads them."""
    if dataset.driver != "VRT" or not _is_local(path):
        return
    text = dataset.tags(ns="xml:VRT").get("xml:VRT", "")
    folder = os.path.dirname(os.path.abspath(path))
    for relative, name in sorted(set(re.findall(_PART, text))):
        part = os.path.join(folder, unescape(name)) if relative == "1" else unescape(name)
        if not _is_local(part):
            continue
        if not os.path.exists(part):
            raise SourceError(
                f"{key}: {path} is made of {part}, which does not exist; put it there or write it anew"
            )
        if os.path.isfile(part):
            check_tiff(part, f"{key}: {path}")


def _header(
    dataset: Any,
    path: str,
    key: str,
    crs: str | None,
    local: bool,
    facts: TiffFacts | None,
) -> RasterFile:
    if dataset.count == 0:
        inside = list(dataset.subdatasets)
        listed = ", ".join(repr(s) for s in inside[:8]) + (", …" if len(inside) > 8 else "")
        advice = f"name one of those inside it: {listed}" if inside else "name a file that holds some"
        raise SourceError(f"{key}: {path} has no bands; {advice}")
    _check_parts(dataset, path, key)
    check_length(dataset, path, key)
    for i, dtype in enumerate(dataset.dtypes, 1):
        _check_type(key, path, i, dtype)
    transform = transform_of(dataset, path, key)
    crs_wkt = crs_of(dataset, path, key, crs)
    blocks = tuple((int(h), int(w)) for h, w in dataset.block_shapes)
    for i, (shape, dtype) in enumerate(zip(blocks, dataset.dtypes, strict=True), 1):
        size = shape[0] * shape[1] * np.dtype(dtype).itemsize
        if size > MAX_BLOCK_BYTES:
            raise SourceError(
                f"{key}: {path}: one block of band {i}, {shape[1]} x {shape[0]} pixels, takes {size} bytes,"
                f" more than {MAX_BLOCK_BYTES}; write it again in small tiles (gdal_translate -co TILED=YES)"
            )
    alpha, raw_nodata = _alpha_and_nodata(dataset, facts)
    usable = [usable_nodata(v, np.dtype(t)) for v, t in zip(raw_nodata, dataset.dtypes, strict=True)]
    structure = dataset.tags(ns="IMAGE_STRUCTURE")
    tags = dataset.tags()
    size_bytes, modified = size_and_time(path) if local else remote_version(path)
    return RasterFile(
        path=path,
        driver=dataset.driver,
        width=dataset.width,
        height=dataset.height,
        crs_wkt=crs_wkt,
        transform=transform,
        dtypes=tuple(dataset.dtypes),
        nodata=tuple(v if ok else None for v, ok in zip(raw_nodata, usable, strict=True)),
        unusable_nodata=tuple(None if ok else v for v, ok in zip(raw_nodata, usable, strict=True)),
        descriptions=tuple(d or None for d in dataset.descriptions),
        alpha=alpha,
        has_mask=tuple(_has_mask(flags) for flags in dataset.mask_flag_enums),
        scales=tuple(float(s) for s in dataset.scales),
        offsets=tuple(float(o) for o in dataset.offsets),
        block_shapes=blocks,
        overviews=tuple(sorted(dataset.overviews(1))),
        compression=structure.get("COMPRESSION"),
        interleave=structure.get("INTERLEAVE", "BAND").lower(),
        date=tags.get("TIFFTAG_DATETIME"),
        size_bytes=size_bytes,
        modified=modified,
        crs_given=crs is not None,
    )


def _check_type(key: str, path: str, band: int, dtype: str) -> None:
    if dtype in _TYPES:
        return
    if "complex" in dtype:
        raise SourceError(
            f"{key}: {path}: band {band} is of type {dtype}; complex numbers are not taken: write real and"
            " imaginary parts, or amplitude and phase, as bands of their own (gdal_calc, or a VRT with"
            " PixelFunctionType real, imag, mod, phase)"
        )
    raise SourceError(
        f"{key}: {path}: band {band} is of type {dtype}; use one of {', '.join(sorted(_TYPES))}"
    )


def _has_mask(flags: list[MaskFlags]) -> bool:
    if MaskFlags.alpha in flags or MaskFlags.all_valid in flags:
        return False
    # NODATA_VALUES (one mask over all bands' nodata) shows as per_dataset with nodata
    return flags != [MaskFlags.nodata]


def _alpha_and_nodata(dataset: Any, facts: TiffFacts | None) -> tuple[int | None, list[float | None]]:
    """Returns the alpha band and each band's nodata as stored.

    rasterio leaves out a nodata that is beyond the type's range, and cannot name the newer colour
    interpretations; the dataset written out as a VRT says both.
    """
    nodata: list[float | None] = list(dataset.nodatavals)
    interps: list[ColorInterp] | None
    try:
        interps = list(dataset.colorinterp)
    except ValueError:
        interps = None
    hidden = None in nodata and (facts is None or facts.nodata_text is not None)
    if interps is not None and not hidden:
        return _first_alpha(interps), nodata
    bands = _vrt_bands(dataset)
    alpha = _first_alpha(interps) if interps is not None else None
    for i, text in enumerate(bands[: dataset.count]):
        if interps is None and alpha is None and "<ColorInterp>Alpha<" in text:
            alpha = i + 1
        found = re.search(r"<NoDataValue[^>]*>([^<]*)<", text)
        if nodata[i] is None and found:
            try:
                nodata[i] = float(found[1])
            except ValueError:
                continue
    return alpha, nodata


def _first_alpha(interps: list[ColorInterp]) -> int | None:
    return interps.index(ColorInterp.alpha) + 1 if ColorInterp.alpha in interps else None


def _vrt_bands(dataset: Any) -> list[str]:
    name = f"/vsimem/{uuid4().hex}.vrt"
    try:
        rasterio.shutil.copy(dataset, name, driver="VRT")
        with rasterio.open(name) as vrt:
            text: str = vrt.tags(ns="xml:VRT").get("xml:VRT", "")
    except (RasterioError, RasterioIOError):
        return []
    finally:
        if rasterio.shutil.exists(name):
            rasterio.shutil.delete(name)
    return re.findall(r"<VRTRasterBand\b.*?</VRTRasterBand>", text, re.DOTALL)
