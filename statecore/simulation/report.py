"""How far a simulation is, as a line for a person, as the closing words, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .tally import Tally

KEPT_UP = 0.9  # of the wanted rate
BUSY = 0.5  # of the time at the door: more than that, and it is the database that is slow


@dataclass(frozen=True)
class Report:
    label: str
    wanted_rate: float
    seconds: float
    share_at_the_door: float  # of the time of all threads
    told: Mapping[str, Any]
    is_closing: bool = False

    def closed(self, tally: Tally) -> Report:
        """The last one: the rate is that of the time before the end, the counts are those after it."""
        rate = self.rate
        return replace(self, told={**tally.as_dict(), "rate": rate}, is_closing=True)

    @property
    def rate(self) -> float:
        return float(self.told.get("rate", self.told["moves"] / max(self.seconds, 0.001)))

    @property
    def shortfall(self) -> str | None:
        """Why there were fewer moves than wished for, where there were."""
        if self.rate >= KEPT_UP * self.wanted_rate:
            return None
        slow = self.share_at_the_door > BUSY
        why = "the database does not keep up" if slow else "the agents had too little to do, or hung"
        return f"{self.rate:.1f} of {self.wanted_rate:g} moves a second: {why}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": "summary" if self.is_closing else "progress",
            "label": self.label,
            "seconds": round(self.seconds, 3),
            "wanted_rate": self.wanted_rate,
            **self.told,
            "rate": round(self.rate, 1),
            "shortfall": self.shortfall,
        }

    def line(self) -> str:
        told = self.told
        return (
            f"{self.seconds:5.0f} s  {told['moves']} moves  {self.rate:.1f}/s  {_sum(told['runs'])} runs done  "
            f"{told['tasks_done']} tasks done  {told['retries']} retries  refused: {_listed(told['refusals'])}"
        )

    def summary(self) -> str:
        told = self.told
        lines = [
            f"{self.label}: {told['moves']} moves in {self.seconds:.1f} s, {self.rate:.1f} a second",
            f"plans     {told['plans']} submitted, of their runs {_listed(told['runs'])}",
            f"tasks     {told['tasks_done']} done, {told['retries']} begun once more",
            f"happened  {_listed(told['happened'])}",
            f"refused   {_listed(told['refusals'])}",
        ]
        return "\n".join([*lines, *([self.shortfall] if self.shortfall else [])])


def _sum(counts: Mapping[str, int]) -> int:
    return sum(counts.values())


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()) if number) or "nothing"
