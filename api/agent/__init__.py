"""An agent that needs no code: it claims tasks, runs a command for each, and reports how it went."""

from .agent import Agent
from .settings import Settings

__all__ = ["Agent", "Settings"]
