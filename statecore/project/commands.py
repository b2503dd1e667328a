"""The command line of each process, used by the supervisor and by the units in deploy/."""

import sys
from collections.abc import Callable
from pathlib import Path

from statecore.project.environment import Environment

PYTHON = [sys.executable, "-m"]
MANAGE = [*PYTHON, "statecore.project.manage"]
# The checks ran before the processes started (startup.check_declarations).
CELERY = [*PYTHON, "celery", "--quiet", "--skip-checks", "--app=statecore.project"]
WITHOUT_PEERS = ["--without-gossip", "--without-mingle"]
WORKER = [*CELERY, "worker", "--concurrency=4", *WITHOUT_PEERS]
# Threads, because the tasks only wait for other processes; a separate worker, so that no other task waits for them.
EXECUTORS = [
    *CELERY,
    "worker",
    "--pool=threads",
    "--prefetch-multiplier=1",
    "--queues=gates,patches",
    *WITHOUT_PEERS,
]
# Until the application configures logging.
LOGS = f"--log-config={Path(__file__).with_name('server_logs.json')}"
# The application reads the headers of trusted proxies itself.
UVICORN = [*PYTHON, "uvicorn", "--no-access-log", "--no-proxy-headers", "--lifespan=on", LOGS]
# Messages are encoded once for all clients; compression would run for each client. Clients send little.
UVICORN += [
    "--ws-per-message-deflate=false",
    "--ws-max-size=65536",
    "--ws=statecore.project.uvicorn_ws:WebSocketProtocol",
]
# Without a limit an open stream would delay the shutdown indefinitely.
WEB = [*UVICORN, "--timeout-graceful-shutdown=5", "statecore.project.asgi:application"]
GRANIAN = [*PYTHON, "granian", "--interface=wsgi", "--http=1", "--no-ws", "--log-level=warning", LOGS]
# Threads keep their database connections, so idle threads are kept too.
REST = [*GRANIAN, "--blocking-threads=8", "--blocking-threads-idle-timeout=600", "statecore.project.wsgi:application"]


def web(env: Environment) -> list[str]:
    """Serves everything: alone the whole site, behind a proxy the WebSockets, streams and long polls."""
    return [*WEB, "--host", env.host, "--port", str(env.port)]


def rest(env: Environment) -> list[str]:
    """Serves short requests, three times as fast as uvicorn."""
    limit = [f"--workers-max-rss={env.process_memory_mb}"] if env.process_memory_mb else []
    return [*REST, *limit, "--host", env.host, "--port", str(env.port)]


def worker(env: Environment, name: str = "celery") -> list[str]:
    """Without an executors process, also executes compensation plans that run no command (`patches`)."""
    queues = [] if runs_commands(env) else ["--queues=celery,patches"]
    kibibytes = env.process_memory_mb * 1024
    limit = [f"--max-memory-per-child={kibibytes}"] if kibibytes else []
    return [*WORKER, *limit, *queues, f"--hostname={name}@%h"]


def executors(env: Environment, name: str = "executors") -> list[str]:
    """Has a thread for each command that may run, and one for each repository, which waits for its tests."""
    threads = env.commands_at_once + 1 + len(env.repositories)
    return [*EXECUTORS, f"--concurrency={threads}", f"--hostname={name}@%h"]


def beat(env: Environment) -> list[str]:
    return [*CELERY, "beat", "--scheduler=statecore.project.leading_beat:LeadingScheduler"]


def sequencer(env: Environment) -> list[str]:
    return [*MANAGE, "sequencer"]


def webhooks(env: Environment) -> list[str]:
    """Sends webhooks. No other process connects to addresses that accounts have given."""
    return [*MANAGE, "webhooks"]


def runs_commands(env: Environment) -> bool:
    return bool(env.gate_commands or env.repository)


COMMANDS: dict[str, Callable[..., list[str]]] = {
    "beat": beat,
    "executors": executors,
    "live": web,
    "rest": rest,
    "sequencer": sequencer,
    "web": web,
    "webhooks": webhooks,
    "worker": worker,
}
