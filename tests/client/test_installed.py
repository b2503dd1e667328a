"""The client as a package: its wheel needs httpx and msgspec only, and starts a server for tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from statecore_client import Client, __version__
from statecore_client.testing import Server, running_server
from tests.support.site import ROOT

UV = Path(sys.executable).with_name("uv")
pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.slow, pytest.mark.starts_processes]

# What httpx consists of, and what this package needs besides.
PACKAGES = {"anyio", "certifi", "h11", "httpcore", "httpx", "idna", "msgspec", "statecore-client", "typing-extensions"}


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("STATECORE_", "PYTHON"))}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which only the wheel of the client was installed."""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(ROOT / "client", folder / "client")  # building leaves files beside the sources
    built = run(UV, "build", "--wheel", folder / "client", "--out-dir", folder / "dist", folder=folder)
    assert run(UV, "venv", "--python", sys.executable, folder / "venv", folder=folder).returncode == 0
    if built.returncode or not is_index_reachable(folder):
        pytest.skip("the package index is not reachable")
    (wheel,) = (folder / "dist").glob("*.whl")
    done = run(UV, "pip", "install", "--python", folder / "venv", wheel, folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "venv" / "bin"


def is_index_reachable(folder: Path) -> bool:
    return run(UV, "pip", "install", "--python", folder / "venv", "msgspec", folder=folder).returncode == 0


def test_the_wheel_installs_the_client_without_the_server(installed: Path) -> None:
    listed = run(UV, "pip", "freeze", "--python", installed.parent, folder=installed)
    names = {line.partition("==")[0].partition(" @")[0] for line in listed.stdout.split("\n") if line}

    assert names <= PACKAGES, names - PACKAGES
    assert run(installed / "statecore", "--version", folder=installed).stdout == f"statecore {__version__}\n"
    program = "import statecore_client as client; client.Client, client.AsyncClient, client.Worker"
    assert run(installed / "python", "-c", program, folder=installed).returncode == 0


def test_verifying_names_the_extra_that_it_needs(installed: Path) -> None:
    done = run(installed / "statecore", "verify", "--key", "k", "proof.json", folder=installed)

    assert done.returncode == 2
    assert 'pip install "statecore-client[verify]"' in done.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Ends with this module, unlike that of the plugin: five idle processes would slow down all later tests."""
    with running_server() as server:
        yield server


def test_the_installed_client_works_with_a_throw_away_server(installed: Path, server: Server) -> None:
    with Client(server.url, server.token) as client:
        client.create("phases", id="PH-1")

    place = ["--url", server.url]
    environment = {"STATECORE_TOKEN": server.token, "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [installed / "statecore", *place, "get", "phases", "PH-1"], env=environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "PH-1" in done.stdout
