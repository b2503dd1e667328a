"""Linters find no error, and generated clients are agents: they register, claim and complete."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from statecore.api.openapi.views import build_document
from statecore.machines.task import Task
from statecore_client import Client
from tests.agent.process import AgentProcess, submit, wait_for_state
from tests.support import forked
from tests.support import site as sites
from tests.support.site import ROOT, Site

HERE = Path(__file__).parent
NODE_HOME = ROOT / ".node"
PROGRAMS = Path(sys.executable).parent
LONGEST = 250
QUIET = {"REDOCLY_TELEMETRY": "off"}


def run(*command: str, cwd: Path, **environ: str) -> str:
    """Returns the output of a program that has to succeed."""
    path = f"{NODE_HOME / 'node_modules' / '.bin'}:{PROGRAMS}:{os.environ['PATH']}"
    made = subprocess.run(
        command, cwd=cwd, env={**os.environ, "PATH": path, **environ}, capture_output=True, text=True,
        timeout=LONGEST, check=False,
    )  # fmt: skip
    assert made.returncode == 0, f"{made.stdout[-6000:]}\n{made.stderr[-6000:]}"
    return made.stdout


@pytest.fixture(scope="module")
def node() -> Path:
    """Returns the folder with the Node packages of package-lock.json, installed once for each version of it."""
    NODE_HOME.mkdir(exist_ok=True)
    lock, installed = HERE / "package-lock.json", NODE_HOME / "installed.json"
    with (NODE_HOME / "lock").open("w") as exclusive:
        fcntl.flock(exclusive, fcntl.LOCK_EX)
        if not installed.exists() or installed.read_bytes() != lock.read_bytes():
            for name in ("package.json", "package-lock.json", ".npmrc"):
                shutil.copy(HERE / name, NODE_HOME)
            run("npm", "ci", "--no-progress", "--loglevel=error", cwd=NODE_HOME)
            shutil.copy(lock, installed)
    return NODE_HOME


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_bytes(orjson.dumps(build_document()))
    return path


def test_redocly_finds_no_error(node: Path, document: Path) -> None:
    found = run("redocly", "lint", str(document), "--extends=recommended", "--format=summary", cwd=node, **QUIET)

    assert "error" not in found


def test_spectral_finds_no_error(node: Path, document: Path) -> None:
    found = run("spectral", "lint", str(document), "--ruleset", str(HERE / "spectral.yaml"), cwd=node)

    assert "(0 errors" in found


@pytest.fixture
def credentials(site: Site) -> tuple[str, str]:
    submit({"id": "t1"})
    return site.url, sites.token("agent")


def assert_completed_by(name: str) -> None:
    task = Task.objects.get(pk="t1")
    assert (task.state, task.output) == ("completed", f"built by {name}")


def test_the_client_of_openapi_python_client_completes_a_task(
    document: Path, tmp_path: Path, credentials: tuple[str, str]
) -> None:
    generated = tmp_path / "generated"
    run("openapi-python-client", "generate", "--path", str(document), "--output-path", str(generated), "--meta", "none",
        cwd=tmp_path)  # fmt: skip

    said = run(sys.executable, str(HERE / "agent.py"), *credentials, "stranger", cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert said == "t1 completed\n"
    assert_completed_by("stranger")


def test_agents_in_python_bash_and_typescript_pass_data_through_a_plan(
    node: Path, document: Path, tmp_path: Path, site: Site
) -> None:
    """The agent in TypeScript is compiled strictly, against the types that openapi-typescript derives."""
    compile_agent(node, document, tmp_path)
    submit(
        {"id": "numbers", "required_capabilities": ["python"], "payload": {"count": 5}},
        {"id": "twice", "required_capabilities": ["bash"], "depends_on": ["numbers"]},
        {"id": "report", "required_capabilities": ["typescript"], "depends_on": ["numbers", "twice"]},
    )
    token = sites.token("agent")
    environ = {**os.environ, "STATECORE_URL": site.url, "STATECORE_TOKEN": token}
    bash = AgentProcess(
        tmp_path, site.url, token, "--capability", "bash", "--fetch-artifacts", "--", str(HERE / "double.sh")
    )
    python = forked.Popen([sys.executable, str(HERE / "numbers_worker.py")], cwd=ROOT, env=environ)
    try:
        wait_for_state("twice", "completed")
        said = run("node", "agent.js", site.url, token, "stranger", cwd=tmp_path)
    finally:
        bash.kill()
        python.kill()
        python.wait(20)

    assert said == "report completed\n"
    report = Task.objects.get(pk="report")
    assert report.result == {"lines": 15, "inputs": {"numbers": {"sum": 15}, "twice": {"doubled": 30}}}
    assert report.output == "built by stranger"
    with Client(site.url, token) as client:
        assert client.get_artifact("report", "report.txt") == b"15 lines"


def compile_agent(node: Path, document: Path, folder: Path) -> None:
    shutil.copy(HERE / "agent.ts", folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "node_modules").symlink_to(node / "node_modules")
    run("openapi-typescript", str(document), "--output", "schema.d.ts", cwd=folder)
    run("tsc", "--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "false", "agent.ts",
        cwd=folder)  # fmt: skip
