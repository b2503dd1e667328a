"""Runs the soak test: plans are submitted at a fixed pace while processes are killed, then all work must end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.report import Lines, Report, Target
from benchmarks.soak import checks, installation
from benchmarks.soak.clients import TASKS, Clients, Tally
from benchmarks.soak.faults import Faults
from benchmarks.support import run_in_process

TASKS_PER_SECOND = 1.0  # before acceleration
PATIENCE = 300.0


@dataclass(frozen=True)
class Load:
    minutes: float
    pace: float
    agents: int
    fault_every: float

    @property
    def plans(self) -> int:
        return max(1, round(self.minutes * 60 * TASKS_PER_SECOND / TASKS))


@dataclass(frozen=True)
class SoakResult:
    seconds: float  # until the last plan was submitted
    settling: float  # seconds from then until all work had ended
    tally: Tally
    faults: Counter[str]
    last: int  # last position the stream was checked for; vanished workers cause later events
    recorded: dict[str, Any]

    @property
    def violations(self) -> dict[str, int]:
        """Returns the count of each violation; all must be zero."""
        recorded, positions = self.recorded, list(range(1, self.recorded["events"] + 1))
        confirmed = Counter(self.tally.confirmed)
        return {
            "tasks not completed": len(recorded["unfinished"]),
            "runs that did not succeed": len(recorded["unsuccessful"]),
            "tasks completed twice": len(recorded["twice"]),
            "completions confirmed but not recorded, or recorded but not confirmed": sum(
                confirmed[task] != 1 for task in {*recorded["tasks"], *confirmed}
            ),
            "findings of the integrity check": len(recorded["findings"]),
            "lines of transitions.jsonl missing, repeated or out of order": _differences(
                recorded["written"], positions
            ),
            "events the stream missed, repeated or sent out of order": _differences(
                [position for position in self.tally.received if position <= self.last],
                # Streams leave out the entries of accounts.
                [position for position in positions[: self.last] if position not in recorded["hidden"]],
            ),
        }

    def add_to(self, report: Report) -> None:
        title = f"{self.recorded['runs']:,} runs in {self.seconds / 60:.1f} minutes"
        received = {"received": len(self.tally.received), "checked up to": self.last}
        samples = {"seconds": self.seconds, "findings": self.recorded["findings"], **received}
        report.add(title, self._amounts(), samples, self._targets())
        print("\n".join(self.recorded["findings"]))
        report.add(
            "Kills by process",
            [("what", "times"), *((name, str(n)) for name, n in sorted(self.faults.items()))],
            {},
            [],
        )
        report.add("Calls", self._calls(), {}, [])

    def _targets(self) -> list[Target]:
        return [Target(name, 0, number, at_most=True) for name, number in self.violations.items()]

    def _amounts(self) -> Lines:
        outcomes = ", ".join(f"{n:,} {name}" for name, n in self.tally.outcomes.most_common())
        return [
            ("what", "measured"),
            ("tasks", f"{len(self.recorded['tasks']):,}"),
            ("attempts", f"{self.recorded['attempts']:,}"),
            ("outcomes of attempts", outcomes),
            ("late reports", f"{self.tally.late:,}"),
            ("events", f"{self.recorded['events']:,}"),
            ("events per second", f"{self.recorded['events'] / (self.seconds + self.settling):,.0f}"),
            ("kills", f"{sum(self.faults.values()):,}"),
            ("seconds from the last plan until all work ended", f"{self.settling:,.1f}"),
        ]

    def _calls(self) -> Lines:
        """Returns the table of call times, from the first attempt to the response, including retries."""
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


def run(directory: Path, load: Load, *, durable: bool) -> SoakResult:
    with installation.running(directory, durable=durable) as site:
        pace = TASKS_PER_SECOND * load.pace
        clients = Clients(site.client, plans=load.plans, tasks_per_second=pace, agents=load.agents)
        faults = Faults(site, load.fault_every)
        environ = {**site.environ, "DJANGO_SETTINGS_MODULE": "statecore.project.settings"}
        began = monotonic()
        with faults.injecting(), clients.working():
            clients.await_plans()
            faults.await_all_killed(PATIENCE)
            seconds = monotonic() - began
            faults.stop.set()
            run_in_process(environ, checks.wait_until_settled, PATIENCE)
            settling = monotonic() - began - seconds
            last = run_in_process(environ, checks.count_events)
            clients.tally.await_received(last, PATIENCE)
        recorded = run_in_process(environ, checks.collect, site.environ["STATECORE_HOME"])
        return SoakResult(seconds, settling, clients.tally, faults.kills, last, recorded)
