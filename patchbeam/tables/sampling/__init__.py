"""Raster values at features: points and polygons grouped by read block, records put back in order."""
