"""The programs in examples/ work on the tasks of their plan."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from statecore import scheduling
from statecore.records import Phase
from tests.agent.process import task, wait_for_state
from tests.support import forked, world
from tests.support import site as sites
from tests.support.site import ROOT, Site
from tests.support.waiting import until

EXAMPLES = ROOT / "examples"


def start(example: str, site: Site, token: str, log: Path) -> subprocess.Popen[bytes]:
    path = str(EXAMPLES / example)
    environ = {**os.environ, "STATECORE_URL": site.url, "STATECORE_TOKEN": token}
    streams: dict[str, Any] = {"stdout": log.open("wb"), "stderr": subprocess.STDOUT}
    with streams["stdout"]:
        if path.endswith(".sh"):
            return subprocess.Popen([path], env=environ, **streams)
        return forked.Popen([sys.executable, path], env=environ, stdout=streams["stdout"], stderr=streams["stdout"])


def test_the_examples_work_on_their_plan(site: Site, tmp_path: Path) -> None:
    Phase.objects.create(id="PH-EXAMPLES")
    scheduling.submit_plan(json.loads((EXAMPLES / "plan.json").read_text()), actor=world.operator())
    token = sites.token("agent")
    started = [start(name, site, token, tmp_path / name) for name in ("word_counter.py", "checksum.sh")]
    try:
        for name in ("words", "sum"):
            wait_for_state(name, "completed")
        assert task("words").output == "2 to\n2 be\n1 or\n"
        assert task("words").result == {"to": 2, "be": 2, "or": 1}
        assert task("sum").output.endswith("  /etc/hostname")
        for process in started:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(30) for process in started] == [0, 0]
        until(lambda: set(world.model("worker").objects.values_list("state", flat=True)) == {"shutdown"})
    finally:
        for process in started:
            process.kill()
            process.wait(20)


def test_every_example_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    programs = [path.name for path in EXAMPLES.iterdir() if path.suffix in {".py", ".sh", ".json"}]

    assert [name for name in programs if f"]({name})" not in listed] == []
