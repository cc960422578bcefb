"""Where the scenes of a source come from: lists, patterns, folders, tile indexes and STAC catalogues."""

from __future__ import annotations

from patchbeam.rasters.catalog.filters import Filters
from patchbeam.rasters.catalog.find import Found, find_scenes
from patchbeam.rasters.catalog.item import Item

__all__ = ["Filters", "Found", "Item", "find_scenes"]
