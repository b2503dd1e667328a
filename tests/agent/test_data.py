"""Agents pass data: results and artifacts of a task are inputs of the tasks that depend on it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from statecore_client import AsyncClient, Client, Invalid, LeaseLost, NotFound
from tests.agent.process import AgentProcess, submit, task, wait_for_state
from tests.support import site as sites
from tests.support.sequencer import ROOT
from tests.support.site import Site

Start = Callable[..., AgentProcess]
SH = ("--", "/bin/sh", "-c")
BUILD = (
    'printf "wheel of $STATECORE_TASK_ID" > $STATECORE_ARTIFACTS/app.whl; '
    "ln -s /etc/passwd $STATECORE_ARTIFACTS/link; mkdir $STATECORE_ARTIFACTS/folder; "
    """echo '{"version": "1.2", "files": ["app.whl"]}' > $STATECORE_RESULT"""
)
# Reads the result and the artifact of the build, and hands on what it has found.
CHECK = """
import json, os, pathlib
inputs = json.load(open(os.environ["STATECORE_INPUTS"]))
given = pathlib.Path(os.environ["STATECORE_INPUT_ARTIFACTS"])
found = {name: (given / "build" / name).read_text() for name in inputs["build"]["files"]}
json.dump({"version": inputs["build"]["version"], "found": found}, open(os.environ["STATECORE_RESULT"], "w"))
"""


def test_two_agents_pass_data_through_results_and_artifacts(agents: Start, site: Site) -> None:
    submit(
        {"id": "build", "required_capabilities": ["build"]},
        {"id": "check", "depends_on": ["build"], "required_capabilities": ["check"]},
    )
    agents("--capability", "build", *SH, BUILD, name="builder")
    agents(
        "--capability", "check", "--fetch-artifacts", "--", sys.executable, "-c", CHECK, name="checker",
        token=sites.token("agent", "checker"),
    )  # fmt: skip
    wait_for_state("check", "completed")

    assert task("build").result == {"version": "1.2", "files": ["app.whl"]}
    assert task("check").result == {"version": "1.2", "found": {"app.whl": "wheel of build"}}
    with Client(site.url, sites.token("read")) as client:
        (artifact,) = client.list_artifacts("build")
        assert (artifact.name, artifact.attempt, client.get("tasks", "check")["result"]["version"]) == (
            "app.whl",
            1,
            "1.2",
        )


@pytest.mark.parametrize(("script", "error"), [
    ("echo '{' > $STATECORE_RESULT", "the file of STATECORE_RESULT is not JSON"),
    ("head -c 262145 /dev/zero > $STATECORE_RESULT", "more than 262144"),
    ("""printf '"\\\\u0000"' > $STATECORE_RESULT""", "result: must be without NUL."),
    ("touch \"$STATECORE_ARTIFACTS/a b\"", "an artifact cannot be stored"),
])  # fmt: skip
def test_what_cannot_be_handed_over_fails_the_task(agents: Start, script: str, error: str) -> None:
    submit({"id": "t1", "max_retries": 0})
    agents(*SH, script)
    wait_for_state("t1", "failed")
    assert error in task("t1").last_error


def test_a_command_stores_artifacts_of_its_task_with_the_command_line(agents: Start, tmp_path: Path) -> None:
    submit({"id": "t1"})
    (tmp_path / "report.txt").write_text("all fine")
    token = sites.token("agent", "own")
    script = f"STATECORE_TOKEN=$OWN {sys.executable} -m statecore_client.cli artifact put {tmp_path}/report.txt"
    agents(*SH, script, token=token, OWN=token, PYTHONPATH=str(ROOT / "client"))
    wait_for_state("t1", "completed")
    assert "t1/report.txt: 8 bytes, sha256 " in task("t1").output


def run(site: Site, token: str, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "STATECORE_URL": site.url, "STATECORE_TOKEN": token}
    program = [sys.executable, "-m", "statecore_client.cli", *words]
    return subprocess.run(program, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def test_the_command_line_stores_lists_reads_and_deletes(site: Site, tmp_path: Path) -> None:
    submit({"id": "t1"})
    token = sites.token("operate")
    file = tmp_path / "data.bin"
    file.write_bytes(b"\x00data")
    assert run(site, token, "artifact", "put", str(file), "--task", "t1", "--type", "text/plain").returncode == 0
    listed = run(site, token, "artifacts", "t1").stdout.splitlines()
    assert listed[1].split()[:3] == ["data.bin", "5", "text/plain"]
    assert json.loads(run(site, token, "artifacts", "t1", "--json").stdout)["size"] == 5
    assert run(site, token, "artifact", "get", "t1", "data.bin", "--output", f"{tmp_path}/copy").returncode == 0
    assert (tmp_path / "copy").read_bytes() == b"\x00data"
    assert run(site, token, "artifact", "get", "t1", "data.bin", "--output", "-").stdout == "\x00data"
    assert run(site, token, "artifact", "delete", "data.bin", "--task", "t1").returncode == 0
    missing = run(site, token, "artifact", "get", "t1", "data.bin", "--output", f"{tmp_path}/none")
    assert (missing.returncode, [each.name for each in tmp_path.glob("*none*")]) == (5, [])


def test_both_clients_exchange_results_and_artifacts(site: Site) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})
    token = sites.token("agent")
    with Client(site.url, token) as client:
        client.register_worker(worker_id="w1", max_concurrent_tasks=2)
        (first,) = client.claim_tasks("w1")
        stored = client.put_artifact("t1", "x", BytesIO(b"12345"), attempt=first.attempt, content_type="text/plain")
        assert (stored.size, stored.content_type) == (5, "text/plain")
        assert client.get_artifact("t1", "x") == b"12345"
        with pytest.raises(LeaseLost):
            client.put_artifact("t1", "x", b"1", attempt=7)
        with pytest.raises(Invalid):
            client.put_artifact("t1", "a b", b"1", attempt=1)
        with pytest.raises(Invalid, match="larger than"):
            client.put_artifact("t1", "huge", Huge(), attempt=1)
        client.complete_task("t1", attempt=1, result=[1, {"a": None}])
    asyncio.run(_use_async_client(site, token))


async def _use_async_client(site: Site, token: str) -> None:
    async with AsyncClient(site.url, token) as client:
        (second,) = await client.claim_tasks("w1")
        assert second.inputs == await client.get_inputs("t2") == {"t1": [1, {"a": None}]}
        file = BytesIO(b"skipped" + b"x" * 200_000)
        file.seek(7)
        await client.put_artifact("t2", "big", file, attempt=second.attempt)
        memory: Any = BytesIO()
        await client.save_artifact("t2", "big", memory)
        assert memory.getvalue() == b"x" * 200_000
        await client.delete_artifact("t2", "big", attempt=second.attempt)
        with pytest.raises(NotFound):
            await client.get_artifact("t2", "big")


class Huge(BytesIO):
    """Claims to be larger than any artifact may be."""

    def seek(self, offset: int, whence: int = 0) -> int:
        return 2**40 if whence == os.SEEK_END else super().seek(offset, whence)

    def read(self, size: int | None = -1) -> bytes:
        return b"x" * 65_536
