"""How far behind the sequencer and its sinks are, for whoever watches from outside."""

from __future__ import annotations

from collections.abc import Iterator

from ..derive.standing import Standing
from .lag import lag


class SequencerLag(Standing):
    name = "statecore_sequencer_lag_seconds"
    says = "The age of the oldest event that waits for its position (numbering) or for a sink"
    labels = ("what",)

    def values(self) -> Iterator[tuple[tuple[str, ...], float]]:
        return (((what,), seconds) for what, seconds in lag().items())
