"""The course of an hour: work at the pace, faults until all was submitted, then everything has to come to its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.hour import installation, verdict
from benchmarks.hour.crowd import TASKS, Crowd, Tally
from benchmarks.hour.faults import Faults
from benchmarks.report import Lines, Report, Target
from benchmarks.support import once

TASKS_A_SECOND = 1.0  # of the hour that is made shorter
PATIENCE = 300.0


@dataclass(frozen=True)
class Wishes:
    minutes: float
    pace: float
    agents: int
    fault_every: float

    @property
    def plans(self) -> int:
        return max(1, round(self.minutes * 60 * TASKS_A_SECOND / TASKS))


@dataclass(frozen=True)
class Found:
    seconds: float  # until the last plan was submitted
    settling: float  # after it, until everything had ended
    tally: Tally
    faults: Counter[str]
    last: int  # position that the listener was waited for; whom nobody hears of any more is missed later still
    left: dict[str, Any]

    @property
    def wrongs(self) -> dict[str, int]:
        """What must not be, by its name, and how often it was."""
        left, positions = self.left, list(range(1, self.left["events"] + 1))
        confirmed = Counter(self.tally.confirmed)
        return {
            "tasks that are not completed": len(left["unfinished"]),
            "runs that did not succeed": len(left["unsuccessful"]),
            "tasks completed twice": len(left["twice"]),
            "completions confirmed that are not there, or there and not confirmed": sum(
                confirmed[task] != 1 for task in {*left["tasks"], *confirmed}
            ),
            "findings of the integrity check": len(left["findings"]),
            "lines of transitions.jsonl missing, twice or out of order": _differences(left["written"], positions),
            "events that the stream missed, repeated or told out of order": _differences(
                [position for position in self.tally.heard if position <= self.last], positions[: self.last]
            ),
        }

    def tell(self, report: Report) -> None:
        title = f"{self.left['runs']:,} runs in {self.seconds / 60:.1f} minutes"
        told = {"heard": len(self.tally.heard), "waited for": self.last}
        samples = {"seconds": self.seconds, "findings": self.left["findings"], **told}
        report.add(title, self._amounts(), samples, self._targets())
        print("\n".join(self.left["findings"]))
        report.add("Killed", [("what", "times"), *((name, str(n)) for name, n in sorted(self.faults.items()))], {}, [])
        report.add("Calls", self._calls(), {}, [])

    def _targets(self) -> list[Target]:
        return [Target(name, 0, number, at_most=True) for name, number in self.wrongs.items()]

    def _amounts(self) -> Lines:
        fates = ", ".join(f"{n:,} {name}" for name, n in self.tally.fates.most_common())
        return [
            ("what", "measured"),
            ("tasks", f"{len(self.left['tasks']):,}"),
            ("attempts", f"{self.left['attempts']:,}"),
            ("what agents did with them", fates),
            ("reports that came too late", f"{self.tally.late:,}"),
            ("events", f"{self.left['events']:,}"),
            ("events a second", f"{self.left['events'] / (self.seconds + self.settling):,.0f}"),
            ("kills", f"{sum(self.faults.values()):,}"),
            ("seconds from the last plan to the last end", f"{self.settling:,.1f}"),
        ]

    def _calls(self) -> Lines:
        """Each with all its repeats, from the first try to the answer."""
        lines: Lines = [("call", "calls", "p50 ms", "p99 ms", "longest s")]
        for name, unsorted in sorted(self.tally.seconds.items()):
            took = sorted(unsorted)
            p50, p99 = (took[int(len(took) * share)] * 1000 for share in (0.5, 0.99))
            lines.append((name, f"{len(took):,}", f"{p50:,.0f}", f"{p99:,.0f}", f"{took[-1]:,.1f}"))
        return lines


def _differences(found: list[int], wanted: list[int]) -> int:
    if found == wanted:
        return 0
    times = Counter(found)
    return sum(times[position] != 1 for position in {*found, *wanted}) or 1


def run(directory: Path, wishes: Wishes, *, durable: bool) -> Found:
    with installation.running(directory, durable=durable) as site:
        pace = TASKS_A_SECOND * wishes.pace
        crowd = Crowd(site.client, plans=wishes.plans, tasks_a_second=pace, agents=wishes.agents)
        faults = Faults(site, wishes.fault_every)
        environ = {**site.environ, "DJANGO_SETTINGS_MODULE": "statecore.project.settings"}
        began = monotonic()
        with faults.happening(), crowd.working():
            crowd.await_plans()
            faults.await_all_struck(PATIENCE)
            seconds = monotonic() - began
            faults.enough.set()
            once(environ, verdict.settle, PATIENCE)
            settling = monotonic() - began - seconds
            last = once(environ, verdict.count)
            crowd.tally.await_heard(last, PATIENCE)
        left = once(environ, verdict.judge, site.environ["STATECORE_HOME"])
        return Found(seconds, settling, crowd.tally, faults.happened, last, left)
