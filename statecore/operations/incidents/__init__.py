"""The sweep that groups stuck entities and open alerts into incidents, and escalates those that need an operator."""

from .sweep import sweep

__all__ = ["sweep"]
