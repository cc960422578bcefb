"""Patchbeam: rasters to training records and predictions back to maps.

This package is the library: grids, plans, codecs, rasters. Nothing in it imports Apache Beam, and
importing it brings in neither Beam nor GDAL.
"""

__version__ = "0.1.0"
