"""Soak test: an hour of work, accelerated, on a full installation behind nginx, with all processes killed in turn."""
