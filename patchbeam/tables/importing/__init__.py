"""Examples back to features: types found over the whole set, then columns, then a file of a common format."""
