"""Reading rasters: headers, sources of many files, bands, masks, windows of the export grid."""
