"""`statecore agent`: claims tasks, runs a command for each, and reports the results."""

from .agent import Agent
from .settings import Settings

__all__ = ["Agent", "Settings"]
