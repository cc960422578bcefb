"""What stands beside the tiles: a VRT over all of them, STAC items and their collection.

Plain text and plain dicts: GDAL's VRT XML; STAC 1.0.0 with the projection, raster, file and classification
extensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import shapely
from odc.geo.crs import CRS
from odc.geo.geobox import GeoBox

from patchbeam.affines import affine6
from patchbeam.errors import GridError
from patchbeam.lattice import padded
from patchbeam.mixer import crs_code
from patchbeam.mosaic.geotiff import BLOCK_SIZE, TileProfile, color_table, crs_of, gdal_type
from patchbeam.mosaic.tiles import TileGrid, collection_name
from patchbeam.outline import grid_outline
from patchbeam.storage import split

_PROJECTION = "https://stac-extensions.github.io/projection/v1.1.0/schema.json"
_RASTER = "https://stac-extensions.github.io/raster/v1.1.0/schema.json"
_FILE = "https://stac-extensions.github.io/file/v2.1.0/schema.json"
_CLASSES = "https://stac-extensions.github.io/classification/v1.1.0/schema.json"


def vrt_text(prefix: str, tiles: TileGrid, grid: GeoBox, profile: TileProfile, type_name: str) -> str:
    """Returns the VRT over all tiles; their names in it are relative to it.

    Args:
        prefix: of the map.
        tiles: of the map.
        grid: of the map.
        profile: of the tiles.
        type_name: named type of the map.
    """
    a, b, c, d, e, f = affine6(grid)
    geotransform = ", ".join(repr(v) for v in (c, a, b, f, d, e))
    kind = gdal_type(type_name)
    lines = [
        f'<VRTDataset rasterXSize="{tiles.width}" rasterYSize="{tiles.height}">',
        f'  <SRS dataAxisToSRSAxisMapping="{_axes(grid)}">{escape(crs_of(grid).to_wkt())}</SRS>',
        f"  <GeoTransform>{geotransform}</GeoTransform>",
    ]
    for number, name in enumerate(profile.names, 1):
        lines.append(f'  <VRTRasterBand dataType="{kind}" band="{number}">')
        lines.append(f"    <Description>{escape(name)}</Description>")
        if profile.nodata is not None:
            value = "nan" if math.isnan(profile.nodata) else repr(profile.nodata)
            lines.append(f"    <NoDataValue>{value}</NoDataValue>")
        lines.extend(_classes(profile, type_name, number))
        for tile in range(tiles.count):
            lines.extend(_source(prefix, tiles, tile, number, kind))
        lines.append("  </VRTRasterBand>")
    lines.append("</VRTDataset>\n")
    return "\n".join(lines)


def _source(prefix: str, tiles: TileGrid, tile: int, band: int, kind: str) -> list[str]:
    w = tiles.window(tile)
    block_x, block_y = min(BLOCK_SIZE, w.width), min(BLOCK_SIZE, w.height)
    size = f'xSize="{w.width}" ySize="{w.height}"'
    name = escape(split(tiles.name(prefix, tile))[1])
    return [
        "    <SimpleSource>",
        f'      <SourceFilename relativeToVRT="1">{name}</SourceFilename>',
        f"      <SourceBand>{band}</SourceBand>",
        f'      <SourceProperties RasterXSize="{w.width}" RasterYSize="{w.height}" DataType="{kind}" '
        f'BlockXSize="{block_x}" BlockYSize="{block_y}"/>',
        f'      <SrcRect xOff="0" yOff="0" {size}/>',
        f'      <DstRect xOff="{w.col_off}" yOff="{w.row_off}" {size}/>',
        "    </SimpleSource>",
    ]


def _classes(profile: TileProfile, type_name: str, band: int) -> list[str]:
    if not profile.classes or band > 1:
        return [f"    <ColorInterp>{'Gray' if band == 1 else 'Undefined'}</ColorInterp>"]
    lines = []
    colors = color_table(profile)
    if colors is not None and type_name == "uint8" and len(profile.names) == 1:
        lines.append("    <ColorInterp>Palette</ColorInterp>")
        lines.append("    <ColorTable>")
        lines.extend(f'      <Entry c1="{r}" c2="{g}" c3="{b}" c4="{a}"/>' for r, g, b, a in colors)
        lines.append("    </ColorTable>")
    names = profile.class_names
    if names is not None:
        lines.append("    <CategoryNames>")
        lines.extend(f"      <Category>{escape(name)}</Category>" for name in names)
        lines.append("    </CategoryNames>")
    return lines


def _axes(grid: GeoBox) -> str:
    # Pixels are laid out x first; a CRS that says latitude first is read with its axes turned.
    return (
        "2,1"
        if crs_of(grid).proj.axis_info and crs_of(grid).proj.axis_info[0].direction == "north"
        else "1,2"
    )


def stac_items(
    prefix: str,
    tiles: TileGrid,
    grid: GeoBox,
    profile: TileProfile,
    type_name: str,
    *,
    datetime: str,
    sizes: Sequence[int],
) -> list[dict[str, Any]]:
    """Returns the STAC item of each tile.

    Args:
        prefix: of the map.
        tiles: of the map.
        grid: of the map.
        profile: of the tiles.
        type_name: named type of the map.
        datetime: ISO 8601.
        sizes: bytes of each tile's file.
    """
    return [
        _item(prefix, tiles, tile, grid, profile, type_name, datetime, size)
        for tile, size in enumerate(sizes)
    ]


def _item(
    prefix: str,
    tiles: TileGrid,
    tile: int,
    grid: GeoBox,
    profile: TileProfile,
    type_name: str,
    datetime: str,
    size: int,
) -> dict[str, Any]:
    own = padded(grid, tiles.window(tile))
    geometry, bbox = footprint(own)
    stem = split(tiles.stem(prefix, tile))[1]
    bands = []
    for name in profile.names:
        band: dict[str, Any] = {"name": name, "data_type": type_name}
        if profile.nodata is not None:
            band["nodata"] = "nan" if math.isnan(profile.nodata) else profile.nodata
        bands.append(band)
    asset: dict[str, Any] = {
        "href": f"./{stem}.tif",
        "type": "image/tiff; application=geotiff; profile=cloud-optimized",
        "roles": ["data"],
        "raster:bands": bands,
        "file:size": size,
    }
    extensions = [_PROJECTION, _RASTER, _FILE]
    if profile.classes:
        extensions.append(_CLASSES)
        colors = profile.colors or {}
        bands[0]["classification:classes"] = [
            {
                "value": c.value,
                "name": c.name or str(c.value),
                "color_hint": "".join(f"{part:02X}" for part in colors[c.value][:3]),
            }
            for c in profile.classes
        ]
    collection = split(collection_name(prefix))[1]
    return {
        "type": "Feature",
        "stac_version": "1.0.0",
        "stac_extensions": extensions,
        "id": stem,
        "geometry": geometry,
        "bbox": bbox,
        "properties": {"datetime": datetime, **_projection(own)},
        "links": [
            {"rel": "collection", "href": f"./{collection}", "type": "application/json"},
            {"rel": "parent", "href": f"./{collection}", "type": "application/json"},
        ],
        "assets": {"map": asset},
        "collection": split(prefix)[1],
    }


def _projection(grid: GeoBox) -> dict[str, Any]:
    code = crs_code(crs_of(grid).proj)
    found: dict[str, Any] = {"proj:epsg": None if code is None else int(code.partition(":")[2])}
    if code is None:
        found["proj:wkt2"] = crs_of(grid).to_wkt()
    found["proj:shape"] = [grid.shape.y, grid.shape.x]
    found["proj:transform"] = list(affine6(grid))
    return found


def stac_collection(prefix: str, tiles: TileGrid, grid: GeoBox, *, datetime: str) -> dict[str, Any]:
    """Returns the collection of all items; arguments as of :func:`stac_items`."""
    _, bbox = footprint(grid)
    name = split(prefix)[1]
    links = [
        {
            "rel": "item",
            "href": f"./{split(tiles.item_name(prefix, tile))[1]}",
            "type": "application/geo+json",
        }
        for tile in range(tiles.count)
    ]
    return {
        "type": "Collection",
        "stac_version": "1.0.0",
        "id": name,
        "description": f"Tiles of the map {name}",
        "license": "proprietary",
        "extent": {"spatial": {"bbox": [bbox]}, "temporal": {"interval": [[datetime, datetime]]}},
        "links": links,
    }


def footprint(grid: GeoBox) -> tuple[dict[str, Any] | None, list[float]]:
    """Returns a grid's outline as GeoJSON in longitude and latitude, and its bounds.

    Where the outline has no image in longitude and latitude, the whole globe stands for it. An outline across
    the antimeridian is cut there, and its bounds have a west that is greater than their east (RFC 7946,
    sections 3.1.9 and 5.2).
    """
    try:
        outline = grid_outline(grid, CRS("EPSG:4326"), "the tile")
    except GridError:
        return None, [-180.0, -90.0, 180.0, 90.0]
    west, south, east, north = outline.bounds
    outline = shapely.simplify(outline, 1e-5 * max(east - west, north - south))
    outline = _turned(outline, -math.floor((west + 180) / 360))
    west, south, east, north = (float(v) for v in outline.bounds)
    if east > 180:
        halves = [
            _turned(outline & shapely.box(low, -90, low + 360, 90), -turns)
            for turns, low in enumerate((-180.0, 180.0))
        ]
        outline = shapely.union_all(halves)
        west, east = (west, east - 360) if east - west < 360 else (-180.0, 180.0)
    return shapely.geometry.mapping(outline), [west, south, east, north]


def _turned(outline: shapely.Geometry, turns: int) -> shapely.Geometry:
    return shapely.transform(outline, lambda xy: xy + np.array([360.0 * turns, 0.0]))


__all__ = ["footprint", "stac_collection", "stac_items", "vrt_text"]
