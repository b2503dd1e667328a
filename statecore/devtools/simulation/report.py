"""The progress of a simulation as a line of text, a summary and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

REACHED = 0.9  # share of the requested rate
DATABASE_BOUND = 0.5  # above this share of time in calls, the database is the bottleneck


@dataclass(frozen=True)
class Report:
    label: str
    wanted_rate: float
    seconds: float
    call_share: float  # of the time of all threads
    counts: Mapping[str, Any]
    is_final: bool = False

    def finished(self, counts: Mapping[str, Any]) -> Report:
        """Returns the summary: the rate until the stop, and the counts after cleaning up."""
        return replace(self, counts={**counts, "rate": self.rate}, is_final=True)

    @property
    def rate(self) -> float:
        return float(self.counts.get("rate", self.counts["transitions"] / max(self.seconds, 0.001)))

    @property
    def shortfall(self) -> str | None:
        """Returns why the requested rate was not reached, or None."""
        if self.rate >= REACHED * self.wanted_rate:
            return None
        slow = self.call_share > DATABASE_BOUND
        why = "the database does not keep up" if slow else "the agents had too little work or were hanging"
        return f"{self.rate:.1f} of {self.wanted_rate:g} transitions per second: {why}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": "summary" if self.is_final else "progress",
            "label": self.label,
            "seconds": round(self.seconds, 3),
            "wanted_rate": self.wanted_rate,
            **self.counts,
            "rate": round(self.rate, 1),
            "shortfall": self.shortfall,
        }

    def line(self) -> str:
        counts = self.counts
        return (
            f"{self.seconds:5.0f} s  {counts['transitions']} transitions  {self.rate:.1f}/s  "
            f"{_sum(counts['runs'])} runs ended  {counts['tasks_done']} tasks completed  {counts['retries']} retries  "
            f"refused: {_listed(counts['refusals'])}"
        )

    def summary(self) -> str:
        counts = self.counts
        lines = [
            f"{self.label}: {counts['transitions']} transitions in {self.seconds:.1f} s, {self.rate:.1f} per second",
            f"plans     {counts['plans']} submitted; runs: {_listed(counts['runs'])}",
            f"tasks     {counts['tasks_done']} completed, {counts['retries']} retried",
            f"incidents {_listed(counts['incidents'])}",
            f"refused   {_listed(counts['refusals'])}",
        ]
        return "\n".join([*lines, *([self.shortfall] if self.shortfall else [])])


def _sum(counts: Mapping[str, int]) -> int:
    return sum(counts.values())


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in sorted(counts.items()) if number) or "none"
