"""Processes that tests fork behave like processes of a new interpreter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import forked
from tests.support.waiting import read_line

PROGRAM = """
import json, os, sys
facts = {"arguments": sys.argv[1:], "folder": os.getcwd(), "environment": dict(os.environ), "parent": os.getppid()}
print(json.dumps(facts | {"name": __name__, "input": sys.stdin.read()}))
sys.exit(3)
"""


def test_a_forked_process_is_a_child_with_its_own_arguments_environment_folder_and_streams(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), "one", "two"]

    ended = forked.run(command, cwd=tmp_path, env={"ONLY": "this"}, stdin="given", timeout=60)

    assert (ended.returncode, ended.stderr) == (3, "")
    assert json.loads(ended.stdout) == {
        "arguments": ["one", "two"], "folder": str(tmp_path), "environment": {"ONLY": "this"}, "parent": os.getpid(),
        "name": "__main__", "input": "given",
    }  # fmt: skip


def test_a_forked_process_can_be_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import signal\nprint('ready', flush=True)\nsignal.pause()\n")

    with forked.Popen([sys.executable, str(tmp_path / "program.py")], stdout=subprocess.PIPE, text=True) as process:
        assert read_line(process.stdout) == "ready\n"
        process.kill()
        assert process.wait(20) == -signal.SIGKILL


def test_an_uncaught_error_is_printed_and_ends_the_process_with_1(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import atexit\natexit.register(print, 'bye')\nraise RuntimeError('broken')\n")

    ended = forked.run([sys.executable, str(tmp_path / "program.py")], timeout=60)

    assert (ended.returncode, ended.stdout) == (1, "bye\n")
    assert ended.stderr.endswith("RuntimeError: broken\n")
