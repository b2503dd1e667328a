"""The composition root: settings, URLs and processes."""
