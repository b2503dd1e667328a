"""The command of each process by its name: what the supervisor starts is what deploy/ starts."""

import sys
from collections.abc import Callable

from statecore.project.environment import ROOT, Environment

PYTHON = [sys.executable, "-m"]
# What would be checked was checked before anything started (startup.check_declarations).
CELERY = [*PYTHON, "celery", "--quiet", "--skip-checks", "--app=statecore.project"]
ALONE = ["--without-gossip", "--without-mingle"]
WORKER = [*CELERY, "worker", "--concurrency=4", *ALONE]
# Threads, because they only wait for other processes; its own, so that nothing else waits for them.
EXECUTORS = [
    *CELERY,
    "worker",
    "--pool=threads",
    "--concurrency=4",
    "--prefetch-multiplier=1",
    "--queues=gates,patches",
    *ALONE,
]
UVICORN = [*PYTHON, "uvicorn", "--no-access-log", "--lifespan=on"]
# What all are told is written once; compressing it would be done again for each of them. They have little to say.
UVICORN += ["--ws-per-message-deflate=false", "--ws-max-size=65536", "--ws=statecore.project.handshake:Answered"]
# Without a limit an open stream would hold up the end for ever.
WEB = [*UVICORN, "--timeout-graceful-shutdown=5", "statecore.project.asgi:application"]
GRANIAN = [*PYTHON, "granian", "--interface=wsgi", "--http=1", "--no-ws", "--log-level=warning"]
# A thread keeps its connection to the database, so threads are kept: a new one each half minute would open it anew.
REST = [*GRANIAN, "--blocking-threads=8", "--blocking-threads-idle-timeout=600", "statecore.project.wsgi:application"]


def web(env: Environment) -> list[str]:
    """Everything there is to serve: alone it is the whole site, behind a proxy what stays open."""
    trusted = f"--forwarded-allow-ips={','.join(env.trusted_proxies)}"
    return [*WEB, trusted, "--host", env.host, "--port", str(env.port)]


def rest(env: Environment) -> list[str]:
    """What is answered at once, three times as fast as the other server does it."""
    return [*REST, "--host", env.host, "--port", str(env.port)]


def worker(env: Environment, name: str = "celery") -> list[str]:
    """Where nothing runs commands it does what is left of their work: plans of which no step is one."""
    queues = [] if runs_commands(env) else ["--queues=celery,patches"]
    return [*WORKER, *queues, f"--hostname={name}@%h"]


def executors(env: Environment, name: str = "executors") -> list[str]:
    return [*EXECUTORS, f"--hostname={name}@%h"]


def beat(env: Environment) -> list[str]:
    return [*CELERY, "beat"]


def sequencer(env: Environment) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), "sequencer"]


def runs_commands(env: Environment) -> bool:
    return bool(env.gate_commands or env.repository)


COMMANDS: dict[str, Callable[..., list[str]]] = {
    "beat": beat,
    "executors": executors,
    "live": web,
    "rest": rest,
    "sequencer": sequencer,
    "web": web,
    "worker": worker,
}
