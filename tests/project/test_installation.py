"""`scripts/venv` and `scripts/test` on a machine where packages of the system are missing.

Small programs take the place of `python3`, `apt-get` and `id`; `test_bare_debian.py` does the same in a real system.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.site import ROOT

TOOLS = ("bash", "cat", "cmp", "cp", "dirname", "env", "sed")
pytestmark = pytest.mark.starts_processes

LOCK, DEVELOPERS_LOCK = "requirements.lock", "requirements-dev.lock"

PYTHON = """#!/bin/sh
[ -e {installed} ] || export PYTHONPATH={without_ensurepip}
exec {python} "$@"
"""
APT_GET = """#!/bin/sh
echo "$*" >>{log}
[ "$1" != install ] || : >{installed}
"""


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@dataclass
class Machine:
    """A checkout with empty lock files, and a PATH with a Python that lacks ensurepip until apt-get installs it."""

    folder: Path

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def apt_log(self) -> Path:
        return self.folder / "apt.log"

    def make(self) -> None:
        programs, installed = self.folder / "bin", self.folder / "installed"
        without_ensurepip = self.folder / "without"
        for folder in (programs, self.checkout, without_ensurepip):
            folder.mkdir()
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")
        for lock in (LOCK, DEVELOPERS_LOCK):
            (self.checkout / lock).touch()
        for tool in TOOLS:
            (programs / tool).symlink_to(shutil.which(tool) or tool)
        (without_ensurepip / "ensurepip.py").write_text("raise ModuleNotFoundError(name='ensurepip')\n")
        python = Path(sys.executable).resolve()
        write_program(
            programs / "python3",
            PYTHON.format(installed=installed, without_ensurepip=without_ensurepip, python=python),
        )
        write_program(programs / "apt-get", APT_GET.format(log=self.apt_log, installed=installed))
        self.become("0")

    def become(self, user_id: str) -> None:
        write_program(self.folder / "bin" / "id", f"#!/bin/sh\necho {user_id}\n")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environ = {"PATH": str(self.folder / "bin"), "HOME": str(self.folder)}
        return subprocess.run(command, cwd=self.checkout, env=environ, capture_output=True, text=True, timeout=120)

    def has_pip(self) -> bool:
        return self.run(".venv/bin/python", "-m", "pip", "--version").returncode == 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.make()
    return machine


def test_root_gets_the_missing_package_installed_and_the_environment_is_kept(machine: Machine) -> None:
    ended = machine.run("scripts/venv", LOCK)

    assert ended.returncode == 0, ended.stderr
    assert machine.apt_log.read_text().splitlines()[-1].endswith("python3 python3-venv")
    assert machine.has_pip()

    mark = machine.checkout / ".venv" / "mark"
    mark.touch()
    ended = machine.run("scripts/venv", LOCK)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert mark.exists()


def test_other_users_get_one_sentence_that_names_the_package(machine: Machine) -> None:
    machine.become("1000")

    ended = machine.run("scripts/venv", LOCK)

    assert ended.returncode == 1
    (sentence,) = ended.stderr.splitlines()
    assert sentence.startswith("statecore: ")
    assert "python3-venv" in sentence
    assert not machine.apt_log.exists()
    assert not (machine.checkout / ".venv").exists()


def test_an_environment_without_pip_is_created_again(machine: Machine) -> None:
    machine.run("python3", "-m", "venv", "--without-pip", ".venv")
    assert not machine.has_pip()

    ended = machine.run("scripts/venv", LOCK)

    assert ended.returncode == 0, ended.stderr
    assert machine.has_pip()


def test_scripts_test_names_every_missing_package_in_one_sentence(machine: Machine) -> None:
    machine.become("1000")

    ended = machine.run("scripts/test")

    assert ended.returncode == 1
    (sentence,) = ended.stderr.splitlines()
    for package in ("git", "curl", "openssl", "chromium-headless-shell"):
        assert package in sentence
