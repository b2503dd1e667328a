"""Guided recoveries of several steps. `--dry-run` shows the steps."""
