"""Numbers committed events, one leader at a time, and feeds the sinks in order."""

from .bell import ring
from .lag import lag
from .process import Sequencer

__all__ = ["Sequencer", "lag", "ring"]
