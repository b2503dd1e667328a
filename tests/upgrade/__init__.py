"""A new version comes while the last one runs, over the data the last one has written."""
