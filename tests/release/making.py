"""Makes a release from the files of this checkout, and installs it from there."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.workspace import Installation
from tests.support.site import ROOT

UV = Path(sys.executable).with_name("uv")
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".state", "__pycache__", "*.egg-info", "build", "dist")
COMMIT = """
umask {umask}
git init --quiet && git add --all
git -c user.name=me -c user.email=me@shop.example commit --quiet --message "A release"
ln -s {environment} .venv
scripts/release {dist}
"""
BILL = "cyclonedx-bom"
DATE = {"GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z"}


def run(*words: str | Path, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a program with nothing of this checkout in its environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("STATECORE_", "PYTHON"))}
    return subprocess.run(
        words, cwd=folder, env={**inherited, **environ}, capture_output=True, text=True, timeout=240, check=False
    )


def make_release(folder: Path, umask: str = "022") -> Path:
    """Commits a copy of the checkout and makes a release of it. Returns the folder of its files."""
    copy, dist = folder / "project", folder / "dist"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    commands = COMMIT.format(umask=umask, environment=ROOT / ".venv", dist=dist)
    done = run("/bin/bash", "-e", "-c", commands, folder=copy, **DATE)
    if (
        done.returncode
        and run(UV, "tool", "run", "--from", BILL, "cyclonedx-py", "--version", folder=folder).returncode
    ):
        pytest.skip("the package index is not reachable")
    assert done.returncode == 0, done.stderr
    return dist


def shared_release() -> Path:
    """The folder of a release that is made once for all processes of the test run."""
    base = Path(os.environ["STATECORE_TEST_BASE"])
    with (base / "release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        dist = base / "release" / "dist"
        return dist if (dist / "requirements.lock").exists() else make_release(base / "release")


def install(folder: Path, dist: Path) -> Installation:
    """Installs the release into a new environment. Commands are typed in an empty folder."""
    environment, empty = folder / "environment", folder / "empty"
    empty.mkdir()
    python = environment / "bin" / "python"
    assert run(UV, "venv", "--python", sys.executable, environment, folder=folder).returncode == 0
    words = ["pip", "install", "--python", python, "--find-links", dist, "--constraint", dist / "requirements.lock"]
    done = run(UV, *words, "statecore", folder=folder)
    assert done.returncode == 0, done.stderr
    return Installation(empty, environment / "bin", environment)
