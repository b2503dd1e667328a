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

from api.openapi.views import build_document
from statecore.machines.task import Task
from tests.agent.process import submit
from tests.support import site as sites
from tests.support.site import ROOT, Site

HERE = Path(__file__).parent
NODE_HOME = ROOT / ".node"
PROGRAMS = Path(sys.executable).parent
LONGEST = 250


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
    run("redocly", "lint", str(document), "--extends=recommended", cwd=node, REDOCLY_TELEMETRY="off")


def test_spectral_finds_no_error(node: Path, document: Path) -> None:
    run("spectral", "lint", str(document), "--ruleset", str(HERE / "spectral.yaml"), "--quiet", cwd=node)


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


def test_the_types_of_openapi_typescript_compile_strictly_and_complete_a_task(
    node: Path, document: Path, tmp_path: Path, credentials: tuple[str, str]
) -> None:
    shutil.copy(HERE / "agent.ts", tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "node_modules").symlink_to(node / "node_modules")
    run("openapi-typescript", str(document), "--output", "schema.d.ts", cwd=tmp_path)
    run("tsc", "--strict", "--module", "nodenext", "--target", "es2022", "--skipLibCheck", "false", "agent.ts",
        cwd=tmp_path)  # fmt: skip

    said = run("node", "agent.js", *credentials, "stranger", cwd=tmp_path)

    assert said == "t1 completed\n"
    assert_completed_by("stranger")
