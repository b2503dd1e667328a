"""Everything a support engineer would ask, asked: each answer says how it stands and, where it is wrong, what to do."""

from .examination import CHECKS, examine
from .finding import ERROR, OK, WARNING, Finding, worst

__all__ = ["CHECKS", "ERROR", "OK", "WARNING", "Finding", "examine", "worst"]
