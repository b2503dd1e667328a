"""How everything stands now, for screens: computed from the counters, never by counting a table. Read-only."""

from .alarms import alerts
from .patch import patch_between, patched
from .stats import Standing, counts, standing, stats, told

__all__ = ["Standing", "alerts", "counts", "patch_between", "patched", "standing", "stats", "told"]
