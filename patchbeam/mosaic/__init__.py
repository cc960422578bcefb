"""Prediction records and a mixer or manifest become GeoTIFF maps."""
