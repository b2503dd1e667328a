"""A crowd that lives through the real doors: the demonstration and the load.

Nothing here changes a state in a way that is not open to everybody else: agents claim, beat and report, an operator
decides, cancels and forces under a name of its own, and the sweeps do what they do in every installation.
"""

from .crowd import Crowd, Wishes
from .names import RealWork
from .operators import NameTaken
from .report import Report

__all__ = ["Crowd", "NameTaken", "RealWork", "Report", "Wishes"]
