"""Classes of a class map: values with the names and colours that its file gives them.

Colours come from the colour table. Names come from band tags ``CLASS_1=water``, from GDAL's category names
or from a raster attribute table, the last two as GDAL writes them: in a ``.aux.xml`` beside the file or in
the text of a VRT.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from typing import Any

import rasterio
from rasterio.errors import RasterioError

from patchbeam.manifest import ManifestClass
from patchbeam.rasters.header import GDAL_OPTIONS

MOST_CLASSES = 1024
"""A table with more entries is a scale of colours, not a list of classes."""

_TYPES = ("uint8", "uint16")
_TAG = re.compile(r"CLASS_(\d{1,5})", re.IGNORECASE)
_MOST_XML_BYTES = 8 << 20
_NAME_USAGE, _VALUE_USAGES = 2, (5, 3)  # GFU_Name, GFU_MinMax, GFU_Min


def read_classes(path: str, index: int, nodata: float | None = None) -> tuple[ManifestClass, ...] | None:
    """Returns the classes of a band in rising order of value, or ``None`` when it is no class map.

    A class map is a uint8 or uint16 band with a colour table or with names for its values. A file that
    cannot be read has no classes: they are for display, and what cannot be read is reported elsewhere.

    Args:
        path: of the raster.
        index: number of the band, from 1.
        nodata: the value that is no class.
    """
    try:
        with rasterio.Env(**GDAL_OPTIONS), rasterio.open(path) as file:
            if file.dtypes[index - 1] not in _TYPES:
                return None
            colours = _colours(file, index)
            names = _described(_documents(file, path), index) | _tagged(file.tags(index))
    except (RasterioError, OSError, ValueError, IndexError):
        return None
    # of the 256 entries of a palette most are black because nobody has set them
    shown = {value for value, (*rgb, alpha) in colours.items() if alpha and any(rgb)}
    hidden = {value for value, (*_, alpha) in colours.items() if not alpha}
    values = sorted((shown | names.keys()) - hidden - ({nodata} if nodata is not None else set()))
    if not values or len(values) > MOST_CLASSES:
        return None
    return tuple(
        ManifestClass(value=value, name=names.get(value), colour=_hex(colours.get(value))) for value in values
    )


def _colours(file: Any, index: int) -> dict[int, tuple[int, int, int, int]]:
    try:
        table: dict[int, tuple[int, int, int, int]] = file.colormap(index)
    except ValueError:  # there is none
        return {}
    return table


def _hex(colour: tuple[int, int, int, int] | None) -> str | None:
    return None if colour is None else "#{:02x}{:02x}{:02x}".format(*colour[:3])


def _tagged(tags: dict[str, str]) -> dict[int, str]:
    found = ((_TAG.fullmatch(key), name) for key, name in tags.items())
    return {int(match[1]): name for match, name in found if match and name}


def _documents(file: Any, path: str) -> list[ET.Element]:
    """The XML texts that may describe the file's bands; what is no XML is passed over."""
    texts = [text for text in (file.tags(ns="xml:VRT").get("xml:VRT"),) if text]
    beside = f"{path}.aux.xml"
    if os.path.isfile(beside) and os.path.getsize(beside) <= _MOST_XML_BYTES:
        with open(beside, encoding="utf-8", errors="replace") as stream:
            texts.append(stream.read())
    documents = []
    for text in texts:
        if "<!DOCTYPE" in text:  # entities could grow without bound
            continue
        try:
            documents.append(ET.fromstring(text))
        except ET.ParseError:
            continue
    return documents


def _described(documents: list[ET.Element], index: int) -> dict[int, str]:
    names: dict[int, str] = {}
    for document in documents:
        for band in [*document.iter("PAMRasterBand"), *document.iter("VRTRasterBand")]:
            if band.get("band") != str(index):
                continue
            for table in band.iter("GDALRasterAttributeTable"):
                names |= _attributes(table)
            for listed in band.iter("CategoryNames"):
                named = enumerate((entry.text or "").strip() for entry in listed.iter("Category"))
                names |= {value: name for value, name in named if name}
    return names


def _attributes(table: ET.Element) -> dict[int, str]:
    usages = {int(f.findtext("Usage") or -1): int(f.get("index") or 0) for f in table.iter("FieldDefn")}
    value = next((usages[usage] for usage in _VALUE_USAGES if usage in usages), None)
    name = usages.get(_NAME_USAGE)
    if value is None or name is None:
        return {}
    names = {}
    for row in table.iter("Row"):
        cells = [(cell.text or "").strip() for cell in row.iter("F")]
        if len(cells) > max(value, name) and cells[name]:
            number = float(cells[value])
            if number.is_integer():
                names[int(number)] = cells[name]
    return names
