"""Measures what each REST call and each console page costs: queries, process time and time in the database.

python -m benchmarks.calls [--quick] [--only WORD...]
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import pages, seed
from benchmarks.pages import query_times
from benchmarks.report import Lines, Report, Target
from benchmarks.support import environ, postgres, run_in_process

RESULTS = Path(__file__).parent / "results"
TASKS = 400
WARM_UP = 3
MOST_QUERIES = 12
NEW_ID = count()


class Cost(NamedTuple):
    """Medians over the rounds, in milliseconds, and the most queries of a round."""

    queries: int
    process: float
    database: float
    elapsed: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; writes no results")
    parser.add_argument(
        "--only", nargs="*", default=[], help="measure the calls whose name contains one of these words"
    )
    options = parser.parse_args()
    rounds = 5 if options.quick else 30
    report = Report({"quick": options.quick, "rounds": rounds, "queued tasks": TASKS})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg", log="1GB") as database:
            settings = environ(base / "home", database("calls"), "settings")
            costs: dict[str, Cost] = run_in_process(settings, measure, rounds, options.only)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    lines: Lines = [("call", "queries", "process ms", "database ms", "elapsed ms")]
    for name, cost in sorted(costs.items(), key=lambda item: -item[1].process):
        lines.append((name, str(cost.queries), f"{cost.process:.2f}", f"{cost.database:.2f}", f"{cost.elapsed:.2f}"))
    most = Target("queries of a call", MOST_QUERIES, max(cost.queries for cost in costs.values()), at_most=True)
    report.add("Calls and pages", lines, {name: cost._asdict() for name, cost in costs.items()}, [most])
    if not options.quick and not options.only:
        report.write(RESULTS, "calls", "Calls and pages")


# Runs in a separate process with Django


def measure(rounds: int, only: list[str]) -> dict[str, Cost]:
    prepare()
    calls = {**agent_calls(), **read_calls(), **page_calls()}
    chosen = {name: call for name, call in calls.items() if not only or any(word in name for word in only)}
    return {name: _cost(call, rounds) for name, call in chosen.items()}


def prepare() -> None:
    """Submits a plan whose tasks wait for workers, and creates a user with a token for each scope."""
    from django.contrib.auth.models import Group, User

    from statecore import scheduling
    from statecore.kernel.actors import THE_SYSTEM
    from statecore.records import Phase, token

    seed.migrate()
    Phase.objects.create(id="phase")
    tasks = [{"id": f"t:{number}"} for number in range(TASKS)]
    plan = {"id": "run", "phase": "phase", "start": True, "workstreams": [{"id": "w", "tasks": tasks}]}
    scheduling.submit_plan(plan, actor=THE_SYSTEM)
    user = User.objects.create_user("bench", password=pages.PASSWORD)
    user.groups.add(Group.objects.get(name="supervisor"))
    for scope in ("agent", "override"):
        TOKENS[scope] = token.make(f"bench-{scope}", user, scope)[1]


TOKENS: dict[str, str] = {}


def agent_calls() -> dict[str, Callable[[], Any]]:
    """What an agent does all day. Each round works on another task."""
    client = _client("agent")

    def post(path: str, body: dict[str, Any]) -> Any:
        response = client.post(f"/api/v1/{path}", body, content_type=JSON)
        if response.status_code >= 300:
            raise RuntimeError(response.content.decode())
        return response.json()

    def claim(**fields: Any) -> None:
        held.extend(post("workers/w1/claim/", {"max": 1, **fields})["tasks"])

    def claim_then_report() -> None:
        claim()
        task = held.pop()
        body = {"trigger": "execution_completed", "attempt": task["attempt"], "exit_code": 0}
        post(f"tasks/{task['id']}/transitions/", body)

    def report_and_claim() -> None:
        if not held:
            claim()
        task = held.pop()
        claim(
            reports=[{"task": task["id"], "attempt": task["attempt"], "trigger": "execution_completed", "exit_code": 0}]
        )

    def heartbeat() -> None:
        post("workers/w1/heartbeat/", {"tasks": [{"id": task["id"], "attempt": task["attempt"]} for task in held]})

    def submit() -> None:
        tasks = [{"id": f"s:{next(NEW_ID)}"} for _ in range(10)]
        post("runs/submit/", {"phase": "phase", "workstreams": [{"id": f"sw:{next(NEW_ID)}", "tasks": tasks}]})

    held: list[dict[str, Any]] = []
    post("workers/", {"id": "w1"})
    return {
        "claim, then report": claim_then_report,
        "report and claim": report_and_claim,
        "heartbeat with a task": heartbeat,
        "submit a plan of 10": submit,
    }


JSON = "application/json"


def read_calls() -> dict[str, Callable[[], Any]]:
    """Every GET of the OpenAPI document whose entities exist here."""
    from statecore.api.openapi.views import build_document

    client = _client("override")
    ids = {"/tasks/": "t:1", "/runs/": "run", "/workstreams/": "w", "/workers/": "w1", "/machines/": "task"}
    found: dict[str, Callable[[], Any]] = {}
    for path, methods in build_document()["paths"].items():
        if "get" not in methods:
            continue
        known = next((each for prefix, each in ids.items() if prefix in path), "")
        filled = re.sub(r"\{\w+\}", known, path)
        if ("{" not in path or known) and client.get(filled).status_code == 200:
            found[f"GET {path}"] = _getting(client, filled)
    return found


def page_calls() -> dict[str, Callable[[], Any]]:
    from django.contrib.auth.models import User
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.get(username="bench"))
    paths = [path for path in pages.PAGES.values() if client.get(path).status_code == 200]
    return {f"page {path}": _getting(client, path) for path in [*paths, "/machines/runs/run/", "/machines/tasks/t:1/"]}


def _client(scope: str) -> Any:
    from django.test import Client

    return Client(headers={"host": "localhost", "authorization": f"Bearer {TOKENS[scope]}"})


def _getting(client: Any, path: str) -> Callable[[], Any]:
    return lambda: client.get(path)


def _cost(call: Callable[[], Any], rounds: int) -> Cost:
    """The first rounds fill the caches and are not counted."""
    samples = list(_samples(call, WARM_UP + rounds))[WARM_UP:]
    medians = [median(each) * 1e3 for each in list(zip(*samples, strict=True))[1:]]
    return Cost(max(sample[0] for sample in samples), *medians)


def _samples(call: Callable[[], Any], rounds: int) -> Iterator[tuple[int, float, float, float]]:
    for _ in range(rounds):
        with query_times() as times:
            start, busy = time.perf_counter(), time.process_time()
            call()
            elapsed, busy = time.perf_counter() - start, time.process_time() - busy
        yield len(times), busy, sum(times), elapsed


if __name__ == "__main__":
    main()
