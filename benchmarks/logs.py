"""Measures logs: agents write lines through a rest server, followers read them from a live server.

python -m benchmarks.logs [--agents N] [--rate N] [--seconds N] [--followers N] [--quick] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import psutil

from benchmarks.http_clients import Address
from benchmarks.live import web
from benchmarks.report import Report, Target
from benchmarks.rest import redis, server
from benchmarks.support import Environ, environ, postgres, processes, run_in_process

RESULTS = Path(__file__).parent / "results"
PAUSE_SECONDS = 0.2  # between two calls of an agent, like that of `statecore agent`
RAW_SECONDS = 3.0
INSERT = (
    "INSERT INTO statecore_logchunk (task_id, attempt, first, last, at, body, size) "
    "VALUES (%s, 1, %s, %s, now(), %s, %s)"
)


def main() -> None:
    options = _options()
    report = Report({name: getattr(options, name) for name in ("agents", "rate", "seconds", "followers")})
    base = Path(tempfile.mkdtemp(prefix="bench-"))
    try:
        with postgres(base / "pg") as database, ExitStack() as stack:
            url = database("logs")
            # All agents share one token here, whose limit of calls they would exceed.
            settings = environ(base / "home", url, "settings") | {"STATECORE_CALLS_PER_MINUTE": "1000000"}
            settings["REDIS_URL"] = stack.enter_context(redis(base / "redis.sock"))
            token = run_in_process(settings, prepare, options.agents)
            rest = stack.enter_context(server("statecore.project.wsgi:application", settings))
            live, port = stack.enter_context(web(settings))
            measure(report, options, token, rest, ("127.0.0.1", port), live.pid)
            measure_raw(report, settings, options)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.write:
        report.write(RESULTS, "logs", "Log benchmark")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.logs", description=__doc__)
    parser.add_argument("--agents", type=int, default=500, help="agents, each with a task (default 500)")
    parser.add_argument("--rate", type=int, default=10, help="lines per second and agent (default 10)")
    parser.add_argument("--seconds", type=int, default=60, help="duration (default 60)")
    parser.add_argument("--followers", type=int, default=100, help="followers, each of another task (default 100)")
    parser.add_argument("--quick", action="store_true", help="50 agents for 8 seconds, 20 followers")
    parser.add_argument("--write", action="store_true", help="write results/logs.md and .json")
    options = parser.parse_args()
    if options.quick:
        options.agents, options.seconds, options.followers = 50, 8, 20
    return options


def prepare(agents: int) -> str:
    """Creates a running task for each agent, all held by the owner of the token that is returned."""
    from django.contrib.auth.models import Group, User

    from benchmarks import seed
    from statecore.machines.task import Task
    from statecore.machines.worker import Worker
    from statecore.records import Phase
    from statecore.records import token as tokens
    from statecore.scheduling import register, submit_plan
    from statecore.scheduling.claims import claim

    seed.migrate()
    user = User.objects.create_user("bench")
    user.groups.add(Group.objects.get(name="operator"))
    token, text = tokens.make("bench-agents", user, "agent")
    actor = token.as_agent()
    Phase.objects.create(id="bench")
    tasks = [{"id": f"t{number}"} for number in range(agents)]
    plan = {"id": "bench", "phase": "bench", "start": True, "workstreams": [{"id": "bench-w", "tasks": tasks}]}
    submit_plan(plan, actor=_superuser())
    for number in range(agents):
        register(Worker, actor=actor, id=f"w{number}")
        claim(f"w{number}", actor=actor)
    assert Task.objects.filter(state="running").count() == agents  # noqa: S101
    return text


def _superuser() -> Any:
    from django.contrib.auth.models import User

    from statecore.kernel.actors import Actor, Channel

    return Actor.operator(User(username="root", is_superuser=True), Channel.CONSOLE)


def measure(
    report: Report, options: argparse.Namespace, token: str, rest: Address, live: Address, live_pid: int
) -> None:
    here, there = processes.Pipe()
    following = processes.Process(target=_run_followers, args=(there, options, token, live))
    following.start()
    here.recv()  # all followers are connected
    before, cpu = _resident(live_pid), time.process_time()
    took = asyncio.run(_write(options, token, rest))
    writer_cpu = time.process_time() - cpu
    lags = here.recv()
    following.join()
    calls = sorted(seconds * 1000 for seconds, _lines in took)
    sent = sum(lines for _seconds, lines in took)
    expected = options.rate * options.seconds * options.followers
    found = {
        "lines written per second": sent / options.seconds,
        "calls per second": len(took) / options.seconds,
        "call p50 (ms)": calls[len(calls) // 2],
        "call p99 (ms)": calls[int(len(calls) * 0.99)],
        "lines received": float(len(lags)),
        "line to follower p50 (ms)": lags[len(lags) // 2],
        "line to follower p99 (ms)": lags[int(len(lags) * 0.99)],
        "line to follower max (ms)": lags[-1],
        "memory of the live server before (MB)": before / 2**20,
        "memory of the live server after (MB)": _resident(live_pid) / 2**20,
        "CPU of the writing client (% of a core)": writer_cpu / options.seconds * 100,
    }
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    targets = [
        Target("lines received, in order and without gap", expected, len(lags)),
        Target("line to follower p99 in ms", 500, found["line to follower p99 (ms)"], at_most=True),
    ]
    report.add(f"{options.agents} agents, {options.rate} lines per second each", lines, found, targets)


def _resident(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


async def _write(options: argparse.Namespace, token: str, address: Address) -> list[tuple[float, int]]:
    """Returns the seconds and the number of lines of each call."""
    found = await asyncio.gather(*(_write_one(options, number, token, address) for number in range(options.agents)))
    return [call for calls in found for call in calls]


async def _write_one(options: argparse.Namespace, number: int, token: str, address: Address) -> list[tuple[float, int]]:
    """Sends the lines that have come since the last call; the text of each is when it was written."""
    reader, writer = await asyncio.open_connection(*address)
    await asyncio.sleep(number / options.agents)  # agents do not write in step
    start, total, sent, calls = time.time(), options.rate * options.seconds, 0, []
    while sent < total:
        due = min(total, int((time.time() - start) * options.rate) + 1)
        if due == sent:
            await asyncio.sleep(start + sent / options.rate - time.time())
            continue
        lines = [{"text": f"{start + line / options.rate:.6f}"} for line in range(sent, due)]
        body = orjson.dumps({"attempt": 1, "lines": lines, "offset": sent})
        begun = time.perf_counter()
        await _post(reader, writer, f"/api/v1/tasks/t{number}/logs/", token, body)
        calls.append((time.perf_counter() - begun, due - sent))
        sent = due
        await asyncio.sleep(PAUSE_SECONDS)
    writer.close()
    return calls


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, token: str, body: bytes) -> None:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    content = await reader.readexactly(int(answer.partition("content-length:")[2].partition("\r\n")[0]))
    if not answer.partition(" ")[2].startswith("2"):
        raise RuntimeError(content.decode())


def _run_followers(pipe: Any, options: argparse.Namespace, token: str, address: Address) -> None:
    pipe.send(asyncio.run(_follow_all(pipe, options, token, address)))


async def _follow_all(pipe: Any, options: argparse.Namespace, token: str, address: Address) -> list[float]:
    """Returns the milliseconds from each line to its receipt, sorted; fails if a line is missing."""
    streams = [await _open(number, token, address) for number in range(options.followers)]
    pipe.send("connected")
    count = options.rate * options.seconds
    async with asyncio.timeout(options.seconds + 60):
        found = await asyncio.gather(*(_follow(reader, count) for reader in streams))
    return sorted(lag for lags in found for lag in lags)


async def _open(number: int, token: str, address: Address) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(*address, limit=2**22)
    writer.write(
        f"GET /api/v1/tasks/t{number}/logs/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head:
        raise RuntimeError(head.decode())
    return reader


async def _follow(reader: asyncio.StreamReader, count: int) -> list[float]:
    lags: list[float] = []
    while len(lags) < count:
        row = await reader.readuntil(b"\n")
        if row.startswith(b"data: {"):
            line = orjson.loads(row[6:])
            if line["number"] != len(lags) + 1:
                raise RuntimeError(f"line {line['number']} instead of {len(lags) + 1}")
            lags.append((time.time() - float(line["text"])) * 1000)
    return lags


def measure_raw(report: Report, settings: Environ, options: argparse.Namespace) -> None:
    """Inserts the same chunks without the server, one per commit, from as many connections as the server has."""
    rows = asyncio.run(_insert_all(settings["DATABASE_URL"]))
    found = {"chunks per second": rows / RAW_SECONDS}
    lines = [("what", "measured"), *((name, f"{value:,.1f}") for name, value in found.items())]
    report.add("bare inserts, 8 connections", lines, found, [])


async def _insert_all(url: str) -> int:
    import psycopg

    async def insert(writer: int) -> int:
        until, rows = time.monotonic() + RAW_SECONDS, 0
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            body = orjson.dumps([["stdout", f"{time.time():.6f}", None]] * 3).decode()
            while time.monotonic() < until:
                first = 10**9 + rows * 3
                await connection.execute(INSERT, [f"raw{writer}", first, first + 2, body, len(body)], prepare=True)
                rows += 1
        return rows

    return sum(await asyncio.gather(*(insert(writer) for writer in range(8))))


if __name__ == "__main__":
    os.nice(5)
    main()
