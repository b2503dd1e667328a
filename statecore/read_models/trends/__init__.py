"""How the work developed: throughput, failures, waits, durations and load over a period, against the one before it.

Read from the roll-ups, never from the journal.
"""

from .period import MAX_DAYS, RANGES, Period, choose_period, choose_range
from .report import CapabilityLoad, HeatMap, Line, Panel, Report, Scope, build_report, list_capabilities

__all__ = [
    "MAX_DAYS", "RANGES", "CapabilityLoad", "HeatMap", "Line", "Panel", "Period", "Report", "Scope", "build_report",
    "choose_period", "choose_range", "list_capabilities",
]  # fmt: skip
