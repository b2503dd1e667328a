"""Starts Python processes by forking one that has imported the third-party modules, which saves half a second for each.

They are processes like any other, with their own arguments, environment, folder and streams, and children of pytest's
process. Only their command line in /proc is that of the process they were forked from.
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER = 36
PARAMETERS = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
STREAMS = ("p2cread", "c2pwrite", "errwrite")
one_at_a_time = threading.Lock()


@cache
def server() -> socket.socket:
    """Starts the process to fork, which ends when the socket closes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.preloaded", str(theirs.fileno())],
            cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


@contextmanager
def adopting() -> Iterator[None]:
    """Makes this process the parent of descendants whose own parent ends."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def fork(command: dict[str, Any], streams: list[int]) -> int:
    """Returns the id of the new process, which is a child of this one."""
    with one_at_a_time, adopting():
        connection = server()
        socket.send_fds(connection, [json.dumps(command).encode()], streams)
        pid = int(connection.recv(100))
        connection.recv(100)  # adopted
    return pid


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen([sys.executable, …])`, forked."""

    def _execute_child(self, *values: Any) -> None:
        given = dict(zip(PARAMETERS, values, strict=True))
        python, *words = map(os.fspath, given["args"])
        assert python == sys.executable
        command = {
            "words": words,
            "folder": str(given["cwd"] or Path.cwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "session": given["start_new_session"],
        }
        streams = [number if given[name] == -1 else given[name] for number, name in enumerate(STREAMS)]
        self.pid = fork(command, streams)
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in PIPES))  # type: ignore[attr-defined]


def run(words: list[str], *, timeout: float, stdin: str = "", **given: Any) -> subprocess.CompletedProcess[str]:
    """`subprocess.run` with captured output, forked."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(words, text=True, **pipes, **given) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
