"""Numbers committed events, one leader at a time, and feeds the sinks in order."""

from .lag import measure_lag
from .process import SEQUENCER, Sequencer
from .wakeup import wake_sequencer

__all__ = ["SEQUENCER", "Sequencer", "measure_lag", "wake_sequencer"]
