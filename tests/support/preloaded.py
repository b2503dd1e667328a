"""A process that has imported the third-party modules and forks a process for each command it receives.

It imports nothing of ours: settings read the environment, which each command brings along (tests/support/forked.py).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

# Left out is what needs Django's settings, or reads the environment while it is imported (prometheus_client).
MODULES = (
    "celery.apps.worker", "celery.bin.celery", "channels_redis.core",
    "cryptography.hazmat.primitives.asymmetric.ed25519", "django.contrib.admin", "django.contrib.auth.hashers",
    "django.contrib.postgres.fields", "django.core.handlers.asgi", "django.core.management", "httpx",
    "kombu.transport.redis", "orjson", "psutil", "psycopg_pool", "pydantic_settings", "redis.asyncio",
    "rest_framework.serializers", "structlog", "uvicorn.main", "whitenoise", "yaml",
)  # fmt: skip


def serve(connection: socket.socket) -> dict[str, Any]:
    """Forks until the other end closes. Returns in the processes for the commands only."""
    while True:
        message, streams, _flags, _address = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            os._exit(0)
        if fork(connection) == 0:
            connection.close()
            return take_over(json.loads(message), streams)
        for stream in streams:
            os.close(stream)


def fork(connection: socket.socket) -> int:
    """Forks twice: the process in between ends, so that pytest's process becomes the parent of the command."""
    adopted, write_end = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            os.close(write_end)
            os.read(adopted, 1)  # ends when the process in between has ended
            os.close(adopted)
            return 0
        connection.send(str(pid).encode())
        os._exit(0)
    os.close(adopted)
    os.waitpid(between, 0)
    os.close(write_end)
    connection.send(b"adopted")
    return between


def take_over(command: dict[str, Any], streams: list[int]) -> dict[str, Any]:
    """Gives this process the streams, the folder, the environment and the session of the command."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if command["session"]:
        os.setsid()
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    return command


def execute(words: list[str]) -> None:
    """Does what `python WORDS…` does, with `-m MODULE` or a file."""
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], str(Path.cwd())
        runpy._run_module_as_main(words[1])
    else:
        sys.argv, sys.path[0] = words, str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    execute(serve(socket.socket(fileno=int(sys.argv[1])))["words"])
