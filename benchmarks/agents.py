"""Measures what agents do all day over HTTP: report a task and claim the next one, and wait for tasks.

python -m benchmarks.agents [--quick] [--only CONTENDER...] [--without-peers]
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from benchmarks.agent_clients import Agent, measure_start, run_agents, submit
from benchmarks.http_clients import Address, Connection
from benchmarks.installation import Installation, cpu_seconds, installation
from benchmarks.queue_peers import PROGRAMS, Peer, peer
from benchmarks.report import Lines, Report, Target
from benchmarks.rest import create_operator_token, redis, server
from benchmarks.support import environ, postgres, ratio, run_in_process

RESULTS = Path(__file__).parent / "results"
AGENTS, WAITING = 16, 100
ONE_CALL, TWO_CALLS = "Statecore, report and claim", "Statecore, claim, then report"
RAW = "raw"
QUIET_SECONDS = 0.5


def main() -> None:
    options = _options()
    report = Report(
        {
            "quick": options.quick,
            "agents": AGENTS,
            "rounds": options.rounds,
            "tasks per agent and round": options.each,
            "finished tasks": options.finished,
        }
    )
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, ExitStack() as stack:
            settings = _settings(base, database("agents"))
            settings["REDIS_URL"] = stack.enter_context(redis(base / "redis.sock"))
            token = run_in_process(settings, prepare, options.finished)
            statecore = stack.enter_context(installation(settings, base / "pg"))
            raw = stack.enter_context(server("benchmarks.rest_raw:application", settings))
            run = Run(statecore, raw, token, settings["DATABASE_URL"], options)
            for name in PROGRAMS if options.peers else ():
                run.peers[name] = stack.enter_context(peer(name, database(name.lower()), AGENTS))
            asyncio.run(_measure(report, run))
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if not options.quick and not options.only and options.peers:
        report.write(RESULTS, "agents", "Agents benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and finished tasks; writes no results")
    parser.add_argument("--only", nargs="*", default=[], help="contenders whose name contains one of these words")
    parser.add_argument("--without-peers", dest="peers", action="store_false", help="skip DBOS and procrastinate")
    options = parser.parse_args()
    options.finished = 10_000 if options.quick else 1_000_000
    options.rounds, options.each = (3, 20) if options.quick else (12, 40)
    options.starts = 50 if options.quick else 300
    return options


def _settings(base: Path, url: str) -> dict[str, str]:
    """Those of a deployment. All agents share a token, whose limit of calls and streams they would exceed."""
    settings = environ(base / "home", url, "settings")
    del settings["STATECORE_LOG_LEVEL"]
    limits = {"STATECORE_CALLS_PER_MINUTE": "1000000", "STATECORE_STREAMS_PER_ACCOUNT": "5000"}
    return settings | limits | {"STATECORE_LOG_FORMAT": "json"}


def prepare(finished: int) -> str:
    """Creates many finished tasks, and the rows of the raw application. Returns a token."""
    from django.db import connection

    from benchmarks import seed
    from benchmarks.rest_raw import TABLES
    from statecore.storage import triggers

    seed.migrate()
    seed.create_templates()
    with triggers.disabled(connection), connection.cursor() as cursor:
        seed.fill_rows(cursor, "statecore_task", "task", "done", finished, seed.DONE)
        cursor.execute(TABLES)
        cursor.execute("INSERT INTO raw_row (id, state) SELECT id, 'completed' FROM statecore_task")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
        cursor.execute("CHECKPOINT")
    return create_operator_token()


class Round(NamedTuple):
    """The rates of one round, the seconds of each call, and the processor seconds of each part."""

    tasks_per_second: float
    with_enqueueing: float
    calls: list[float]
    cpu: dict[str, float]


class Run:
    """The contenders. Each enqueues the tasks of a round and works them off."""

    def __init__(
        self, statecore: Installation, raw: Address, token: str, database: str, options: argparse.Namespace
    ) -> None:
        self.statecore, self.raw, self.token, self.database = statecore, raw, token, database
        self.options, self.each = options, options.each
        self.count = AGENTS * self.each
        self.rest = statecore.addresses["rest"]
        self.peers: dict[str, Peer] = {}
        self.agents: dict[str, list[Agent]] = {}
        self.raw_rows = 0

    def contenders(self) -> dict[str, Callable[[], Any]]:
        found: dict[str, Callable[[], Any]] = {
            ONE_CALL: lambda: self._work(ONE_CALL, self.rest, "w", Agent.report_and_claim),
            TWO_CALLS: lambda: self._work(TWO_CALLS, self.rest, "v", Agent.claim_then_report),
            RAW: lambda: self._work(RAW, self.raw, "raw", Agent.report_and_claim),
            **{name: lambda name=name: self._run_peer(name) for name in self.peers},
        }
        only = self.options.only
        return {name: run for name, run in found.items() if not only or any(word in name for word in only)}

    async def _work(self, name: str, address: Address, prefix: str, work: Any) -> Round:
        enqueueing = self._enqueue_raw() if name == RAW else await submit(self.rest, self.token, self.count)
        await self._await_quiet()
        # New ones for each round: the server closes connections that are idle for a while.
        connections = [await Connection.open(address, self.token) for _ in range(AGENTS)]
        agents = await self._connect(name, prefix, connections)
        before = self.statecore.read_cpu_seconds()
        seconds, calls = await run_agents(agents, work, self.each)
        for connection in connections:
            connection.close()
        await self._await_quiet()
        after = self.statecore.read_cpu_seconds()
        cpu = {part: after[part] - before[part] for part in after}
        return Round(self.count / seconds, self.count / (seconds + enqueueing), calls, cpu)

    async def _connect(self, name: str, prefix: str, connections: list[Connection]) -> list[Agent]:
        """Returns the contender's agents, which keep the tasks that they hold, with these connections."""
        is_new = name not in self.agents
        agents = self.agents.setdefault(name, [Agent(each, f"{prefix}{n}") for n, each in enumerate(connections)])
        for agent, connection in zip(agents, connections, strict=True):
            agent.connection = connection
        if is_new and name != RAW:
            await asyncio.gather(*(agent.register() for agent in agents))
        return agents

    def _enqueue_raw(self) -> float:
        import psycopg

        start = time.perf_counter()
        with psycopg.connect(self.database, autocommit=True) as connection:
            first, self.raw_rows = self.raw_rows, self.raw_rows + self.count
            rows = "SELECT 'r' || n, 'queued' FROM generate_series(%s::int, %s::int) AS n"
            connection.execute(f"INSERT INTO raw_row (id, state) {rows}", [first + 1, self.raw_rows])
        return time.perf_counter() - start

    async def _await_quiet(self) -> None:
        """Waits until the sequencer has done its part of the work."""
        pid, spent = self.statecore.pids["sequencer"], -1.0
        while (now := cpu_seconds(pid)) - spent > QUIET_SECONDS / 10:
            spent = now
            await asyncio.sleep(QUIET_SECONDS)

    async def _run_peer(self, name: str) -> Round:
        took = self.peers[name].run(self.count)
        # DBOS starts workflows while others are enqueued, so that its work alone cannot be timed.
        alone = took["seconds"] - (0 if name == "DBOS" else took["enqueue"])
        return Round(self.count / alone, self.count / took["seconds"], [], {})


