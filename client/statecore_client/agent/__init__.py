"""`statecore agent`: claims tasks, runs a command for each, and reports the results."""

from ..slots.settings import Settings
from .agent import Agent

__all__ = ["Agent", "Settings"]
