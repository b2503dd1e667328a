"""The views, one page in each module."""
