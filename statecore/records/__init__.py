"""The plain records the machines need: no states, no moves."""

from .patch import Patch
from .phase import Phase

__all__ = ["Patch", "Phase"]