async def _measure(report: Report, run: Run) -> None:
    contenders = run.contenders()
    rounds: dict[str, list[Round]] = {name: [] for name in contenders}
    for number in range(run.options.rounds + 1):  # the first round is a warm-up
        for name, work in contenders.items():
            found = await work()
            if number:
                rounds[name].append(found)
    _report_rates(report, rounds)
    _report_cpu(report, run, rounds)
    starts = await measure_start(run.statecore.addresses, run.token, WAITING, run.options.starts)
    _report_starts(report, starts)


def _report_rates(report: Report, rounds: dict[str, list[Round]]) -> None:
    rates = {name: [each.tasks_per_second for each in found] for name, found in rounds.items()}
    lines: Lines = [("contender", "tasks/s", "tasks/s with enqueueing", "ratio to raw", "call p50 ms", "call p99 ms")]
    worst = 0.0
    for name, found in rounds.items():
        calls = sorted(seconds * 1000 for each in found for seconds in each.calls)
        cuts = quantiles(calls, n=100) if calls else []
        worst = cuts[98] if name == ONE_CALL else worst
        to_raw = f"{ratio(rates[name], rates[RAW]):.2f}" if RAW in rates else "-"
        whole = median(each.with_enqueueing for each in found)
        times = [f"{cuts[cut]:.1f}" if cuts else "-" for cut in (49, 98)]
        lines.append((name, f"{median(rates[name]):,.0f}", f"{whole:,.0f}", to_raw, *times))
    targets = []
    if ONE_CALL in rounds:
        targets = [
            Target("tasks per second", 400, median(rates[ONE_CALL])),
            Target("report and claim, p99 in ms", 100, worst, at_most=True),
        ]
        targets += [
            Target(f"tasks per second, to {name}", wanted, ratio(rates[ONE_CALL], rates[name]))
            for name, wanted in (("DBOS", 3), ("procrastinate", 1.5))
            if name in rates
        ]
    samples = {name: [each._asdict() | {"calls": []} for each in found] for name, found in rounds.items()}
    report.add(f"{AGENTS} agents over HTTP, PostgreSQL", lines, samples, targets)


def _report_cpu(report: Report, run: Run, rounds: dict[str, list[Round]]) -> None:
    """Processor time of each part for one task; the beat and the idle time of the others are part of it."""
    ours = [name for name in (ONE_CALL, TWO_CALLS) if name in rounds]
    lines: Lines = [("part", *(f"{name}, ms per task" for name in ours))]
    sums = dict.fromkeys(ours, 0.0)
    for part in run.statecore.pids:
        row = [median(each.cpu[part] for each in rounds[name]) * 1000 / run.count for name in ours]
        lines.append((part, *(f"{value:.2f}" for value in row)))
        for name, value in zip(ours, row, strict=True):
            sums[name] += value
    lines.append(("all parts", *(f"{sums[name]:.2f}" for name in ours)))
    targets = [Target("processor time of a task in ms", 5, sums[ONE_CALL], at_most=True)] if ONE_CALL in sums else []
    if ours:
        report.add("Processor time by part", lines, sums, targets)


def _report_starts(report: Report, starts: list[float]) -> None:
    cuts = quantiles(starts, n=100)
    lines: Lines = [("what", "ms"), ("p50", f"{cuts[49]:.1f}"), ("p99", f"{cuts[98]:.1f}")]
    targets = [Target("enqueue to start, p99 in ms", 25, cuts[98], at_most=True)]
    report.add(f"From the answer of submit to the claim, {WAITING} waiting agents", lines, starts, targets)


if __name__ == "__main__":
    main()
