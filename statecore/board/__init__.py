"""How everything stands now, for screens: computed from the counters, never by counting a table. Read-only."""

from .alarms import alerts
from .partial import of_machines
from .patch import patch_between, patched
from .stats import counts, stats

__all__ = ["alerts", "counts", "of_machines", "patch_between", "patched", "stats"]
