"""Health checks of an installation. Every problem that they report comes with a suggested action."""

from .results import ERROR, LEVELS, OK, WARNING, CheckResult, find_worst_level
from .runner import CHECKS, run_checks

__all__ = ["CHECKS", "ERROR", "LEVELS", "OK", "WARNING", "CheckResult", "find_worst_level", "run_checks"]
