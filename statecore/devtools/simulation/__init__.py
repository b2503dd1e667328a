"""Simulated agents, operator and machines, for demonstrations and load tests.

All changes go through the same services as real ones: agents claim, send heartbeats and report, an operator decides,
cancels and overrides under a dedicated user name, and the sweeps run as in every installation.
"""

from .names import RealWorkFound
from .operator import UsernameTaken
from .report import Report
from .runner import Options, Simulation

__all__ = ["Options", "RealWorkFound", "Report", "Simulation", "UsernameTaken"]
