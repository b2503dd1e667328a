"""Run `statecore` commands as subprocesses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import forked
from tests.support.site import ROOT

REASON = ("--reason", "seen to be wrong by hand", "--category", "other")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Statecore:
    """Runs `statecore` with an isolated configuration; a traceback always fails the test."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STATECORE_")},
            "STATECORE_URL": url, "STATECORE_TOKEN": token, "XDG_CONFIG_HOME": str(folder / "config"),
        }  # fmt: skip

    def __call__(self, *words: str, code: int = 0, stdin: str = "", **environ: str) -> Result:
        ended = forked.run(
            [sys.executable, "-m", "statecore_client.cli", *words], cwd=ROOT, stdin=stdin, timeout=60,
            env={name: value for name, value in {**self.environ, **environ}.items() if value},
        )  # fmt: skip
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.returncode == code, (ended.returncode, ended.stdout, ended.stderr)
        return Result(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *words: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
        """Start a command without waiting for it to finish."""
        return forked.Popen(
            [sys.executable, "-m", "statecore_client.cli", *words], cwd=ROOT, env=self.environ,
            stdin=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip
